"""Holds a store's figures against a case's true ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.oracle.calculation import held_gpus
from tests.replay.compare import FLEET_HOURS, FLEET_MONEY, HOURS, MONEY, differences, slack_of_pods
from tests.replay.fleet import Fleet, is_on, period_of, read_expected, read_fleet
from tests.replay.result import by_pod, total, unpaid


def check_figures(case: Path, store: Store) -> None:
    """Fails with one line per figure of a pod, a namespace or the total that is not true."""
    fleet, expected = read_fleet(case), read_expected(case)
    start, end = (second * 1000 for second in period_of(fleet))
    pods, everything = by_pod(store, start, end), total(store, start, end)
    wrong: list[str] = []
    slacks: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for told in expected["by_pod"]:
        key = (told["cluster"], told["namespace"], told["pod"], told["uid"])
        held, edges = _held(fleet, told["uid"], told["cluster"])
        rate = told.get("cost", 0) / told.get("allocated_gpu_hours", 1)
        slacks.setdefault(key[:2], []).append((held, rate, edges))
        wrong += differences(
            told["uid"],
            _told(pods.pop(key, Figures())),
            told,
            (*HOURS, *MONEY),
            slack_of_pods(fleet, [(held, rate, edges)]),
        )
    wrong += [
        f"{key}: was not there, and has {_told(figures)}"
        for key, figures in pods.items()
        if figures.allocated_gpu_hours or figures.cost
    ]
    names = by_pod(store, start, end)
    for told in expected["by_namespace"]:
        where = (told["cluster"], told["namespace"])
        figures = sum((f for key, f in names.items() if key[:2] == where), Figures())
        wrong += differences(
            told["namespace"], _told(figures), told, (*HOURS, *MONEY), slack_of_pods(fleet, slacks[where])
        )
    slack = slack_of_pods(fleet, [pod for pods_held in slacks.values() for pod in pods_held])
    slack |= slack_of_nodes(fleet, expected, slack)
    wrong += differences(
        "total", _told(everything), expected["total"], (*HOURS, *MONEY, *FLEET_HOURS, *FLEET_MONEY), slack
    )
    assert not wrong, "\n".join(wrong)
    assert not unpaid(store)
    assert abs(everything.cost + everything.unallocated_cost - everything.node_cost) <= 1e-6


def _told(figures: Figures) -> dict[str, Any]:
    return figures.rounded()


def _held(fleet: Fleet, uid: str, cluster: str) -> tuple[float, int]:
    """GPUs that a pod holds, and how many of its two edges no timestamp metric fixes."""
    pod = next(p for p in fleet["pods"] if p["uid"] == uid and p["cluster"] == cluster)
    node = next(n for n in fleet["nodes"] if is_on(pod, n))
    gpus = float(held_gpus(node, pod))
    listed = min(pod["keep_until"], fleet["end"])
    ends_known = pod["to"] >= fleet["end"] or (
        listed - pod["to"] > 2 * fleet["scrape"] and pod["to"] < node["to"]
    )
    return gpus, (not pod.get("timestamps", True)) + (not ends_known)


def slack_of_nodes(fleet: Fleet, expected: dict[str, Any], pods: dict[str, float]) -> dict[str, float]:
    """A node's last moment is known to one scrape; so is what a pod at its edge leaves unallocated."""
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
