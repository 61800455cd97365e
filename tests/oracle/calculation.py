"""The exact bill of a described fleet: sums by pod and totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.exact.bill import Rules, exact_bill
from tests.oracle.exact.nodes import Node
from tests.oracle.exact.prices import Row, Steps, steps
from tests.oracle.exact.states import ZERO
from tests.replay.fleet import period_of
from tests.replay.scrape import scrape
from tests.replay.series import Series

MS_PER_HOUR = 3_600_000
PodKey = tuple[str, str, str, str]  # cluster, namespace, pod, uid
_TIMES = "allocated active idle unmeasured unallocated unavailable capacity over_allocated"
_MONEY = ("cost", "idle_cost", "unallocated_cost")


@dataclass
class Figures:
    """Exact GPU-hours and money, named like the report's measures."""

    allocated_gpu_hours: Fraction = ZERO
    active_gpu_hours: Fraction = ZERO
    idle_gpu_hours: Fraction = ZERO
    unmeasured_gpu_hours: Fraction = ZERO
    unallocated_gpu_hours: Fraction = ZERO
    unavailable_gpu_hours: Fraction = ZERO
    over_allocated_gpu_hours: Fraction = ZERO
    capacity_gpu_hours: Fraction = ZERO
    spot_gpu_hours: Fraction = ZERO
    cost: Fraction = ZERO
    idle_cost: Fraction = ZERO
    unallocated_cost: Fraction = ZERO
    node_cost: Fraction = ZERO

    def __add__(self, other: Figures) -> Figures:
        return Figures(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def rounded(self) -> dict[str, float]:
        """Return the nonzero figures, rounded to nine decimals."""
        return {f.name: round(float(getattr(self, f.name)), 9) for f in fields(self) if getattr(self, f.name)}


@dataclass
class Bill:
    """The result: per pod, and in total with unallocated GPUs and node costs."""

    pods: dict[PodKey, Figures] = field(default_factory=lambda: defaultdict(Figures))
    total: Figures = field(default_factory=Figures)


def calculate(
    fleet: dict[str, Any],
    book: list[Row] | Callable[[Node], Steps],
    period: tuple[float, float] | None = None,
    series: list[Series] | None = None,
) -> Bill:
    """Return the bill of `series` (default: the fleet's scrapes) for a period (Unix seconds; default: the fleet's own)."""
    start, end = (round(second * 1000) for second in period or period_of(fleet))
    zone = ZoneInfo(fleet.get("timezone", "UTC"))
    prices = book if callable(book) else partial(steps, book, zone=zone)
    rules = Rules(prices, fleet["nodes"][0]["cluster"], zone, fleet.get("teams", []), (start, end))
    exact = exact_bill(series or scrape(fleet, lean=True), rules)
    names = {
        (pod["cluster"], pod["uid"]): (pod["cluster"], pod["namespace"], pod["name"], pod["uid"])
        for pod in fleet["pods"]
    }
    spot = {
        (node["cluster"], node["name"], round(node.get("created", node["from"]) * 1000))
        for node in fleet["nodes"]
        if node["capacity_type"] == "spot" and fleet.get("node_labels", True)
    }
    bill = Bill()
    for (cell, uid), row in exact.rows.items():
        if start <= cell[0] and cell[1] <= end:
            figures = _figures(row)
            figures.spot_gpu_hours = figures.allocated_gpu_hours * (cell[2:] in spot)
            bill.total += figures
            if uid:
                bill.pods[names[cell[2], uid]] += figures
    for cell, whole in exact.nodes.items():
        if start <= cell[0] and cell[1] <= end:
            figures = _figures(whole)
            figures.node_cost, figures.cost = figures.cost, ZERO
            bill.total += figures
    return bill


def _figures(row: Any) -> Figures:
    times = {f"{name}_gpu_hours": Fraction(getattr(row, name, 0)) / MS_PER_HOUR for name in _TIMES.split()}
    return Figures(**times, **{name: Fraction(getattr(row, name, 0)) for name in _MONEY})
