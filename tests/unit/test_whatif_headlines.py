"""Headlines of what-ifs on the sample fleet, worked out from the store's tables in plain arithmetic."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.store.connection import Store
from gpucost.store.usage import read_idle, read_levels

OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
START, END = OCTOBER.start_ms, OCTOBER.end_ms
Span = tuple[int, int]
Prices = dict[int, list[tuple[int, int, float]]]


def ask(demo: Config, words: str) -> Any:
    result = CliRunner().invoke(app, f"whatif {words} --month 2026-10 --format json --config {demo.path}".split())
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows(demo: Config, query: str) -> list[tuple[Any, ...]]:
    """Rows of the attributed store."""
    answer: list[tuple[Any, ...]] = pipeline.read_attributed(demo, Store(demo.store), lambda con: con.execute(query).fetchall())
    return answer


def prices(demo: Config) -> Prices:
    """What a node costs an hour, and from when to when."""
    found: Prices = defaultdict(list)
    for node, start, end, price in rows(demo, "SELECT node_id, from_ms, to_ms, price_per_hour FROM node_prices ORDER BY ALL"):
        found[node].append((start, end, float(price)))
    return found


def paid(steps: list[tuple[int, int, float]], span: Span) -> float:
    return sum(max(0, min(end, span[1]) - max(start, span[0])) / MS_PER_HOUR * price for start, end, price in steps)


def test_reserving_saves_what_a_node_that_is_always_on_costs_less(demo: Config) -> None:
    answer = ask(demo, "reserve")
    hours: dict[str, float] = defaultdict(float)
    for kind, up, down in rows(demo, "SELECT instance_type, up_from_ms, up_to_ms FROM nodes WHERE capacity_type = 'on_demand'"):
        hours[kind] += max(0, min(down, END) - max(up, START)) / MS_PER_HOUR
    # one g4dn.12xlarge, all month: $3.519 an hour on demand, $2.465 reserved for a year
    assert hours["g4dn.12xlarge"] == 744
    assert answer["saving"] == pytest.approx(744 * (3.519 - 2.465)) == pytest.approx(784.176)
    # of the p4d a savings plan covers most; what is left is too little for another node at $9.374, even in one piece
    covered = sum(one["covered_instance_hours"] for one in answer["existing_commitments"] if one["type"] == "Savings Plan")
    left = hours["p4d.24xlarge"] - covered
    assert left * 15.588 == pytest.approx(answer["today"]["cost"] - 744 * 3.519, rel=1e-6)
    assert 0 < left * 15.588 < 744 * 9.374


def test_sharing_saves_the_gpus_that_first_fit_leaves_over(demo: Config) -> None:
    """Pods with one GPU of a team, as busy as their workload's busiest: up to 80 % of a GPU, four at most."""
    answer = ask(demo, "share")
    costs = prices(demo)
    store = Store(demo.store)
    measured = pipeline.read_attributed(demo, store, lambda con: list(read_levels(con, demo.activity, OCTOBER)))
    busy = {(level["cluster"], level["uid"]): level["high_activity"] for level in measured if level["high_activity"] is not None}
    pods = rows(
        demo,
        "SELECT DISTINCT a.cluster, a.uid, a.namespace, a.workload, c.team, n.gpu_model, n.capacity_type, a.node_id, n.gpu_count,"
        " a.held_from_ms, a.held_to_ms"
        " FROM allocations AS a JOIN nodes AS n USING (node_id) JOIN cost_daily AS c USING (allocation_id) WHERE a.gpus = 1",
    )
    busiest: dict[tuple[str, str, str], float] = defaultdict(float)
    for cluster, uid, namespace, workload, *_, start, end in pods:
        if start >= END or end <= START:
            continue
        busiest[cluster, namespace, workload] = max(busiest[cluster, namespace, workload], busy.get((cluster, uid), 0.0))
    places = defaultdict(list)
    for cluster, uid, namespace, workload, team, model, capacity, node, gpus, start, end in pods:
        start, end = max(start, START), min(end, END)
        need = busiest[cluster, namespace, workload] * 1.1
        if start < end and (cluster, uid) in busy and 2 * need <= 0.8 + 1e-9:
            places[cluster, model, capacity, team].append((start, -need, uid, end, node, gpus))
    before = after = 0.0
    shared = 0
    for group in places.values():
        shared += len(group)
        gpus_used: list[dict[str, Any]] = []
        for start, less, _, end, node, gpus in sorted(group):
            before += paid(costs[node], (start, end)) / gpus
            for gpu in gpus_used:
                on_it = [(stop, need) for stop, need in gpu["pods"] if stop > start]
                if on_it and len(on_it) < 4 and sum(need for _, need in on_it) - less <= 0.8 + 1e-9:
                    break
            else:
                gpu = {"from": start, "node": node, "gpus": gpus, "pods": []}
                gpus_used.append(gpu)
            gpu["pods"].append((end, -less))
        for gpu in gpus_used:
            steps, last = costs[gpu["node"]], max(stop for stop, _ in gpu["pods"])
            # a GPU that is shared may outlive its first pod's node: at its last price
            steps = [
                (-(2**62) if not i else low, 2**62 if i == len(steps) - 1 else high, p) for i, (low, high, p) in enumerate(steps)
            ]
            after += paid(steps, (gpu["from"], last)) / gpu["gpus"]
    assert shared == answer["pods_shared"] > 10
    assert answer["saving"] == pytest.approx(before - after, abs=0.01)
    assert answer["saving"] > 1000


