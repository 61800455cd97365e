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
    put_or_write,
)
from gpucost.cli._compared import CompareOption, check_comparable
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, chosen_period
from gpucost.cli._strict import completeness, note_gaps
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.report import ReportView
    from gpucost.report.html import Block

_WIDTH_WITHOUT_TERMINAL = 100
_NARROWEST = 60


class ReportFormat(StrEnum):
    """How a report is written."""

    table = "table"
    markdown = "markdown"
    html = "html"
    json = "json"
    csv = "csv"
    parquet = "parquet"
    focus = "focus"


class FocusVersion(StrEnum):
    """Which version of FOCUS a file follows."""

    v1_0 = "1.0"
    v1_2 = "1.2"
    v1_3 = "1.3"


class Sharing(StrEnum):
    """How unallocated cost is spread over the teams that used such GPUs."""

    proportional = "proportional"
    even = "even"


_FLAT = (ReportFormat.csv, ReportFormat.parquet)
_SUFFIXES = {
    ".md": ReportFormat.markdown,
    ".html": ReportFormat.html,
    ".json": ReportFormat.json,
    ".csv": ReportFormat.csv,
    ".parquet": ReportFormat.parquet,
    ".txt": ReportFormat.table,
}


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
            help="How to write it. Default: by the suffix of -o (.md, .html, .json, .csv, .parquet, .txt), else table. "
            "focus: the bill of a month, split (docs/focus.md).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of stdout.", show_default=False)
    ] = None,
    share_unallocated: Annotated[
        Sharing | None,
        typer.Option(
            "--share-unallocated",
            help="Also spread what nobody held over the teams that used such GPUs in that cluster: by cost, or evenly.",
            show_default=False,
        ),
    ] = None,
    compare: CompareOption = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many top consumers to list.")] = 10,
    waste: Annotated[
        bool, typer.Option("--waste", help="Also the tables of gpucost waste: where GPU time was wasted and on what.")
    ] = False,
    findings: Annotated[
        int,
        typer.Option(
            "--findings",
            min=0,
            metavar="COUNT",
            help="On an HTML page, also so many of the dearest findings; asking what-ifs takes seconds, longer on a large fleet.",
        ),
    ] = 0,
    focus_version: Annotated[
        FocusVersion, typer.Option("--focus-version", help="Version of FOCUS that --format focus follows.")
    ] = FocusVersion.v1_2,
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
      gpucost report --month 2026-10 --share-unallocated proportional
      gpucost report --month 2026-10 --compare previous
      gpucost report --month 2026-10 -o october.html
      gpucost report --month 2026-10 -o october.html --findings 10
      gpucost report --month 2026-10 --waste
      gpucost report --month 2026-10 --format focus -o october-focus.csv
      gpucost report --namespace nlp-prod --by pod,day --format csv -o pods.csv
    """
    from datetime import UTC, datetime

    from gpucost import comparisons, pipeline
    from gpucost.report import Query

    target = output_file(output)
    written_as = format or _format_of(target)
    if findings and written_as is not ReportFormat.html:
        raise UsageError("--findings has a place on an HTML page only", "gpucost findings lists them in every other format")
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    period, name, why = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
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
        with_sections=written_as in (ReportFormat.table, ReportFormat.markdown, ReportFormat.html),
        with_series=written_as is ReportFormat.html or (written_as is ReportFormat.table and _draws(target)),
        share_unallocated=share_unallocated.value if share_unallocated else None,
    )
    if compare:
        check_comparable(query, waste=waste, focus=written_as is ReportFormat.focus)
    with completeness(settings, opened, query, strict=strict):
        if written_as is ReportFormat.focus:
            from gpucost.cli._report_files import write_focus

            write_focus(settings, opened, query, month, focus_version.value, target, quiet=quiet)
            note_gaps(settings, opened, period, quiet=quiet)
            return
        if compare:
            view = comparisons.compared_report(settings, opened, query)
        elif waste:
            from gpucost.cli._waste import with_waste

            if written_as in _FLAT:
                raise UsageError("--waste has no place in the columns of csv and parquet", "gpucost waste --format csv")

            view = with_waste(*pipeline.waste_report(settings, opened, query, top=top))
        else:
            view = pipeline.report(settings, opened, query)
        beside: Sequence[Block] = ()
        if written_as is ReportFormat.html:
            from gpucost.cli._page import page

            view, beside = page(settings, opened, query, view, findings)
        write_report(view, written_as, target, beside)
        if target:
            note(f"{view.title}: written to {target}", quiet=quiet)
        if written_as in _FLAT:
            note_gaps(settings, opened, period, query.clusters, quiet=quiet)


def _format_of(target: Path | None) -> ReportFormat:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in _SUFFIXES:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(_SUFFIXES)}; with any other, --format says how to write it",
        )
    return _SUFFIXES.get(suffix, ReportFormat.table)


def write_report(view: ReportView, format: ReportFormat, output: Path | None, blocks: Sequence[Block] = ()) -> None:
    """The report in `format` to `output`, or to stdout where it is None. Raises GpucostError where the file cannot be written.

    The view of an HTML page needs series; `blocks` stand after its sections.
    """
    if format is ReportFormat.parquet:
        from gpucost.cli._report_files import write_parquet

        write_parquet(view, output)
        return
    text = _rendered(view, format, output, blocks)
    put_or_write(text, output)


def _rendered(view: ReportView, format: ReportFormat, output: Path | None, blocks: Sequence[Block]) -> str:
    if format is ReportFormat.json:
        from gpucost.report.render_data import to_json

        return to_json(view)
    if format is ReportFormat.csv:
        from gpucost.report.render_data import to_csv

        return to_csv(view)
    if format is ReportFormat.markdown:
        from gpucost.report.render_markdown import render as markdown

        return markdown(view)
    if format is ReportFormat.html:
        from gpucost.report.html import render as html

        return html(view, blocks=blocks)
    from gpucost.cli._fit import line_width
    from gpucost.report.render_terminal import render as terminal

    draws = _draws(output)
    width = max(_NARROWEST, line_width(output) or _WIDTH_WITHOUT_TERMINAL)
    return terminal(view, width, color=draws and not os.environ.get("NO_COLOR"), charts=draws and _can_spell("▇░▏▁"))


def _draws(output: Path | None) -> bool:
    """Whether a report goes to a terminal that can do more than print: there are colors, bars and sparklines there only."""
    return output is None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _can_spell(text: str) -> bool:
    return text.encode(encoding := sys.stdout.encoding or "utf-8", "replace").decode(encoding) == text
