"""`gpucost report`: what GPUs cost, by team or by any other dimension."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from gpucost.cli.app import RARE, WRITTEN
from gpucost.cli.command import (
    Call,
    Comparison,
    command,
    completeness,
    count_option,
    names_in,
    note_gaps,
    option,
    switch,
)
from gpucost.cli.completion import dimensions
from gpucost.cli.output import file_needed, is_drawn, to_stdout, waiting, write_output, write_page
from gpucost.disk import atomic_write
from gpucost.errors import UsageError
from gpucost.render.rows import FLAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.render.html import Block
    from gpucost.render.view import ReportView
    from gpucost.report import Query


ReportFormat = Literal["table", "markdown", "html", "json", "csv", "parquet", "focus"]
FocusVersion = Literal["1.2", "1.3"]
# How unallocated cost is spread over the teams that used such GPUs.
Sharing = Literal["proportional", "even"]

_SUFFIXES: dict[str, ReportFormat] = {
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "table",
}


@command("team namespace cluster period by format output * lake")
def report(
    call: Call,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "A,B",
            "Rows by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour, and of Slurm account, user, partition, qos, reservation. "
            "Default: team; with --team namespace; with --namespace workload.",
            autocompletion=dimensions,
        ),
    ] = None,
    format: Annotated[
        ReportFormat | None,
        option(
            "--format",
            None,
            "How to write it. Default: by the suffix of -o (.md, .html, .json, .csv, .parquet, .txt), else table. "
            "focus: the bill of a month, split (docs/focus.md).",
            WRITTEN,
        ),
    ] = None,
    share_unallocated: Annotated[
        Sharing | None,
        option(
            "--share-unallocated",
            None,
            "Also spread what nobody held over the teams that used such GPUs in that cluster: by cost, or evenly.",
        ),
    ] = None,
    compare: Annotated[
        Comparison | None,
        option(
            "--compare",
            None,
            "Also how cost changed since the period before, as long; of a month, since the month before.",
        ),
    ] = None,
    top: Annotated[int, count_option("--top", "How many top consumers to list.")] = 10,
    waste: Annotated[
        bool, switch("--waste", "Also the tables of gpucost waste: where GPU time was wasted and on what.")
    ] = False,
    findings: Annotated[
        int,
        count_option(
            "--findings",
            "On an HTML page, also so many of the dearest findings; asking what-ifs takes seconds, longer on a large fleet.",
        ),
    ] = 0,
    focus_version: Annotated[
        FocusVersion, switch("--focus-version", "Version of FOCUS that --format focus follows.", RARE)
    ] = "1.2",
    brief: Annotated[
        bool, switch("--brief", "Of Markdown only its summary: three lines, for a comment on a pull request.")
    ] = False,
    strict: Annotated[
        bool, switch("--strict", "Exit with 4 after the report where its period was not collected in full.")
    ] = False,
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
      gpucost report --month 2026-10 --format markdown --brief
      gpucost report --month 2026-10 --format focus -o october-focus.csv
      gpucost report --namespace serving --by pod,day --format csv -o pods.csv
    """
    from gpucost import pipeline

    target = call.target
    written_as = format or _format_of(target)
    call = replace(call, with_samples=waste or written_as == "html")
    if findings and written_as != "html":
        raise UsageError(
            "--findings has a place on an HTML page only", "gpucost findings lists them in every other format"
        )
    if brief and written_as != "markdown":
        raise UsageError("--brief is of Markdown only", "add --format markdown")
    settings, opened = call.settings, call.store
    query = call.query(
        by=names_in(by),
        top=top,
        with_sections=written_as in ("table", "markdown", "html"),
        with_series=written_as == "html" or (written_as == "table" and is_drawn(target)),
        share_unallocated=share_unallocated,
    )
    if compare:
        if written_as == "focus":
            raise UsageError(
                "a FOCUS file holds charges, and nothing to compare them with", "leave out --compare"
            )
        if waste:
            raise UsageError("--compare and --waste exclude each other", "give one of them")
        if times := [name for name in query.by if name in ("month", "day", "hour")]:
            raise UsageError(
                f"rows by {times[0]} have none of the period before to compare with",
                f"leave {times[0]} out of --by",
            )
    with completeness(call, query, strict=strict):
        if written_as == "focus":
            write_focus(call, query, focus_version)
            note_gaps(settings, opened, query.period, quiet=call.quiet)
            return
        if compare:
            from gpucost import comparisons

            view = comparisons.compared_report(settings, opened, query)
        elif waste:
            if written_as in FLAT:
                raise UsageError(
                    "--waste has no place in the columns of csv and parquet", "gpucost waste --format csv"
                )
            from gpucost.cli.waste import with_waste

            view = with_waste(*pipeline.waste_report(settings, opened, query, top=top))
        else:
            view = pipeline.report(settings, opened, query)
        extra_blocks: Sequence[Block] = ()
        if written_as == "html":
            from gpucost.cli.page import page

            view, extra_blocks = page(settings, opened, query, view, findings)
        if brief:
            from gpucost.render.markdown import brief as summary

            write_output(summary(view), target)
        else:
            write_report(view, written_as, target, extra_blocks)
        call.note_written(view.title)
        if written_as in FLAT:
            note_gaps(settings, opened, query.period, query.clusters, quiet=call.quiet)