def test_a_schedule_saves_the_hours_in_which_nodes_are_empty(demo: Config) -> None:
    """Notebooks give up GPUs after an hour at rest, nodes go after ten minutes without a pod; all are back at once."""
    answer = ask(demo, "schedule --provision-minutes 0 --restart-minutes 0")
    costs = prices(demo)
    idle: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for row in pipeline.read_attributed(
        demo, Store(demo.store), lambda con: list(read_idle(con, demo.activity, OCTOBER, 3_600_000))
    ):
        idle[row["cluster"], row["uid"]].append((row["from_ms"], row["to_ms"]))
    held: dict[int, list[Span]] = defaultdict(list)
    for cluster, uid, workload, node, start, end in rows(
        demo, "SELECT cluster, uid, workload, node_id, held_from_ms, held_to_ms FROM allocations WHERE gpus > 0"
    ):
        start, end = max(start, START), min(end, END)
        if start >= end:
            continue
        spans, at = [], start
        for low, high in sorted(idle[cluster, uid]) if "jupyter" in workload or "notebook" in workload else ():
            if high - low > 3_600_000:
                spans.append((at, max(low + 3_600_000, at)))
                at = max(at, min(high, end))
        held[node] += [span for span in (*spans, (at, end)) if span[0] < span[1]]
    saved = hours = 0.0
    for node, capacity, up, down in rows(demo, "SELECT node_id, capacity_type, up_from_ms, up_to_ms FROM nodes"):
        up, down = max(up, START), min(down, END)
        if up >= down or capacity in ("reserved", "capacity_block"):
            continue
        kept = [[up, min(up + 600_000, down)]]
        for low, high in sorted(held[node]):
            if low >= kept[-1][1]:
                kept.append([low, low])
            kept[-1][1] = max(kept[-1][1], min(high + 600_000, down))
        saved += paid(costs[node], (up, down)) - sum(paid(costs[node], (low, high)) for low, high in kept)
        hours += (down - up - sum(high - low for low, high in kept)) / MS_PER_HOUR
    assert answer["waits"] == 0
    assert answer["removed_node_hours"] == pytest.approx(hours, abs=0.01)
    assert answer["saving"] == pytest.approx(saved, abs=0.05) and saved > 3000
