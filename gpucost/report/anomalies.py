"""Days on which the fleet, a team or a workload cost more, or less, than its own pattern lets expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from statistics import median
from typing import Literal

from gpucost.periods import Period
from gpucost.records import record
from gpucost.render.view import Coverage
from gpucost.report.forecast import HISTORY_DAYS, MAD_TO_SIGMA, CostSeries, Days, Level, levels, weekday_factors
from gpucost.report.rows import ZERO
from gpucost.shapes import Shape

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


@record
class Part:
    """The workload that broke its pattern most on the day, in the same direction: `change` is of its cost."""

    workload: tuple[str | None, ...]
    change: Decimal


@record
class Anomaly:
    """A day that cost more or less than expected: `cost` = `expected` + `excess`, negative where it is less.

    `score` is the excess in robust standard deviations, from `basis_days` days. `part` is None for workloads or where none tells.
    """

    series: CostSeries
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


@record
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
    def of(cls, anomaly: Anomaly, currency: str) -> AnomalyRow:
        """The row of an anomaly."""
        series, part = anomaly.series, anomaly.part
        return cls(
            series.level,
            anomaly.day,
            series.team,
            *anomaly.place,
            anomaly.direction,
            anomaly.cost,
            anomaly.expected,
            anomaly.excess,
            round(anomaly.score, 6),
            anomaly.basis_days,
            part.workload[-1] if part else None,
            part.change if part else None,
            currency,
        )


@record
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
    candidates = frozenset(wanted) & frozenset(days.complete)
    unusual = [
        anomaly
        for series, costs in days.costs.items()
        if max(costs.values(), default=ZERO) >= least
        for anomaly in _judged(days, series, costs, candidates)
        if abs(anomaly.excess) >= least and _is_news(anomaly)
    ]
    return sorted(unusual, key=lambda anomaly: (-abs(anomaly.excess), anomaly.day, str(anomaly.series)))


def _is_news(anomaly: Anomaly) -> bool:
    series = anomaly.series
    if anomaly.direction == "above":
        return True
    return (series.workload[-1] or "").partition("/")[0] in _LASTING if series.workload else series.level != "unallocated"


def _judged(days: Days, series: CostSeries, costs: Mapping[date, Decimal], candidates: frozenset[date]) -> Iterator[Anomaly]:
    begun = days.first(series)
    known = {day: float(costs.get(day, ZERO)) for day in days.complete_of(series) if day >= begun}
    factors = weekday_factors(known)
    before: list[float] = []
    strayed: list[float] = []
    for day, level in levels(known, factors).items():
        if len(before) >= _LEAST_DAYS:
            usual = median(before[-LEVEL_DAYS:])
            if day in candidates and usual > 0 and len(strayed) >= _LEAST_DAYS:
                score = (level - usual) / max(_spread(strayed[-HISTORY_DAYS:]), _LEAST_SPREAD * usual)
                if abs(score) > SCORE:
                    cost, expected = costs.get(day, ZERO), Decimal(repr(usual * factors[day.weekday()])).quantize(_MICRO)
                    yield Anomaly(
                        series=series,
                        day=day,
                        direction="above" if score > 0 else "below",
                        cost=cost,
                        expected=expected,
                        excess=cost - expected,
                        score=score,
                        basis_days=min(len(before), HISTORY_DAYS),
                        part=None if series.workload else _part(days, series, day, 1 if score > 0 else -1),
                    )
            strayed.append(level - usual)
        before.append(level)


def _spread(strayed: Sequence[float]) -> float:
    sizes = sorted(map(abs, strayed))
    return max(MAD_TO_SIGMA * median(sizes), sizes[int(_MANY * (len(sizes) - 1))] / _MANY_TO_SIGMA)


def _part(days: Days, series: CostSeries, day: date, sign: int) -> Part | None:
    """The workload of the team, or of the fleet, whose cost left the median of its LEVEL_DAYS before furthest."""
    earlier = [known for known in days.complete if known < day][-LEVEL_DAYS:]
    changes = [
        Part(other.workload, costs.get(day, ZERO) - Decimal(median(costs.get(known, ZERO) for known in earlier)))
        for other, costs in days.costs.items()
        if other.workload is not None and (series.level == "fleet" or series == CostSeries("team", other.team))
    ]
    largest = max(changes, key=lambda part: part.change * sign, default=None)
    return largest if largest and largest.change * sign > 0 else None