def _format_of(target: Path | None) -> ReportFormat:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in _SUFFIXES:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(_SUFFIXES)}; with any other, --format says how to write it",
        )
    return _SUFFIXES.get(suffix, "table")


def write_report(
    view: ReportView, format: ReportFormat, output: Path | None, blocks: Sequence[Block] = ()
) -> None:
    """The report in `format` to `output`, or to stdout where it is None.

    The view of an HTML page needs series; `blocks` stand after its sections. Raises GpucostError where it cannot be written.
    """
    if format == "parquet":
        from gpucost.render.data import to_parquet

        with atomic_write(file_needed(output)) as part:
            to_parquet(view, part)
    elif format == "html":
        from gpucost.render.html import render

        write_output(render(view, blocks=blocks), output)
    elif format in ("json", "csv"):
        from gpucost.render.data import to_csv, to_json

        write_output(to_json(view) if format == "json" else to_csv(view), output)
    else:
        write_page(view, output, markdown=format == "markdown")


def write_focus(call: Call, query: Query, version: str) -> None:
    """The bill of a month as a FOCUS file, CSV or, by its suffix, Parquet; CSV to stdout where -o names no file.

    Raises UsageError without a month, and for a report that is narrowed: the file takes the place of whole charges.
    """
    from gpucost import pipeline

    config, month, target = call.settings, call.month, call.target
    if month is None:
        raise UsageError("a FOCUS file is of one billing period", "add --month, for example --month 2026-10")
    if query.is_narrowed or query.clusters or query.by or query.share_unallocated:
        raise UsageError(
            "--format focus takes no --team, --namespace, --cluster, --by or --share-unallocated: its rows take the place of "
            "whole charges",
            "its columns x_gpucost_team, x_gpucost_namespace and x_gpucost_cluster tell them apart",
        )
    is_parquet = target is not None and target.suffix.lower() == ".parquet"
    with atomic_write(target) as part:
        totals = pipeline.focus_file(
            config, call.store, month, version, "parquet" if is_parquet else "csv", part
        )
        if target is None:
            waiting.stop()
            with to_stdout(), part.open("rb") as content:
                shutil.copyfileobj(content, sys.stdout.buffer)
                sys.stdout.buffer.flush()
    billed = (
        "; ".join(f"{cost:,.2f} {currency} effective" for currency, cost in totals.effective_cost.items())
        or "no bill"
    )
    call.note(
        f"FOCUS {version} of {month}: {totals.charges:,} charges in {totals.billed_rows:,} rows, {billed}; "
        f"{totals.estimated_rows:,} rows of estimates, {totals.estimated_cost:,.2f} {config.currency}"
    )
