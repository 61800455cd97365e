"""What the fleet, teams and workloads cost on each local day, and which of these days were collected in full."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from gpucost.model import Period, from_ms
from gpucost.timeline import local_days, local_midnight

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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


def collected_from(con: DuckDBPyConnection) -> datetime:
    """The first moment that was collected, of any cluster; the end of time where nothing was."""
    found = con.execute("SELECT min(from_ms) FROM collected").fetchall()[0][0]
    return datetime.max.replace(tzinfo=UTC) if found is None else from_ms(found)


def days_of(view: ReportView, tz: ZoneInfo, now: datetime, begun: datetime) -> Days:
    """The costs of a report by team and day, or by team, cluster, namespace, workload and day; `begun` is `collected_from`.

    The fleet's are what its nodes cost, GPUs that nobody held included; where the report is narrowed, what its rows cost. A day
    that was collected and without any node cost nothing; one that was not collected is unknown.
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
    over = max(now, view.coverage.collected_to or now)
    known = Period(max(begun, view.period.start), over)
    complete = tuple(day for day in every if _is_complete(day, tz, view.coverage.not_collected, view.period.start, known))
    return Days(every, complete, {series: dict(found) for series, found in costs.items()})


def _is_complete(day: date, tz: ZoneInfo, gaps: tuple[Gap, ...], first: datetime, known: Period) -> bool:
    """Whether `day` lies in `known` and no cluster misses any of it; one that came later than others misses nothing."""
    begin, end = local_midnight(day, tz), local_midnight(day + timedelta(days=1), tz)
    if begin < known.start or end > known.end:
        return False
    return not any(
        gap.period.start < end and begin < gap.period.end
        for gap in gaps
        if not (gap.period.start == first and end <= gap.period.end)
    )
