"""`gpucost diff`: what changed between two periods, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpucost.cli.command import Call, argument, command, count_option, names_in, option
from gpucost.cli.output import put_or_write, write_rows
from gpucost.errors import UsageError
from gpucost.periods import parse_period
from gpucost.render.rows import FLAT, RowFormat
from gpucost.render.schema import table, to_json
from gpucost.render.view import Column, Line, ReportView, Table, Value
from gpucost.report.diff import CELL, PARTS, Diff, DiffRow, Parts, Side

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.periods import Period


@command("* team namespace cluster top written")
def diff(
    call: Call,
    before: Annotated[str, argument("A", "The earlier period: a month (2026-09), a day (2026-09-05), or FROM..TO.")],
    after: Annotated[str, argument("B", "The later period, the same way.")],
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "A,B",
            "Rows by any of team, namespace, workload, cluster, gpu_model, capacity_type. Default: team; with --team or "
            "--namespace workload.",
        ),
    ] = None,
    top: Annotated[int, count_option("--top", "How many of the workloads that changed most to list.")] = 10,
) -> None:
    """Show what changed between two periods and why: price, volume, mix, idle time, new and gone workloads, unallocated GPUs.

    The parts add up to the change, exactly; docs/diff.md has the arithmetic. TO is exclusive; periods of different length are
    compared as they are, with the cost a day beside.

    \b
    Examples:
      gpucost diff 2026-09 2026-10
      gpucost diff 2026-09 2026-10 --by gpu_model,capacity_type
      gpucost diff 2026-10-01..2026-10-08 2026-10-08..2026-10-15 --team research
      gpucost diff 2026-10-05 2026-10-12 --format json
    """
    from gpucost import comparisons

    dimensions = chosen_dimensions(by, narrowed=bool(call.teams or call.namespaces))
    spans = [parse_span(text, call.tz, call.now) for text in (before, after)]
    queries = [call.query(period=period, period_name=name, with_sections=False) for period, name in spans]
    view, found = comparisons.compare(call.settings, call.store, queries[0], queries[1], dimensions)
    whose = call.scope_name or "all teams"
    write(view, found, whose, call.format, call.target, top)
    call.note_written(f"what changed from {found.before.name} to {found.after.name}")


_ZERO = Decimal(0)
_SHOWN = Decimal("0.005")
_WORDS = {
    "price": ("Price", "the same GPU-hours cost more or less an hour"),
    "volume": ("Volume", "more or fewer GPU-hours in use, or unmeasured"),
    "idle": ("Idle", "more or fewer idle GPU-hours"),
    "mix": ("Mix", "other GPUs: model, cluster, spot or on demand"),
    "new": ("New", "workloads of the later period only"),
    "gone": ("Gone", "workloads of the earlier period only"),
    "unallocated": ("Unallocated", "more or fewer GPU-hours that nobody held"),
    "not_collected": ("Not collected", "billed while nobody saw who held the GPUs"),
    "host": ("Host", "CPU and memory of pods without GPUs"),
}


def chosen_dimensions(by: list[str] | None, *, narrowed: bool) -> tuple[str, ...]:
    """The dimensions of --by, each once. Raises UsageError for one that periods are not compared by."""
    names = tuple(dict.fromkeys(names_in(by)))
    for name in names:
        if name not in CELL:
            raise UsageError(f"periods are not compared by {name!r}", f"--by takes any of {', '.join(CELL)}")
    return names or ("workload" if narrowed else "team",)


def write(view: ReportView, diff: Diff, whose: str, format: RowFormat, target: Path | None, top: int) -> None:
    """The change in `format` to `target`, or to stdout. `view` is the later period's report, for its coverage."""
    if format is RowFormat.json:
        put_or_write(to_json(diff, "diff"), target)
        return
    if format in FLAT:
        write_rows(*table(diff.rows, _columns(diff)), format, target)
        return
    from gpucost.cli.report import write_report

    shown = replace(view, title=_title(diff, whose), subtitle=_subtitle(diff), sections=tables(diff, top))
    write_report(shown, format, target)


def tables(diff: Diff, top: int) -> tuple[Table, ...]:
    """Why the cost changed, the same by the dimensions asked for, and the workloads that changed most."""
    found = [_why(diff), _by_rows(diff)]
    if diff.by != ("team", "cluster", "namespace", "workload") and top:
        found.append(_workloads(diff, top))
    return tuple(found)


def _columns(diff: Diff) -> tuple[str, ...]:
    figures = ("gpu_hours_before", "gpu_hours_after", "cost_before", "cost_after", "cost_change")
    daily = ("cost_per_day_before", "cost_per_day_after", "cost_per_day_change")
    return ("kind", *diff.by, *figures, *daily, *PARTS, "currency")


def _title(diff: Diff, whose: str) -> str:
    # a span has a "to" of its own
    between = "against" if " to " in diff.before.name + diff.after.name else "to"
    return f"What changed: {whose}, {diff.before.name} {between} {diff.after.name}"


def _subtitle(diff: Diff) -> str:
    if not _differ_in_length(diff):
        return f"{_days(diff.before)} each"
    return f"{_days(diff.before)} to {_days(diff.after)}"


def _days(side: Side) -> str:
    return f"{side.days:,.4g} {'day' if side.days == 1 else 'days'}"


def _differ_in_length(diff: Diff) -> bool:
    return diff.before.days != diff.after.days


