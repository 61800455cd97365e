"""How a report's rows and totals changed since the period before it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.periods import (
    MS_PER_HOUR,
    Period,
    from_ms,
    is_month,
    is_whole_days,
    local_midnight,
    month_period,
)
from gpucost.questions.report.rows import ALL_COLLECTED, ALL_HELD, KINDS, NO_MEASURES, NOTHING_BOUGHT, ZERO
from gpucost.render.view import Change, Changes, Column, Measures, NodeTotals, Notice, ReportView, Row, Value

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def previous_period(period: Period, end_ms: int, tz: ZoneInfo) -> Period:
    """The period before, as long: of a month the month before, else what ends where `period` begins.

    `end_ms` is where what is known of the period ends: of a month that is not over, as much of the month before is taken.
    """
    if not is_month(period, tz):
        first = period.start.astimezone(tz).date()
        last = period.end.astimezone(tz).date()
        start = period.start - (period.end - period.start)
        if is_whole_days(period, tz):  # they stay whole where clocks change
            start = local_midnight(first - (last - first), tz)
        return Period(start, period.start)
    before = month_period(period.start.astimezone(tz).date() - timedelta(days=1), tz)
    if end_ms >= period.end_ms:
        return before
    known = -(-(end_ms - period.start_ms) // MS_PER_HOUR) * MS_PER_HOUR
    return Period(before.start, from_ms(min(before.end_ms, before.start_ms + max(known, MS_PER_HOUR))))


def with_changes(rows: list[Row], earlier: tuple[Row, ...]) -> list[Row]:
    """The rows with their change; rows that were there only before follow those of their kind, with nothing but that."""
    costs = {_key(row): row.own_cost for row in earlier}
    there = set(map(_key, rows))
    changed = [replace(row, change=change(row.own_cost, costs.get(_key(row), ZERO))) for row in rows]
    gone = [
        replace(
            row,
            measures=NO_MEASURES,
            unallocated=ALL_HELD if row.unallocated else None,
            not_collected=ALL_COLLECTED if row.not_collected else None,
            api=NOTHING_BOUGHT if row.api else None,
            shared=None,
            change=change(ZERO, row.own_cost),
        )
        for row in earlier
        if _key(row) not in there and row.kind != "shared" and row.own_cost
    ]
    return sorted([*changed, *gone], key=lambda row: KINDS.index(row.kind))


def missed_before(earlier: ReportView, name: str) -> list[Notice]:
    """What was not collected of `earlier`, the report on the period called `name`: that much of a change may be no change."""
    return [
        Notice("not_collected_before", f"compared with {name}, of which {gap.message}", gap.fix)
        for gap in earlier.coverage.warnings
        if gap.code == "not_collected"
    ]


def changes(totals: Measures, nodes: NodeTotals | None, earlier: ReportView, name: str) -> Changes:
    """How the totals changed since `earlier`, the report on the period called `name`."""
    before = earlier.node_totals
    of_nodes = {
        cost: change(getattr(nodes, cost), getattr(before, cost)) if nodes and before else None
        for cost in ("unallocated_cost", "not_collected_cost", "node_cost")
    }
    return Changes(earlier.period, name, change(totals.cost, earlier.totals.cost), **of_nodes)


def change(cost: Decimal, previous: Decimal) -> Change:
    """The change from `previous` to `cost`, percent to 6 decimals."""
    percent = round(float((cost - previous) / previous * 100), 6) if previous else None
    return Change(previous, cost - previous, percent)


def change_columns(compared: Changes | None) -> list[Column]:
    """None where nothing is compared."""
    if compared is None:
        return []
    return [Column("Previous", "money", 2, weight=1), Column("Change", "change", 1)]


def change_note(compared: Changes | None) -> str | None:
    """What the columns compare with."""
    return f"Previous is {compared.period_name}." if compared else None


def change_cells(compared: Changes | None, changed: Change | None) -> list[Value]:
    """What it was, and by which share that changed."""
    if compared is None:
        return []
    if changed is None:
        return ["", ""]
    if changed.cost_change_percent is None:
        return [changed.previous_cost, "new" if changed.cost_change else ""]
    return [changed.previous_cost, changed.cost_change_percent / 100]


def _key(row: Row) -> tuple[str | None, ...]:
    return row.kind, *row.keys.values()
