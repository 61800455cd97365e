"""Days on which the fleet, a team or a workload cost more or less than its own pattern."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from statistics import median

from gpucost.periods import Period
from gpucost.questions.budget.outlook import HISTORY_DAYS
from gpucost.questions.budget.projection import CostSeries, Days, as_money
from gpucost.questions.budget.seasons import Seasons, levels, weekday_factors
from gpucost.questions.budget.smoothing import MAD_TO_SIGMA
from gpucost.questions.report.rows import ZERO
from gpucost.records import frozen_dataclass
from gpucost.render.view import CoverageAnswer
from gpucost.shapes import Shape

# Iglewicz, Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): a modified z-score beyond 3.5 is an outlier.
SCORE = 3.5
LEVEL_DAYS = 14
_LEAST_DAYS = 7
# The least spread: costs that are equal every day have none.
_LEAST_SPREAD = 0.05
# With short jobs most days are equal and a few are not: nine in ten days are within 1.645 deviations.
_MANY, _MANY_TO_SIGMA = 0.9, 1.645

# Long-running work: a lower cost shows that it died or was scaled down. Other work ends by itself.
_LASTING = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "InferenceService", "ReplicaSet", "Rollout", "StatefulSet"}
)


@frozen_dataclass
class AnomalyRow(Shape):
    """A day that cost more or less than expected: `cost` = `expected_cost` + `excess_cost`, negative if it cost less.

    `score` is the excess in robust standard deviations. `main_workload` moved furthest on the day in the same direction: None for
    workloads, or if none did.
    """

    series: CostSeries
    day: date
    cost: Decimal
    expected_cost: Decimal
    excess_cost: Decimal
    score: float
    main_workload: str | None
    currency: str

    FLAT = ("series",)


@frozen_dataclass
class AnomaliesAnswer(Shape):
    """The answer of `gpucost anomalies`."""

    period: Period
    currency: str
    min_cost: float
    rows: list[AnomalyRow]
    coverage: CoverageAnswer


def anomalies(days: Days, wanted: Sequence[date], least: Decimal, currency: str) -> list[AnomalyRow]:
    """The days of `wanted`, collected in full, on which something cost at least `least` more or less than expected.

    The largest differences come first. The expected cost is the median level of the previous LEVEL_DAYS complete days times the
    weekday's factor (docs/budgets.md); the spread is that of the previous days around their expected costs. A series of less
    than two weeks, or with most days at 0, has no pattern. Unallocated GPUs are reported only if they cost more, and less of a
    workload only if it is long-running.
    """
    candidates = frozenset(wanted) & frozenset(days.complete)
    unusual: list[AnomalyRow] = []
    for series, costs in days.costs.items():
        if max(costs.values(), default=ZERO) >= least:
            found = _judged(days, series, costs, candidates, currency)
            unusual += (row for row in found if abs(row.excess_cost) >= least and _is_news(row))
    return sorted(unusual, key=lambda row: (-abs(row.excess_cost), row.day, str(row.series)))


def _is_news(row: AnomalyRow) -> bool:
    if row.score > 0:
        return True
    if row.series.level == "workload":
        return (row.series.workload or "").partition("/")[0] in _LASTING
    return row.series.level != "unallocated"


def _judged(
    days: Days, series: CostSeries, costs: Mapping[date, Decimal], candidates: frozenset[date], currency: str
) -> Iterator[AnomalyRow]:
    begun = days.first(series)
    observed = {day: float(costs.get(day, ZERO)) for day in days.complete_of(series) if day >= begun}
    seasons = Seasons(weekday_factors(observed))
    before: list[float] = []
    strayed: list[float] = []
    for day, level in levels(observed, seasons).items():
        if len(before) < _LEAST_DAYS:
            before.append(level)
            continue
        usual = median(before[-LEVEL_DAYS:])
        if day in candidates and usual > 0 and len(strayed) >= _LEAST_DAYS:
            # the robust deviation of the previous days, at least a share of the usual cost
            sizes = sorted(map(abs, strayed[-HISTORY_DAYS:]))
            many = sizes[int(_MANY * (len(sizes) - 1))] / _MANY_TO_SIGMA
            score = (level - usual) / max(MAD_TO_SIGMA * median(sizes), many, _LEAST_SPREAD * usual)
            if abs(score) > SCORE:
                cost, expected = costs.get(day, ZERO), as_money(usual * seasons.factor(day))
                yield AnomalyRow(
                    series,
                    day,
                    cost,
                    expected,
                    cost - expected,
                    round(score, 6),
                    None
                    if series.level == "workload"
                    else _main_workload(days, series, day, 1 if score > 0 else -1),
                    currency,
                )
        strayed.append(level - usual)
        before.append(level)


def _main_workload(days: Days, series: CostSeries, day: date, sign: int) -> str | None:
    """The workload of the team, or of the fleet, whose cost left the median of its LEVEL_DAYS before furthest."""
    earlier = [earlier_day for earlier_day in days.complete if earlier_day < day][-LEVEL_DAYS:]
    changes = {}
    for other, costs in days.costs.items():
        if other.level == "workload" and (
            series.level == "fleet" or series == CostSeries("team", other.team)
        ):
            usual = Decimal(median(costs.get(earlier_day, ZERO) for earlier_day in earlier))
            changes[other] = sign * (costs.get(day, ZERO) - usual)
    largest = max(changes, key=changes.__getitem__, default=None)
    return largest.workload if largest and changes[largest] > 0 else None
