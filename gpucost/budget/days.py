"""What the fleet, teams and workloads cost on each local day, and which of these days were collected in full."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from gpucost.timeline import local_days, local_midnight

if TYPE_CHECKING:
    from gpucost.report import ReportView
    from gpucost.report.view import Gap

Level = Literal["fleet", "unallocated", "team", "workload"]
ZERO = Decimal(0)

# Forecasts look back over the last four weeks, patterns of days over eight: four, and eight, of each weekday.
HISTORY_DAYS = 28
BASELINE_DAYS = 56


@dataclass(frozen=True, slots=True)
class Series:
    """Whose costs these are. `workload` is (team, cluster, namespace, workload); None for what is none."""

    level: Level
    team: str | None = None
    workload: tuple[str | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class Days:
    """Costs by local day; a day without any is not in `costs`. `complete` are the days collected in full, in order."""

    all: tuple[date, ...]
    complete: tuple[date, ...]
    costs: dict[Series, dict[date, Decimal]]

    def first(self, series: Series) -> date:
        """The first day on which `series` cost anything; what was before is not its pattern."""
        return min((day for day, cost in self.costs.get(series, {}).items() if cost), default=self.all[0])


def days_of(view: ReportView, tz: ZoneInfo, now: datetime) -> Days:
    """The costs of a report by team and day, or by team, cluster, namespace, workload and day.

    The fleet's are what its nodes cost, GPUs that nobody held included; where the report is narrowed, what its rows cost.
    """
    costs: dict[Series, dict[date, Decimal]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    for row in view.rows:
        if row.kind == "shared" or row.keys["day"] is None:
            continue
        day = date.fromisoformat(row.keys["day"])
        if row.unallocated:
            costs[Series("unallocated")][day] += row.unallocated.unallocated_cost
            costs[Series("fleet")][day] += row.unallocated.unallocated_cost
            continue
        cost, team = row.measures.cost, row.keys["team"]
        costs[Series("fleet")][day] += cost
        costs[Series("team", team)][day] += cost
        if "workload" in row.keys:
            named = tuple(row.keys[name] for name in ("team", "cluster", "namespace", "workload"))
            costs[Series("workload", team, named)][day] += cost
    every = tuple(local_days(view.period, tz))
    used = frozenset(costs[Series("fleet")])
    over = max(now, view.coverage.collected_to or now)
    complete = tuple(day for day in every if _is_complete(day, tz, view.coverage.not_collected, view.period.start, used, over))
    return Days(every, complete, {series: dict(found) for series, found in costs.items()})


def _is_complete(day: date, tz: ZoneInfo, gaps: tuple[Gap, ...], first: datetime, used: frozenset[date], over: datetime) -> bool:
    """Whether `day` is over and no cluster misses any of it; one that came later, on a day that others have, misses nothing."""
    begin, end = local_midnight(day, tz), local_midnight(day + timedelta(days=1), tz)
    if end > over or day not in used:
        return False
    return not any(
        gap.period.start < end and begin < gap.period.end
        for gap in gaps
        if not (gap.period.start == first and end <= gap.period.end)
    )
