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

# Forecasts and patterns of days look back over eight weeks: eight of each weekday.
HISTORY_DAYS = 56


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

    The fleet's are what its nodes cost, GPUs that nobody held or saw included; where the report is narrowed, what its rows cost.
    A day that was collected and without any node cost nothing; one that any cluster misses a part of is unknown, signed or not.
    """
    costs: dict[Series, dict[date, Decimal]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    for row in view.rows:
        if row.kind == "shared" or row.keys["day"] is None:
            continue
        day = date.fromisoformat(row.keys["day"])
        cost, team = row.own_cost, row.keys["team"]
        costs[Series("fleet")][day] += cost
        if row.unallocated:
            costs[Series("unallocated")][day] += cost
        if row.unallocated or row.not_collected:
            continue
        costs[Series("team", team)][day] += cost
        if "workload" in row.keys:
            named = tuple(row.keys[name] for name in ("team", "cluster", "namespace", "workload"))
            costs[Series("workload", team, named)][day] += cost
    every = tuple(local_days(view.period, tz))
    over = max(now, view.coverage.collected_to or now)
    missing = [gap for gap in view.coverage.gaps if gap.kind in ("not_collected", "partial")]
    complete = tuple(day for day in every if _is_complete(day, tz, missing, over))
    return Days(every, complete, {series: dict(found) for series, found in costs.items()})


def _is_complete(day: date, tz: ZoneInfo, missing: list[Gap], over: datetime) -> bool:
    """Whether `day` ended before `over` and no cluster misses any of it."""
    begin, end = local_midnight(day, tz), local_midnight(day + timedelta(days=1), tz)
    return end <= over and not any(gap.start < end and begin < gap.end for gap in missing)