def _why(diff: Diff) -> Table:
    has_days = _differ_in_length(diff)
    lines = [_total_line(diff.before, has_days)]
    for name, (title, meaning) in _WORDS.items():
        amount: Decimal = getattr(diff.parts, name)
        if abs(amount) >= _SHOWN:
            lines.append(Line((title, meaning, amount, *([""] if has_days else []))))
    lines.append(_total_line(diff.after, has_days))
    daily = [diff.cost_change_per_day] if has_days else []
    lines.append(Line(("Change", "", diff.cost_change, *daily), is_sum=True))
    return Table(
        "Why the cost changed",
        (
            Column("Part", "text"),
            Column("What it is", "text", weight=1),
            Column("Cost", "money", 2),
            *([Column("Cost a day", "money", 2)] if has_days else []),
        ),
        tuple(lines),
        note="The parts add up to the change. How much is due to the length of the periods, the cost a day tells."
        if has_days
        else "The parts add up to the change.",
    )


def _total_line(side: Side, has_days: bool) -> Line:
    return Line((side.name, "", side.cost, *([side.cost_per_day] if has_days else [])), is_sum=True)


def _by_rows(diff: Diff) -> Table:
    lines = _lines(diff.rows, diff.by, diff)
    blank = ("",) * (len(diff.by) - 1)
    costs = (diff.before.cost, diff.after.cost, diff.cost_change)
    lines.append(Line(("Total", *blank, *_figures(costs, diff.cost_change_per_day, diff.parts, diff)), is_sum=True))
    return Table(f"By {' and '.join(_phrase(name) for name in diff.by)}", _heads(diff.by, diff), tuple(lines))


def _workloads(diff: Diff, top: int) -> Table:
    keys = ["workload", "namespace", "team"]
    if len({row.keys["cluster"] for row in diff.workloads}) > 1:
        keys.append("cluster")
    shown = diff.workloads[:top]
    left = diff.workloads[top:]
    rest = sum((row.cost_change for row in left), _ZERO)
    note = f"{len(left):,} more workloads changed by {rest:,.2f} in all: --top {len(diff.workloads)}" if left else None
    return Table("Workloads that changed most", _heads(keys, diff), tuple(_lines(shown, keys, diff)), note=note)


def _shown_parts(diff: Diff) -> tuple[str, ...]:
    """The parts that any row has: those of no row would take the room of others on a terminal."""
    rows = (*diff.rows, *diff.workloads)
    return tuple(name for name in PARTS if any(abs(getattr(row.parts, name)) >= _SHOWN for row in rows))


def _heads(keys: Sequence[str], diff: Diff) -> tuple[Column, ...]:
    return (
        *(
            Column(_phrase(name)[:1].upper() + _phrase(name)[1:], "text", weight=0 if not index else 1)
            for index, name in enumerate(keys)
        ),
        Column("Before", "money", 2, weight=3, group="sides"),
        Column("After", "money", 2, weight=3, group="sides"),
        Column("Change", "money", 2),
        *([Column("Change a day", "money", 2, weight=1)] if _differ_in_length(diff) else []),
        *(Column(_WORDS[name][0], "money", 2, weight=2, group="parts") for name in _shown_parts(diff)),
    )


def _lines(rows: Sequence[DiffRow], keys: Sequence[str], diff: Diff) -> list[Line]:
    lines = []
    for row in rows:
        costs = (row.cost_before, row.cost_after, row.cost_change)
        cells = (*(_label(row, name, index) for index, name in enumerate(keys)),)
        lines.append(Line((*cells, *_figures(costs, row.cost_per_day_change, row.parts, diff)), _flag(row)))
    return lines


def _figures(costs: tuple[Decimal, ...], daily: Decimal | None, parts: Parts, diff: Diff) -> tuple[Value, ...]:
    # blank where there is none of it: the parts that there are stand out
    named = [getattr(parts, name) or "" for name in _shown_parts(diff)]
    return (*costs, *([daily] if _differ_in_length(diff) else []), *named)


def _label(row: DiffRow, name: str, index: int) -> Value:
    value = row.keys[name]
    if value is not None:
        return value
    if row.kind != "allocated":
        return _WORDS[row.kind][0] if not index else ""
    return "unknown"


def _flag(row: DiffRow) -> str | None:
    if row.kind != "allocated" and any(row.keys.values()):
        return _WORDS[row.kind][0].lower()
    if row.parts.new and row.parts.new == row.cost_change:
        return "new"
    return "gone" if row.parts.gone and row.parts.gone == row.cost_change else None


def _phrase(key: str) -> str:
    return "GPU" if key == "gpu_model" else key.replace("_", " ")


def parse_span(text: str, tz: ZoneInfo, now: datetime) -> tuple[Period, str]:
    """The period that `text` means, and its name for people. Raises UsageError for what is none."""
    start, dots, end = text.partition("..")
    if dots:
        found = parse_period(tz, now, start=start, end=end or None)
    elif re.fullmatch(r"\d{4}-\d{2}", text):
        found = parse_period(tz, now, month=text)
    else:
        found = parse_period(tz, now, start=f"{(day := _day(text))}", end=f"{day + timedelta(days=1)}")
    if found is None:
        raise UsageError(f"{text!r} is no period", "a month (2026-10), a day (2026-10-05), or FROM..TO (2026-10-01..2026-10-08)")
    return found


def _day(text: str) -> date:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise ValueError
        day = date.fromisoformat(text)
        if not 1971 <= day.year < 9999:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{text!r} is no period", "a month (2026-10), a day (2026-10-05), or FROM..TO (2026-10-01..2026-10-08)"
        ) from None
    return day
