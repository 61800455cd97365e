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
from tests.replay.cases.words import fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_book, write_config
from tests.replay.scrape import scrape
from tests.shared import shared

FLEET = "data/billing/generated/nise/dev-gpu"
pytestmark = [pytest.mark.shared, pytest.mark.slow]

HOUR, GPUS = 3600, 8
TYPES = {"i-0aa11bb22cc33dd41": "p5.48xlarge", "i-0aa11bb22cc33dd42": "p4d.24xlarge"}
PLACES = {"train-a": "i-0aa11bb22cc33dd41", "serve-b": "i-0aa11bb22cc33dd41", "nb-c": "i-0aa11bb22cc33dd42"}
SLICES = {"3g.40gb": 3, "1g.10gb": 1}
#: Where a line item says what it cost: the plan's effective cost if one covers it.
COSTS = {"Usage": "lineItem/UnblendedCost", "SavingsPlanCoveredUsage": "savingsPlan/SavingsPlanEffectiveCost"}


def read(files: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for path in sorted(shared(FLEET).glob(files)):
        rows += csv.DictReader(path.read_text().splitlines())
    return rows


def second(text: str) -> int:
    return int(datetime.fromisoformat(text.replace(" +0000 UTC", "+00:00")).timestamp())


def usage() -> tuple[Fleet, dict[str, dict[int, Decimal]]]:
    """The fleet as Prometheus would have scraped it, and by pod and hour the GPU-hours that OpenShift counted."""
    machines = {row["node"]: row["resource_id"] for row in read("ocp/*-ocp_pod_usage.csv")}
    held: dict[tuple[int, str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in read("ocp/*-ocp_gpu_usage.csv"):
        held[second(row["interval_start"]), row["node"], row["namespace"], row["pod"]].append(row)
    counted: dict[str, dict[int, Decimal]] = defaultdict(dict)
    pods: list[dict[str, Any]] = []
    cut: dict[str, dict[str, Any]] = defaultdict(dict)
    for (hour, where, namespace, name), rows in sorted(held.items()):
        end = hour + int(float(rows[0]["gpu_pod_uptime"]))
        profiles = list(enumerate((row["mig_profile"] for row in rows if row["mig_profile"]), 1))
        share = (
            Decimal(sum(SLICES[profile] for _, profile in profiles)) / 7 if profiles else Decimal(len(rows))
        )
        counted[name][hour] = share * (end - hour) / HOUR
        earlier = [one for one in pods if one["name"] == name]
        if earlier and earlier[-1]["to"] == hour:
            earlier[-1] |= {"to": end, "keep_until": end}
            continue
        asked: list[tuple[str, list[Any]]] = [("nvidia_com_gpu", list(range(len(rows))))]
        if profiles:
            cut[where][f"GPU-{where}-7"] = [{"gi": gi, "profile": profile} for gi, profile in profiles]
            asked = [(f"nvidia_com_mig_{profile.replace('.', '_')}", [(7, gi)]) for gi, profile in profiles]
        # a pod that is up for half of each hour is another one each time, and one per slice
        for resource, devices in asked:
            facts = {
                "uid": f"{name}-{hour}-{resource}",
                "resource": resource,
                "scheduled": hour,
                "from": hour,
            }
            pods.append(pod(name, where, devices, 0, 0, namespace, **facts, to=end, keep_until=end))
    hours = [hour for hour, *_ in held]
    life = {
        "from": min(hours),
        "to": max(hours) + HOUR,
        "region": "us-east-1",
        "zone": "us-east-1a",
        "provider": "eks",
    }
    nodes = [
        node(name, TYPES[key], 0, 0, provider_id=f"aws:///us-east-1a/{key}", mig=cut[name], **life)
        for name, key in machines.items()
        if key in TYPES
    ]
    span = {"start": life["from"], "end": life["to"], "scrape": 300}
    return fleet(0, nodes, pods, {}) | span, counted


def billed() -> dict[str, dict[int, Decimal]]:
    """By instance and hour, what the bill says it cost."""
    costs: dict[str, dict[int, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in read("aws/*.csv"):
        cost = COSTS.get(row["lineItem/LineItemType"])
        if cost and row["lineItem/UsageType"].startswith("BoxUsage"):
            costs[row["lineItem/ResourceId"]][second(row["lineItem/UsageStartDate"])] += Decimal(row[cost])
    return costs


def test_pods_cost_what_the_bill_says_and_every_cent_is_named(tmp_path: Path) -> None:
    described, counted = usage()
    book = write_book(tmp_path, (f",,,{kind},,1,USD," for kind in TYPES.values()))
    config = write_config(described, tmp_path, book)
    store = load(described, scrape(described, lean=True), config, hours_per_window=48)
    assert not collect_bills(store, [LocalTree(shared(FLEET) / "aws")], "aws").errors
    pipeline.attribute(config, store)
    costs = billed()
    pods = "SELECT pod, sum(cost) FROM cost_hourly JOIN allocations USING (allocation_id) WHERE estimated_cost = 0 GROUP BY pod"
    said = dict(store.query(pods)[1])
    for name, hours in counted.items():
        truth = sum(share / GPUS * costs[PLACES[name]][hour] for hour, share in hours.items())
        assert abs(Decimal(str(said[name])) - truth) < Decimal("0.005"), name
    for month in ("2026-03", "2026-04"):
        account = reconciliation(config, store, month)
        assert abs(account.difference) < Decimal("0.005")
        assert not any("has no cause" in problem for problem in account.problems)
        assert account.lines["outside_node_life"] == 0
