"""Advice of the sample fleet's first month, followed in its second: it saves what was promised, within the range stated."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.whatif.commitments import StoredCommitments
from gpucost.store.connection import Store
from gpucost.whatif.curve import counted
from gpucost.whatif.fleet import Fleet, Scope, read_stored
from gpucost.whatif.spot.advice import SAFE, advise
from tests.unit.whatif_costs import ask

pytestmark = [pytest.mark.slow, pytest.mark.ci]
OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))

SEPTEMBER_HOURS = 30 * 24
PLAYS = 200


def promised(demo: Config, words: str) -> dict[str, Any]:
    return ask(words, f"--month 2026-09 --config {demo.path}")


def october(demo: Config) -> Fleet:
    return pipeline.read_attributed(
        demo, Store(demo.store), lambda con: read_stored(con, OCTOBER, Scope()).fleet
    )


def test_commitments(demo: Config) -> None:
    answer = promised(demo, "reserve")
    nodes = [node for node in october(demo).nodes if node.capacity_type == "on_demand"]
    covered = StoredCommitments(demo, Store(demo.store), OCTOBER).existing.covered
    assert any(one.curve.node_hours for one in covered.values()), "the bill has commitments"
    saved = least = most = 0.0
    for best in answer["best"]:
        own = [node for node in nodes if node.instance_type == best["instance_types"]]
        up = counted(
            ((node.from_ms, node.to_ms, 1.0) for node in own), OCTOBER.start_ms, OCTOBER.end_ms
        ).levels
        had = covered.get((best["provider"], best["region"], best["instance_types"]))
        left = [
            max(0.0, level - less)
            for level, less in zip(up, had.curve.levels if had else cycle([0.0]), strict=False)
        ]
        used = sum(min(level, best["instances"]) for level in left) / len(left)
        # October is longer: savings are per hour
        saved += (
            used * best["on_demand_price_per_node_hour"]
            - best["instances"] * best["committed_price_per_node_hour"]
        )
        rows = [row for row in answer["regret"] if row["family"] == best["family"]]
        changes = [
            row["still_saves"] / SEPTEMBER_HOURS for row in rows if abs(row["usage_change_percent"]) == 20
        ]
        least, most = least + min(changes), most + max(changes)
    assert sum(best["instances"] for best in answer["best"]) > 0
    assert least - 1e-9 <= saved <= most + 1e-9, (answer["saving"], saved)


def test_spot(demo: Config) -> None:
    """Runs that September's answer calls safe move in October; each is played by itself, interrupted at random."""
    answer = promised(demo, "spot")
    cases = {
        row["interruptions"]: row for row in answer["tables"]["What moves, by how often it is interrupted"]
    }
    given = {one["name"]: one["value"] for one in answer["assumptions"]}
    rates = {name.removeprefix("interruptions of "): value for name, value in given.items()}
    spot = {name.split()[2]: value for name, value in given.items() if name.startswith("price of")}
    restart = given["restart (provision, pull, load)"] / 60
    fleet = october(demo)
    draw = random.Random(20261001)
    before = after = 0.0
    moved = 0
    for pod in fleet.pods:
        node = fleet.by_name[pod.place]
        kind = node.instance_type or ""
        is_safe = advise(pod.workload, pod.namespace, pod.workload_type).suits == SAFE
        if node.capacity_type != "on_demand" or kind not in spot or not is_safe:
            continue
        hours, share, rate = pod.length_ms / MS_PER_HOUR, pod.gpus / node.gpus, rates[kind]
        expected = math.exp(rate * restart) * math.expm1(rate * hours) / rate
        if expected * spot[kind] >= hours * node.mean_price:
            continue  # doing it again would cost more than spot saves: stays
        moved += 1
        before += hours * share * node.mean_price
        for _ in range(PLAYS):
            paid, needed = 0.0, hours
            while (lived := draw.expovariate(rate)) < needed:
                paid, needed = paid + lived, restart + hours
            after += (paid + needed) * share * spot[kind] / PLAYS
    assert moved > 5
    # as many node-hours move as did in September, or about
    moving = answer["tables"]["Workloads on nodes that could move"]
    scale = before / sum(row["today"] for row in moving if row["suits spot"] == "safe")
    assert cases["high"]["saving"] * scale <= before - after <= cases["low"]["saving"] * scale
    assert before - after == pytest.approx(answer["saving"] * scale, rel=0.4)
