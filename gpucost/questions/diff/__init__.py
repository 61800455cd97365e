"""Changes in cost between two periods, and their causes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Annotated
from zoneinfo import ZoneInfo

from gpucost.config.model import Config
from gpucost.errors import UsageError
from gpucost.options import Names, Option, argument, count
from gpucost.periods import Period, parse_period
from gpucost.questions.diff.parts import CELL, PARTS, Diff, DiffRow, Side, diff as between
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report
from gpucost.questions.request import SelectionRequest
from gpucost.render.schema import table
from gpucost.render.view import Document, Line, Notice, ReportView, Table, Value, ValueColumn, money, text
from gpucost.store.connection import Store


def diff(
    request: SelectionRequest,
    before: Annotated[
        str, argument("A", "The earlier period: a month (2026-09), a day (2026-09-05), or FROM..TO.")
    ],
    after: Annotated[str, argument("B", "The later period, in the same form.")],
    by: Annotated[
        Names,
        Option(
            "Dimensions of the rows, any of team, namespace, workload, cluster, gpu_model, capacity_type. "
            "Default: team; with --team or --namespace workload.",
            "A,B",
            is_split=True,
        ),
    ] = (),
    top: Annotated[int, count("Number of the most changed workloads to list.")] = 10,
) -> Document:
    """Show the changes between two periods and their causes: price, volume, mix, idle time, workloads, unallocated
    GPUs.

    The parts add up to the change, exactly; docs/diff.md has the arithmetic. Runs of one name with a number at its end
    (Job/sweep-1, Job/sweep-2) are one workload, Job/sweep-*. TO is exclusive. Periods of different
    length are compared as they are, and the cost per day is added.

    \b
    Examples:
      gpucost diff 2026-09 2026-10
      gpucost diff 2026-09 2026-10 --by gpu_model,capacity_type
      gpucost diff 2026-10-01..2026-10-08 2026-10-08..2026-10-15 --team research
      gpucost diff 2026-10-05 2026-10-12 --format json
    """
    spans = [parse_span(text, request.tz, request.now) for text in (before, after)]
    queries = [request.query(period=period, period_name=name, with_sections=False) for period, name in spans]
    dimensions = chosen_dimensions(by, narrowed=queries[0].is_narrowed)
    both = Period(min(query.period.start for query in queries), max(query.period.end for query in queries))
    request.check_names(replace(queries[0], period=both, period_name=f"{spans[0][1]} and {spans[1][1]}"))
    view, found = compare(request.settings, request.store, queries[0], queries[1], dimensions)
    return document(view, found, request.scope_name or "all teams", top)


def compare(config: Config, store: Store, before: Query, after: Query, by: Names) -> tuple[ReportView, Diff]:
    """The later period's report, and the changes with their causes in rows by `by` (from gpucost.diff.CELL).

    Gaps of the earlier period are among the report's warnings too.
    """
    first, second = (
        report(config, store, replace(query, by=CELL, with_sections=False, may_be_absent=True))
        for query in (before, after)
    )
    if not first.rows and not second.rows:
        report(config, store, after)  # raises an error for a name without data
    missed = [
        Notice("not_collected_before", f"compared with {before.period_name}, in which {gap.message}", gap.fix)
        for gap in first.coverage.warnings
        if gap.code == "not_collected"
    ]
    warnings = (*second.coverage.warnings, *missed)
    names = (before.period_name, after.period_name)
    now = after.now or datetime.now(UTC)
    warned = replace(second, coverage=replace(second.coverage, warnings=warnings))
    return warned, between(first, second, by, names, now)


_SHOWN = Decimal("0.005")
_WORDS = {
    "price": ("Price", "the same GPU-hours at a higher or lower price"),
    "volume": ("Volume", "more or fewer GPU-hours in use, or unmeasured"),
    "idle": ("Idle", "more or fewer idle GPU-hours"),
    "mix": ("Mix", "other GPU models, clusters or capacity types"),
    "new": ("New", "workloads in the later period only"),
    "gone": ("Gone", "workloads in the earlier period only"),
    "unallocated": ("Unallocated", "more or fewer unallocated GPU-hours"),
    "not_collected": ("Not collected", "billed time without metrics of the GPUs' holders"),
    "host": ("Host", "CPU and memory of pods without GPUs"),
}


def chosen_dimensions(by: Names, *, narrowed: bool) -> Names:
    """The dimensions of --by, each once. Raises UsageError for an unsupported one."""
    for name in by:
        if name not in CELL:
            raise UsageError(f"--by {name!r} is not supported", f"--by takes any of {', '.join(CELL)}")
    return tuple(dict.fromkeys(by)) or ("workload" if narrowed else "team",)


def document(view: ReportView, diff: Diff, selection: str, top: int) -> Document:
    """The causes of the change, in total and by dimension, and the `top` most changed workloads.

    `view` is the later period's report, for its coverage.
    """
    before = diff.before
    after = diff.after
    # the name of an interval contains "to"
    between = "against" if " to " in before.name + after.name else "to"
    figures = ("gpu_hours_before", "gpu_hours_after", "cost_before", "cost_after", "cost_change")
    by_workload = diff.by != ("team", "cluster", "namespace", "workload") and top
    return Document(
        title=f"What changed: {selection}, {before.name} {between} {after.name}",
        subtitle=f"{_days(before)}, then {_days(after)}"
        if _differ_in_length(diff)
        else f"{_days(before)} each",
        currency=view.currency,
        sections=(_why(diff), _by_rows(diff), *((_workloads(diff, top),) if by_workload else ())),
        coverage=view.coverage,
        name="diff",
        data=diff,
        flat=table(diff.rows, ("kind", *diff.by, *figures, *PARTS, "currency")),
    )


def _days(side: Side) -> str:
    return f"{side.days:,.4g} {'day' if side.days == 1 else 'days'}"


def _differ_in_length(diff: Diff) -> bool:
    return diff.before.days != diff.after.days


def _why(diff: Diff) -> Table:
    parts = [
        (title, meaning, part, "")
        for name, (title, meaning) in _WORDS.items()
        if abs(part := getattr(diff.parts, name)) >= _SHOWN
    ]
    before, after = ((side.name, "", side.cost, side.cost_per_day) for side in (diff.before, diff.after))
    change = ("Change", "", diff.cost_change, diff.cost_change_per_day)
    columns = [
        text(itemgetter(0), "Part"),
        text(itemgetter(1), "Meaning", weight=1),
        money(itemgetter(2), "Cost"),
    ]
    note = "The parts add up to the change."
    if _differ_in_length(diff):
        columns.append(money(itemgetter(3), "Cost per day"))
        note += " The cost per day shows the effect of the periods' lengths."
    rows = (before, *parts, after, change)
    return Table.of("Why the cost changed", rows, columns, note=note, is_sum=lambda row: row not in parts)


def _by_rows(diff: Diff) -> Table:
    whole = SimpleNamespace(
        cost_before=diff.before.cost,
        cost_after=diff.after.cost,
        cost_change=diff.cost_change,
        parts=diff.parts,
    )
    labels = ["Total", *[""] * (len(diff.by) - 1)]
    total = Line((*labels, *(value(whole) for _, value in _figures(diff))), is_sum=True)
    return _table(f"By {' and '.join(_phrase(name) for name in diff.by)}", diff.rows, diff.by, diff, (total,))


def _workloads(diff: Diff, top: int) -> Table:
    keys = ["workload", "namespace", "team"]
    if len({row.keys["cluster"] for row in diff.workloads}) > 1:
        keys.append("cluster")
    left = diff.workloads[top:]
    note = None
    if left:
        rest = sum(row.cost_change for row in left)
        note = f"{len(left):,} more workloads changed by {rest:,.2f} in total: --top {len(diff.workloads)}"
    return _table("Most changed workloads", diff.workloads[:top], keys, diff, note=note)


def _table(
    title: str,
    rows: Sequence[DiffRow],
    keys: Sequence[str],
    diff: Diff,
    sums: Sequence[Line] = (),
    note: str | None = None,
) -> Table:
    names = [
        text(partial(_label, name, at), _phrase(name)[:1].upper() + _phrase(name)[1:], weight=int(at > 0))
        for at, name in enumerate(keys)
    ]
    return Table.of(title, rows, (*names, *_figures(diff)), sums, note, flag=_flag)


def _figures(diff: Diff) -> list[ValueColumn]:
    """Columns for costs and for parts that occur: empty ones would take room on a terminal."""
    rows = (*diff.rows, *diff.workloads)

    def part(name: str) -> ValueColumn:
        # blank if zero, to highlight the other parts
        return money(lambda row: getattr(row.parts, name) or "", _WORDS[name][0], weight=2, group="parts")

    return [
        money("cost_before", "Before", weight=3, group="sides"),
        money("cost_after", "After", weight=3, group="sides"),
        money("cost_change", "Change"),
        *(part(name) for name in PARTS if any(abs(getattr(row.parts, name)) >= _SHOWN for row in rows)),
    ]


def _label(name: str, index: int, row: DiffRow) -> Value:
    value = row.keys[name]
    if value is not None or row.kind == "allocated":
        return "unknown" if value is None else value
    return "" if index else _WORDS[row.kind][0]


def _flag(row: DiffRow) -> str | None:
    if row.kind != "allocated" and any(row.keys.values()):
        return _WORDS[row.kind][0].lower()
    for name in ("new", "gone"):
        if row.cost_change and getattr(row.parts, name) == row.cost_change:
            return name
    return None


def _phrase(key: str) -> str:
    return "GPU" if key == "gpu_model" else key.replace("_", " ")


def parse_span(words: str, tz: ZoneInfo, now: datetime) -> tuple[Period, str]:
    """The period for `words`, and its display name. Raises UsageError for an invalid one."""
    start, dots, end = words.partition("..")
    span = {}
    if dots:
        span = {"start": start, "end": end or None}
    elif re.fullmatch(r"\d{4}-\d{2}", words):
        span = {"month": words}
    elif day := _day(words):
        span = {"start": f"{day}", "end": f"{day + timedelta(days=1)}"}
    found = parse_period(tz, now, **span)
    if found is None:
        raise UsageError(
            f"invalid period {words!r}",
            "use a month (2026-10), a day (2026-10-05), or FROM..TO (2026-10-01..2026-10-08)",
        )
    return found


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else None
    except ValueError:
        return None
    return day if day and 1971 <= day.year < 9999 else None
