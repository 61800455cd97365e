"""Compare figures with a case's true ones, within the precision of scraping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.oracle.calculation import PodKey
from tests.replay.fleet import Fleet, is_on, period_of, read_expected, read_fleet
from tests.replay.result import by_pod, total, unpaid

RELATIVE = 0.005
HOURS = tuple(f"{name}_gpu_hours" for name in ("allocated", "active", "idle", "unmeasured", "spot"))
FLEET_HOURS = tuple(
    f"{name}_gpu_hours" for name in ("capacity", "unallocated", "unavailable", "over_allocated")
)
MONEY, FLEET_MONEY = ("cost", "idle_cost"), ("node_cost", "unallocated_cost")


def differences(
    what: str,
    actual: Mapping[str, Any],
    expected: Mapping[str, Any],
    measures: tuple[str, ...],
    slack: Mapping[str, float],
) -> list[str]:
    """Return a line per measure that is off by more than 0.5 % plus its slack; measures without an expected value must be 0."""
    wrong = []
    for measure in measures:
        figure, truth = float(actual.get(measure) or 0), float(expected.get(measure) or 0)
        allowed = RELATIVE * abs(truth) + slack.get(measure, 0.0) + 1e-6
        if abs(figure - truth) > allowed:
            wrong.append(f"{what}: {measure} is {figure:.6f}, true is {truth:.6f} (allowed ±{allowed:.6f})")
    return wrong


def slack_of_pods(fleet: Mapping[str, Any], pods: list[tuple[float, float, int]]) -> dict[str, float]:
    """Return the slack of pods, each (GPUs held, price per GPU-hour, edges without a timestamp metric).

    Allocated time and cost: one scrape interval per such edge. Activity is sampled: one interval at each edge of every pod.
    """
    interval = fleet["scrape"] / 3600
    held = sum(edges * interval * gpus for gpus, _, edges in pods)
    cost = sum(edges * interval * gpus * rate for gpus, rate, edges in pods)
    measured = sum(2 * interval * gpus for gpus, _, _ in pods)
    idle_cost = sum(2 * interval * gpus * rate for gpus, rate, _ in pods)
    return {
        **dict.fromkeys(HOURS, measured),
        "allocated_gpu_hours": held,
        "spot_gpu_hours": held,
        "cost": cost,
        "idle_cost": idle_cost,
    }


def check_figures(case: Path, store: Store) -> None:
    """Fail with a line per wrong figure of a pod, a namespace or the total."""
    start, end = (second * 1000 for second in period_of(read_fleet(case)))
    everything = total(store, start, end)
    wrong = wrong_figures(case, by_pod(store, start, end), everything)
    assert not wrong, "\n".join(wrong)
    assert not unpaid(store)
    assert abs(everything.cost + everything.unallocated_cost - everything.node_cost) <= 1e-6


def check_efficiency(case: Path, answer: Mapping[str, Any]) -> None:
    """Fail with each figure of effective cost that differs by more than a millionth; without expected ones, do nothing."""
    names = ("team", "workload", "gpu_model")
    wrong = _wrong_rows(read_expected(case).get("efficiency", []), answer["rows"], names)
    assert not wrong, "\n".join(wrong)


def check_queues(case: Path, answer: Mapping[str, Any]) -> None:
    """Fail with each figure of queues that differs by more than a millionth, and if there are other evictions or pairs."""
    expected = read_expected(case)
    names = ("scheduler", "cluster_queue", "other_queue", "quota", "reason")
    wrong = _wrong_rows(expected["queues"], answer["queues"], names[:2])
    for part in ("evictions", "pairs"):
        wrong += _wrong_rows(expected[part], answer[part], names)
        assert len(answer[part]) == len(expected[part]), answer[part]
    assert not wrong, "\n".join(wrong)


def _wrong_rows(expected: list[Any], rows: list[Any], names: tuple[str, ...]) -> list[str]:
    wrong = []
    for row in expected:
        keys = {name: row[name] for name in names if name in row}
        (found,) = (each for each in rows if keys.items() <= each.items())
        for name, truth in row.items():
            is_near = abs((found[name] or 0) - truth) <= 1e-6 if isinstance(truth, float) else False
            if not is_near and found[name] != truth:
                wrong.append(f"{keys}: {name} is {found[name]}, true is {truth}")
    return wrong


def check_failures(case: Path, answer: Mapping[str, Any]) -> None:
    """Fail unless the incidents are those expected, with figures as near as a scrape."""
    for row, found in zip(read_expected(case)["failures"], answer["incidents"], strict=True):
        near = {
            name: pytest.approx(truth, rel=RELATIVE) if isinstance(truth, float) else truth
            for name, truth in row.items()
        }
        assert {name: found[name] for name in row} == near


def wrong_figures(case: Path, pods: Mapping[PodKey, Figures], everything: Figures) -> list[str]:
    """Return a line per wrong figure of a pod, a namespace or the total."""
    fleet, expected = read_fleet(case), read_expected(case)
    namespaces = defaultdict(Figures)
    for key, figures in pods.items():
        namespaces[key[:2]] += figures
    wrong = []
    slacks = defaultdict(list)
    others = {key for key, figures in pods.items() if figures.allocated_gpu_hours or figures.cost}
    for row in expected["by_pod"]:
        key = (row["cluster"], row["namespace"], row["pod"], row["uid"])
        edges = _edges(fleet, row)
        slacks[key[:2]].append(edges)
        figures = pods.get(key, Figures()).rounded()
        wrong += differences(row["uid"], figures, row, (*HOURS, *MONEY), slack_of_pods(fleet, [edges]))
        others -= {key}
    wrong += [f"{key}: did not exist, but has {pods[key].rounded()}" for key in others]
    for row in expected["by_namespace"]:
        where = (row["cluster"], row["namespace"])
        slack = slack_of_pods(fleet, slacks[where])
        figures = namespaces[where].rounded()
        wrong += differences(row["namespace"], figures, row, (*HOURS, *MONEY), slack)
    slack = slack_of_pods(fleet, [edges for held in slacks.values() for edges in held])
    slack |= slack_of_nodes(fleet, expected, slack)
    measures = (*HOURS, *MONEY, *FLEET_HOURS, *FLEET_MONEY)
    return wrong + differences("total", everything.rounded(), expected["total"], measures, slack)


def _edges(fleet: Fleet, row: dict[str, Any]) -> tuple[float, float, int]:
    """Return a pod's GPUs, their price per hour, and how many of its two edges have no timestamp metric."""
    pod = next(p for p in fleet["pods"] if (p["uid"], p["cluster"]) == (row["uid"], row["cluster"]))
    node = next(n for n in fleet["nodes"] if is_on(pod, n))
    start, end = period_of(fleet)
    seconds = min(pod["to"], node["to"], end) - max(pod["scheduled"], node["from"], start)
    hours = row.get("allocated_gpu_hours", 0)
    listed = min(pod["keep_until"], fleet["end"])
    ends_known = pod["to"] >= fleet["end"] or (
        listed - pod["to"] > 2 * fleet["scrape"] and pod["to"] < node["to"]
    )
    edges = (not pod.get("timestamps", True)) + (not ends_known)
    return hours * 3600 / max(seconds, 1), row.get("cost", 0) / (hours or 1), edges


def slack_of_nodes(fleet: Fleet, expected: dict[str, Any], pods: dict[str, float]) -> dict[str, float]:
    """Return the slack of the total: a node's end, and the unallocated time at a pod's edge, are known to one scrape."""
    interval = fleet["scrape"] / 3600
    ended = [n for n in fleet["nodes"] if n["to"] < fleet["end"]]
    hours = sum(len(n["gpus"]) for n in ended) * interval
    rate = expected["total"]["node_cost"] / expected["total"]["capacity_gpu_hours"]
    edges = sum(
        len(n.get(kind, [])) * 2 * len(n["gpus"])
        for n in fleet["nodes"]
        for kind in ("cordoned", "not_ready", "allocatable")
    )
    return {
        "capacity_gpu_hours": hours,
        "node_cost": 4 * hours * rate,
        "unallocated_gpu_hours": hours + pods["allocated_gpu_hours"],
        "unallocated_cost": 4 * hours * rate + pods["cost"],
        "unavailable_gpu_hours": edges * interval,
        "over_allocated_gpu_hours": pods["allocated_gpu_hours"],
    }
