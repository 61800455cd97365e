"""Compares figures with a case's expected ones, within what scraping can know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """One line per measure that is further off than 0.5 % plus its slack; what is not expected is expected to be 0."""
    wrong = []
    for measure in measures:
        said, truth = float(actual.get(measure) or 0), float(expected.get(measure) or 0)
        allowed = RELATIVE * abs(truth) + slack.get(measure, 0.0) + 1e-6
        if abs(said - truth) > allowed:
            wrong.append(f"{what}: {measure} is {said:.6f}, true is {truth:.6f} (allowed ±{allowed:.6f})")
    return wrong


def slack_of_pods(fleet: Mapping[str, Any], pods: list[tuple[float, float, int]]) -> dict[str, float]:
    """What scraping cannot know of pods, each (GPUs held, price per GPU-hour, edges that no timestamp metric fixes).

    Held time and cost: one scrape interval per such edge. Activity is sampled: one interval at either edge of every pod.
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
