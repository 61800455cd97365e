"""Waiting cost of random queues: the figures of a plain calculation by minute, and its bounds."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.questions.queue.waits import queues
from tests.property.fleets import period
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_book, write_config
from tests.replay.scrape import scrape

HOURS, NAMES, QUOTA = 3, ("a", "b", "c"), {"a": 3, "b": 4, "c": 5}
BOOK = [",,,p4de.24xlarge,on_demand,40.00,USD,", ",,,g6.12xlarge,on_demand,4.80,USD,"]
PRICE, SIZE = {"big": 5.0, "small": 1.2}, {"big": 8, "small": 4}
MINUTES = range(HOURS * 60)


def made(seed: int) -> tuple[Fleet, list[Any]]:
    """Return a fleet of pods that run or wait in three queues, and (queue, node, GPUs, from, to) of each; minutes."""
    dice = random.Random(seed)
    free = {where: [set(range(size)) for _ in MINUTES] for where, size in SIZE.items()}
    pods, facts = [], []
    for number in range(24):
        queue, start = dice.choice(NAMES), dice.randrange(0, 150)
        end = min(start + dice.randrange(5, 90), HOURS * 60)
        where, count = dice.choice(["big", "big", "small", None, None]), dice.choice([1, 1, 2, 4])
        devices = sorted(set.intersection(*free[where][start:end]))[:count] if where else []
        if where and len(devices) < count:
            where, devices = None, []
        for minute in range(start, end) if where else ():
            free[where][minute] -= set(devices)
        labels = {"kueue_x_k8s_io_cluster_queue_name": queue}
        facts.append((queue, where, count, start, end))
        more = {"labels": labels, "count": count, "keep_until": at(end / 60)}
        pods.append(pod(f"p{number}", where, devices, start / 60, end / 60, "train", **more))
    gauges: dict[str, list[Any]] = {"nominal_quota": [], "resource_usage": []}
    for queue in NAMES:
        labels = {"cohort": "g", "cluster_queue": queue, "flavor": "any", "resource": "nvidia.com/gpu"}
        used = [(at(minute / 60), at((minute + 1) / 60), held(facts, queue, minute)) for minute in MINUTES]
        gauges["nominal_quota"].append([labels, [at(0), at(HOURS), QUOTA[queue]]])
        gauges["resource_usage"].append([labels, *used])
    nodes = [node("big", "p4de.24xlarge", 0, HOURS), node("small", "g6.12xlarge", 0, HOURS)]
    metrics = {f"kueue_cluster_queue_{name}": rows for name, rows in gauges.items()}
    return fleet(HOURS, nodes, pods, {}, queues=metrics), facts


def held(
    facts: list[Any], queue: str | None, minute: int, where: str | None = None, waits: bool = False
) -> int:
    """Return the GPUs that pods hold, or wait for, in this minute."""
    return sum(
        gpus
        for name, at_node, gpus, start, end in facts
        if queue in (name, None)
        and start <= minute < end
        and (at_node is None) == waits
        and where in (at_node, None)
    )


def calculated(facts: list[Any]) -> tuple[dict[str, Any], dict[str, float], dict[str, float]]:
    """Return by queue the pending GPU-hours, and the cost of unallocated and of borrowed GPUs, by minute."""
    time = {queue: dict.fromkeys(SIZE, 0.0) for queue in NAMES}
    for queue, where, gpus, start, end in facts:
        if where:
            time[queue][where] += gpus * (end - start)
    share = {
        queue: {w: t / sum(times.values()) for w, t in times.items()}
        for queue, times in time.items()
        if any(times.values())
    }
    pending, free_cost, borrowed_cost = defaultdict(float), defaultdict(float), defaultdict(float)
    for minute in MINUTES:
        waiting = {queue: held(facts, queue, minute, waits=True) for queue in NAMES}
        free, limited, priced = defaultdict(float), defaultdict(float), defaultdict(float)
        for where, price in PRICE.items():
            wanted = {q: waiting[q] * share[q][where] for q in share}
            unheld = SIZE[where] - held(facts, None, minute, where)
            for queue in wanted:
                part = wanted[queue] * min(1.0, unheld / (sum(wanted.values()) or 1))
                free[queue] += part
                most = wanted[queue] * min(1.0, SIZE[where] / (sum(wanted.values()) or 1))
                limited[queue] += most
                priced[queue] += most * price
                free_cost[queue] += part * price / 60
        used = {queue: held(facts, queue, minute) for queue in NAMES}
        starved = {q: min(limited[q] - free[q], max(0, QUOTA[q] - used[q])) for q in share}
        borrowed = sum(max(0, used[queue] - QUOTA[queue]) for queue in NAMES)
        for queue in NAMES:
            pending[queue] += waiting[queue] / 60
        for queue in share:
            price = priced[queue] / (limited[queue] or 1)
            part = starved[queue] * borrowed / max(sum(starved.values()), borrowed, 1e-9)
            borrowed_cost[queue] += part * price / 60
    return pending, free_cost, borrowed_cost


@pytest.mark.parametrize(
    "seed", [1, pytest.param(3, marks=pytest.mark.ci), pytest.param(4, marks=pytest.mark.ci)]
)
def test_waiting_cost_is_the_one_by_minute_and_within_its_bounds(seed: int, tmp_path: Path) -> None:
    described, facts = made(seed)
    config = write_config(described, tmp_path, write_book(tmp_path, BOOK))
    store, span = (
        load(described, scrape(described, lean=True), config),
        period(described["start"], described["end"]),
    )
    pipeline.attribute(config, store, span)
    with store.read() as con:
        found, _, pairs, _ = queues(con, span)
        ((unallocated,),) = con.execute("SELECT sum(unallocated_cost) FROM costs").fetchall()
    pending, free_cost, borrowed_cost = calculated(facts)
    assert (
        {row.cluster_queue for row in found} == set(NAMES)
        and any(free_cost.values())
        and any(borrowed_cost.values())
    )
    for row in found:
        name = row.cluster_queue
        assert row.pending_gpu_hours == pytest.approx(pending[name], abs=1e-6)
        assert float(row.waiting_unallocated_cost or 0) == pytest.approx(free_cost[name], abs=1e-6)
        assert float(row.waiting_borrowed_cost or 0) == pytest.approx(borrowed_cost[name], abs=1e-6)
        assert float(row.waiting_cost or 0) <= pending[name] * max(PRICE.values()) + 1e-6
    assert sum(row.waiting_unallocated_cost or 0 for row in found) <= unallocated
    for kind, most in (("idle", free_cost), ("borrowed", borrowed_cost)):
        cost = sum(float(pair.cost) for pair in pairs if pair.quota == kind)
        assert cost <= sum(most.values()) + 1e-6
