"""Fleets that options describe: what a price is per, how many nodes there are, and how long each is needed."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

from gpucost.errors import UsageError

GPUS_PER_NODE = 8
DAYS = 30


class PricePer(StrEnum):
    """What a price given as an option is the price of."""

    node = "node"
    gpu = "gpu"


def node_price(price: Decimal, per: PricePer, gpus: float) -> Decimal:
    """The price of a node with `gpus` GPUs, of a price per node or per GPU."""
    return price * Decimal(str(gpus)) if per is PricePer.gpu else price


def node_shape(nodes: int | None, gpus: int | None) -> tuple[int, int]:
    """(nodes, GPUs per node) that --nodes and --gpus mean."""
    return (nodes or 1, gpus or GPUS_PER_NODE)


def days_counted(days: int | None, active_hours_per_day: float | None) -> int:
    """The days that counts per day run. Raises UsageError where --days is given and nothing counts per day."""
    if days is not None and active_hours_per_day is None:
        raise UsageError(
            "--days counts the days of --active-hours-per-day, which is not given",
            "add --active-hours-per-day 10, or say --hours instead of --days",
        )
    return days or DAYS


def hours_needed(hours: float | None, active_hours_per_day: float | None, days: int | None) -> float | None:
    """How long each node is needed: --hours, or some hours of each day; None where neither is given. Raises UsageError."""
    counted = days_counted(days, active_hours_per_day)
    if active_hours_per_day is None:
        return hours
    if hours is not None:
        raise UsageError("--hours and --active-hours-per-day both say how long nodes are needed", "leave out one of them")
    return active_hours_per_day * counted
