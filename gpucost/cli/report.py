"""`gpucost report`: what GPUs cost, by team or by any other dimension."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, parse_period

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from gpucost.model import Period
    from gpucost.report import Query, ReportView
    from gpucost.store import Store

_WIDTH_WITHOUT_TERMINAL = 100
_NARROWEST = 60


class ReportFormat(StrEnum):
    """How a report is written."""

    table = "table"
    markdown = "markdown"
    json = "json"
    csv = "csv"


_SUFFIXES = {".md": ReportFormat.markdown, ".json": ReportFormat.json, ".csv": ReportFormat.csv, ".txt": ReportFormat.table}


@handle_errors
def report(
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace; repeatable.")
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.")] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Rows by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour. Default: team; with --team namespace; with --namespace workload.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            help="How to write it. Default: by the suffix of -o (.md, .json, .csv, .txt), else table.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of stdout.", show_default=False)
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many top consumers to list.")] = 10,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 after the report where its period was not collected in full.")
    ] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what GPUs cost, who used them, and how much of it was idle.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost report
      gpucost report --team research --month 2026-10
      gpucost report --last 7d --by team,gpu_model
      gpucost report --namespace nlp-prod --by pod,day --format csv -o pods.csv
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.report import Query

    target = output_file(output)
    written_as = format or _format_of(target)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    chosen = parse_period(settings.tz, now, month=month, start=start, end=end, last=last)
    period, name, why = (*chosen, None) if chosen else _default_period(opened, settings.tz, now)
    query = Query(
        period=period,
        period_name=name,
        by=tuple(part.strip() for item in by or () for part in item.split(",") if part.strip()),
        teams=tuple(team or ()),
        namespaces=tuple(namespace or ()),
        clusters=tuple(cluster or ()),
        top=top,
        period_note=why,
        now=now,
        with_sections=written_as in (ReportFormat.table, ReportFormat.markdown),
    )
    view = pipeline.report(settings, opened, query)
    write_report(view, written_as, target)
    if target:
        note(f"{view.title}: written to {target}", quiet=quiet)
    if strict:
        _check_complete(view, query)


def _format_of(target: Path | None) -> ReportFormat:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    from gpucost.errors import UsageError

    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in _SUFFIXES:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(_SUFFIXES)}; with any other, --format says how to write it",
        )
    return _SUFFIXES.get(suffix, ReportFormat.table)


def _default_period(store: Store, tz: ZoneInfo, now: datetime) -> tuple[Period, str, str]:
    from gpucost.report import default_period

    with store.read() as con:
        return default_period(con, tz, now)


def write_report(view: ReportView, format: ReportFormat, output: Path | None) -> None:
    """The report in `format` to `output`, or to stdout where it is None. Raises GpucostError where the file cannot be written."""
    text = _rendered(view, format, output)
    if output is None:
        put(text, nl=False)
    else:
        write_text(text, output)


def _rendered(view: ReportView, format: ReportFormat, output: Path | None) -> str:
    if format is ReportFormat.json:
        from gpucost.report.render_data import to_json

        return to_json(view)
    if format is ReportFormat.csv:
        from gpucost.report.render_data import to_csv

        return to_csv(view)
    if format is ReportFormat.markdown:
        from gpucost.report.render_markdown import render as markdown

        return markdown(view)
    from gpucost.report.render_terminal import render as terminal

    on_terminal = output is None and sys.stdout.isatty()
    return terminal(view, _width(on_terminal), color=on_terminal and _wants_color())


def _width(on_terminal: bool) -> int:
    """COLUMNS where it is set, else the terminal's; 100 into files and pipes."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(_NARROWEST, int(columns))
    if not on_terminal:
        return _WIDTH_WITHOUT_TERMINAL
    try:
        return max(_NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except OSError:
        return _WIDTH_WITHOUT_TERMINAL


def _wants_color() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _check_complete(view: ReportView, query: Query) -> None:
    from gpucost.errors import IncompleteError

    if view.coverage.is_complete:
        return
    gaps = view.coverage.not_collected
    if not gaps:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final", "leave out --strict for a report so far"
        )
    raise IncompleteError(
        f"{view.coverage.not_collected_hours:,.1f} h of {query.period_name} were not collected",
        next((notice.fix for notice in view.coverage.warnings if notice.code == "not_collected"), "gpucost collect prometheus"),
    )
