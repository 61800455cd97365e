"""Days on which the fleet, a team or a workload cost more, or less, than its own pattern lets expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from statistics import median
from typing import Literal

from gpucost.periods import Period
from gpucost.render.schema import Shape
from gpucost.render.view import Coverage
from gpucost.report.forecast import HISTORY_DAYS, MAD_TO_SIGMA, ZERO, Days, Level, Series, levels, weekday_factors

# Iglewicz, Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): a modified z-score beyond 3.5 is an outlier.
SCORE = 3.5
LEVEL_DAYS = 14
_LEAST_DAYS = 7
# Costs that are the same every day have no spread; what is within a few percent of them is no news.
_LEAST_SPREAD = 0.05
# Where jobs come and go, most days are alike and a few are not: nine in ten days stray by less than 1.645 deviations.
_MANY, _MANY_TO_SIGMA = 0.9, 1.645
_MICRO = Decimal("0.000000001")

# Work that is meant to go on: where it costs less, it died or was scaled down. Other work ends by itself.
_LASTING = frozenset({"CronJob", "DaemonSet", "Deployment", "InferenceService", "ReplicaSet", "Rollout", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Part:
    """The workload that broke its pattern most on the day, in the same direction: `change` is of its cost."""

    workload: tuple[str | None, ...]
    change: Decimal


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A day that cost more or less than expected: `cost` = `expected` + `excess`, negative where it is less.

    `score` is the excess in robust standard deviations, from `basis_days` days. `part` is None for workloads or where none tells.
    """

    series: Series
    day: date
    direction: Literal["above", "below"]
    cost: Decimal
    expected: Decimal
    excess: Decimal
    score: float
    basis_days: int
    part: Part | None

    @property
    def place(self) -> tuple[str | None, str | None, str | None]:
        """(cluster, namespace, workload); None where it is of no workload."""
        _, cluster, namespace, workload = self.series.workload or (None,) * 4
        return cluster, namespace, workload


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """An anomaly as it is printed."""

    level: Level
    day: date
    team: str | None
    cluster: str | None
    namespace: str | None
    workload: str | None
    direction: Literal["above", "below"]
    cost: Decimal
    expected_cost: Decimal
    excess_cost: Decimal
    score: float
    basis_days: int
    main_workload: str | None
    main_workload_change: Decimal | None
    currency: str

    @classmethod
    def of(cls, one: Anomaly, currency: str) -> AnomalyRow:
        """The row of an anomaly."""
        cluster, namespace, workload = one.place
        return cls(
            level=one.series.level,
            day=one.day,
            team=one.series.team,
            cluster=cluster,
            namespace=namespace,
            workload=workload,
            direction=one.direction,
            cost=one.cost,
            expected_cost=one.expected,
            excess_cost=one.excess,
            score=round(one.score, 6),
            basis_days=one.basis_days,
            main_workload=one.part.workload[-1] if one.part else None,
            main_workload_change=one.part.change if one.part else None,
            currency=currency,
        )


@dataclass(frozen=True, slots=True)
class AnomaliesAnswer(Shape):
    """What `gpucost anomalies` prints."""

    period: Period
    currency: str
    min_cost: float
    rows: list[AnomalyRow]
    coverage: Coverage

    FLAT = ("period",)


def anomalies(days: Days, wanted: Sequence[date], least: Decimal) -> list[Anomaly]:
    """The days of `wanted`, collected in full, on which something cost at least `least` more or less than expected.

    Those with the most money come first. Expected is the median level of the LEVEL_DAYS complete days before times the weekday's
    factor (docs/budgets.md); days stray by how far those before were from what was expected of them. What was there for less
    than two weeks, or costs nothing on most days, has no pattern to break. GPUs that nobody held are told where they are more,
    workloads where they are less only if they are meant to go on.
    """
    asked = frozenset(wanted) & frozenset(days.complete)
    found = [
        one
        for series, costs in days.costs.items()
        if max(costs.values(), default=ZERO) >= least
        for one in _judged(days, series, costs, asked)
        if abs(one.excess) >= least and _is_news(one)
    ]
    return sorted(found, key=lambda one: (-abs(one.excess), one.day, str(one.series)))


def _is_news(one: Anomaly) -> bool:
    if one.direction == "above":
        return True
    if one.series.workload is not None:
        return (one.series.workload[-1] or "").partition("/")[0] in _LASTING
    return one.series.level != "unallocated"


def _judged(days: Days, series: Series, costs: Mapping[date, Decimal], asked: frozenset[date]) -> list[Anomaly]:
    begun = days.first(series)
    known = {day: float(costs.get(day, ZERO)) for day in days.complete if day >= begun}
    factors = weekday_factors(known)
    found: list[Anomaly] = []
    before: list[float] = []
    strayed: list[float] = []
    for day, level in levels(known, factors).items():
        if len(before) >= _LEAST_DAYS:
            usual = median(before[-LEVEL_DAYS:])
            if day in asked and usual > 0 and len(strayed) >= _LEAST_DAYS:
                score = (level - usual) / max(_spread(strayed[-HISTORY_DAYS:]), _LEAST_SPREAD * usual)
                if abs(score) > SCORE:
                    found.append(_told(days, series, day, usual * factors[day.weekday()], score, len(before)))
            strayed.append(level - usual)
        before.append(level)
    return found


def _spread(strayed: Sequence[float]) -> float:
    sizes = sorted(map(abs, strayed))
    return max(MAD_TO_SIGMA * median(sizes), sizes[int(_MANY * (len(sizes) - 1))] / _MANY_TO_SIGMA)


def _told(days: Days, series: Series, day: date, usual: float, score: float, before: int) -> Anomaly:
    cost, expected = days.costs[series].get(day, ZERO), Decimal(repr(usual)).quantize(_MICRO)
    direction: Literal["above", "below"] = "above" if score > 0 else "below"
    part = None if series.workload else _part(days, series, day, 1 if score > 0 else -1)
    return Anomaly(series, day, direction, cost, expected, cost - expected, score, min(before, HISTORY_DAYS), part)


def _part(days: Days, series: Series, day: date, sign: int) -> Part | None:
    """The workload of the team, or of the fleet, whose cost left the median of its LEVEL_DAYS before furthest."""
    earlier = [one for one in days.complete if one < day][-LEVEL_DAYS:]
    changes = [
        Part(other.workload, costs.get(day, ZERO) - Decimal(median(costs.get(one, ZERO) for one in earlier)))
        for other, costs in days.costs.items()
        if other.workload is not None and (series.level == "fleet" or series == Series("team", other.team))
    ]
    largest = max(changes, key=lambda part: part.change * sign, default=None)
    return largest if largest and largest.change * sign > 0 else None
