"""A generated GPU fleet in ../shared: OpenShift's usage priced by the cloud's bill, to the cent."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.questions.reconcile import reconciliation
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.shared import shared

FLEET = "data/billing/generated/nise/dev-gpu"
pytestmark = [pytest.mark.shared, pytest.mark.slow]

HOUR = 3600
GPUS = 8
TYPES = {
    "i-0aa11bb22cc33dd41": ("p5.48xlarge", "NVIDIA H100 80GB HBM3"),
    "i-0aa11bb22cc33dd42": ("p4d.24xlarge", "NVIDIA A100-SXM4-40GB"),
}
SLICES = {"3g.40gb": 3, "1g.10gb": 1}


def read(kind: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for path in sorted((shared(FLEET) / "ocp").glob(f"*-ocp_{kind}.csv")):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return rows


def second(text: str) -> int:
    return int(datetime.fromisoformat(text.replace(" +0000 UTC", "+00:00")).timestamp())


def usage() -> tuple[dict[str, Any], dict[str, dict[int, Decimal]]]:
    """The fleet as Prometheus would have scraped it, and by pod and hour the GPU-hours that OpenShift counted."""
    machines = {row["node"]: row["resource_id"] for row in read("pod_usage")}
    hours = sorted({second(row["interval_start"]) for row in read("gpu_usage")})
    held: dict[tuple[str, str, str, int], list[dict[str, str]]] = defaultdict(list)
    for row in read("gpu_usage"):
        held[row["node"], row["namespace"], row["pod"], second(row["interval_start"])].append(row)
    counted: dict[str, dict[int, Decimal]] = defaultdict(dict)
    pods: list[dict[str, Any]] = []
    cut: dict[str, dict[str, list[dict[str, str]]]] = defaultdict(dict)
    for (node, namespace, pod, hour), rows in sorted(held.items(), key=lambda item: item[0][3]):
        seconds = int(float(rows[0]["gpu_pod_uptime"]))
        profiles = [row["mig_profile"] for row in rows if row["mig_profile"]]
        share = Decimal(sum(SLICES[profile] for profile in profiles)) / 7 if profiles else Decimal(len(rows))
        counted[pod][hour] = share * seconds / HOUR
        earlier = [told for told in pods if told["name"] == pod]
        if earlier and earlier[-1]["to"] == hour:
            earlier[-1]["to"] = earlier[-1]["keep_until"] = hour + seconds
            continue
        facts = {"cluster": "ml-prod", "namespace": namespace, "name": pod, "node": node, "container": "main"}
        times = {"scheduled": hour, "from": hour, "to": hour + seconds, "keep_until": hour + seconds}
        devices = [{"uuid": f"{node}-{number}"} for number in range(len(rows))]
        asked = [("nvidia_com_gpu", len(rows), devices)]
        if profiles:
            cut[node][f"{node}-7"] = [
                {"gi": str(number), "profile": profile} for number, profile in enumerate(profiles, 1)
            ]
            asked = [
                (f"nvidia_com_mig_{profile.replace('.', '_')}", 1, [{"uuid": f"{node}-7", "gi": str(number)}])
                for number, profile in enumerate(profiles, 1)
            ]
        # a pod that is up for half of each hour is another one each time, and one per slice
        for resource, count, held_devices in asked:
            named = {
                "uid": f"{pod}-{hour}-{resource}",
                "resource": resource,
                "count": count,
                "devices": held_devices,
            }
            pods.append({**facts, **times, **named})
    nodes = [
        {
            "cluster": "ml-prod",
            "name": node,
            "instance_type": TYPES[key][0],
            "gpu_model": TYPES[key][1],
            "region": "us-east-1",
            "zone": "us-east-1a",
            "capacity_type": "on_demand",
            "provider": "eks",
            "provider_id": f"aws:///us-east-1a/{key}",
            "gpus": [f"{node}-{number}" for number in range(GPUS)],
            "mig": cut[node],
            "from": hours[0],
            "to": hours[-1] + HOUR,
        }
        for node, key in machines.items()
        if key in TYPES
    ]
    fleet = {
        "start": hours[0],
        "end": hours[-1] + HOUR,
        "scrape": 300,
        "nodes": nodes,
        "pods": pods,
        "util": {},
    }
    return fleet, counted


def billed() -> dict[str, dict[int, Decimal]]:
    """By instance and hour, what the bill says it cost: the plan's effective cost where one covers it."""
    costs: dict[str, dict[int, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for path in sorted((shared(FLEET) / "aws").glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["lineItem/UsageType"].startswith("BoxUsage") and row["lineItem/LineItemType"] in (
                    "Usage",
                    "SavingsPlanCoveredUsage",
                ):
                    covered = row["lineItem/LineItemType"] == "SavingsPlanCoveredUsage"
                    cost = row[
                        "savingsPlan/SavingsPlanEffectiveCost" if covered else "lineItem/UnblendedCost"
                    ]
                    hour = int(
                        datetime.fromisoformat(
                            row["lineItem/UsageStartDate"].replace("Z", "+00:00")
                        ).timestamp()
                    )
                    costs[row["lineItem/ResourceId"]][hour] += Decimal(cost)
    return costs


def test_pods_cost_what_the_bill_says_and_every_cent_is_named(tmp_path: Path) -> None:
    fleet, counted = usage()
    (tmp_path / "prices.csv").write_text(
        "instance_type,price_per_hour,currency\np5.48xlarge,1,USD\np4d.24xlarge,1,USD\n"
    )
    config = write_config(fleet, tmp_path, tmp_path / "prices.csv")
    store = load(fleet, scrape(fleet, lean=True), config, hours_per_window=48)
    assert not collect_bills(store, [LocalTree(shared(FLEET) / "aws")], "aws").errors
    pipeline.attribute(config, store)
    costs, places = (
        billed(),
        {"train-a": "i-0aa11bb22cc33dd41", "serve-b": "i-0aa11bb22cc33dd41", "nb-c": "i-0aa11bb22cc33dd42"},
    )
    said = dict(
        store.query(
            "SELECT pod, sum(cost) FROM cost_hourly JOIN allocations USING (allocation_id) WHERE estimated_cost = 0 GROUP BY pod"
        )[1]
    )
    for pod, hours in counted.items():
        truth = sum(share / GPUS * costs[places[pod]][hour] for hour, share in hours.items())
        assert abs(Decimal(str(said[pod])) - truth) < Decimal("0.005"), pod
    for month in ("2026-03", "2026-04"):
        account = reconciliation(config, store, month)
        assert abs(account.difference) < Decimal("0.005")
        assert not any("has no cause" in problem for problem in account.problems)
        assert account.lines["outside_node_life"] == 0
