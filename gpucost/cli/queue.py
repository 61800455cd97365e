"""`gpucost queue`: Kueue's ClusterQueues: quota against use, borrowing, waits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    output_file,
    put,
    write_text,
)
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, chosen_period
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, render_rows, write_rows
from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from gpucost.model import Period
    from gpucost.queue import Queue

SCHEMA = "gpucost.queue/1"


@handle_errors
def queue(
    name: Annotated[list[str] | None, typer.Option("--queue", metavar="NAME", help="Only this ClusterQueue; repeatable.")] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.")] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what Kueue's ClusterQueues may use and do use, what they borrow, and how long workloads wait.

    Fair share is told over the last 7 days of the period: a queue's share of its cohort's quota against its share of the use,
    what was used 2 days ago counting half. docs/kueue.md has the formulas.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost queue
      gpucost queue --last 7d
      gpucost queue --month 2026-10 --queue research --format json
    """
    from datetime import UTC, datetime

    from gpucost.queue import queues

    target = output_file(output)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    period, period_name, _ = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
    with opened.read() as con:
        found = queues(con, period, cluster or (), name or ())
    if not found:
        raise GpucostError(
            f"Kueue told of no such ClusterQueue in {period_name}"
            if name or cluster
            else f"Kueue told of nothing in {period_name}",
            "have Prometheus scrape Kueue's manager, and run gpucost collect prometheus; docs/kueue.md says which metrics",
        )
    if format in FLAT:
        rows = [_flat(one) for one in found]
        write_rows(list(rows[0]), [list(row.values()) for row in rows], format, target)
        return
    written = _json(found, period) if format is RowFormat.json else _rows(found, format)
    if target is None:
        if format is RowFormat.table:
            note(f"ClusterQueues, {period_name}; recent: the last 7 days, half-life 2 days", quiet=quiet)
        put(written, nl=False)
    else:
        write_text(written, target)


def _rows(found: list[Queue], format: RowFormat) -> str:
    many = len({one.cluster for one in found}) > 1
    columns = [
        *(["cluster"] if many else []), "queue", "cohort", "resource", "quota", "limit", "used", "p95", "max", "borrowed",
        "pending", "admitted", "wait", "wait p50", "wait p95", "of quota", "of use",
    ]  # fmt: skip
    lines = [
        [
            *([one.cluster] if many else []),
            one.cluster_queue,
            one.cohort or "-",
            one.resource or "-",
            _number(one.quota),
            "none" if one.is_borrowing_unlimited else _number(one.borrowing_limit),
            _number(one.used_average),
            _number(one.used_p95),
            _number(one.used_max),
            _number(one.borrowed_average),
            _number(one.pending_average),
            f"{one.waits.admitted:.0f}",
            _time(one.waits.mean_seconds),
            _time(one.waits.p50_seconds),
            _time(one.waits.p95_seconds),
            _ratio(one.share_of_quota),
            _ratio(one.share_of_use),
        ]
        for one in found
    ]
    return render_rows(columns, lines, format)


def _flat(one: Queue) -> dict[str, Any]:
    """A queue as programs read it: the waits beside the rest."""
    row = asdict(one)
    waits = row.pop("waits")
    return row | {"admitted": waits.pop("admitted")} | {f"wait_{name}": value for name, value in waits.items()}


def _json(found: list[Queue], period: Period) -> str:
    import json

    from gpucost.model import iso

    whole = {"schema": SCHEMA, "from": iso(period.start), "to": iso(period.end), "queues": [_flat(one) for one in found]}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}".removesuffix(".0")


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
