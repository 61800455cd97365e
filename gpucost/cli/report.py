"""`gpucost report`: what GPUs cost, by team or by any other dimension."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost import pipeline
from gpucost.cli import waste as _findings
from gpucost.cli.app import RARE, WRITTEN
from gpucost.cli.command import Call, command, completeness, count_option, names_in, note_gaps, option
from gpucost.cli.output import atomic_write, drop_stdout, file_needed, is_drawn, stdout_failed, write_output, write_page
from gpucost.cli.unit import unit_table, work_title
from gpucost.errors import IncompleteError, PriceError, UsageError
from gpucost.periods import is_month
from gpucost.render.formatting import figure_text
from gpucost.render.html import Bar, Block
from gpucost.report.waste import BUCKETS
from gpucost.savings import period_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpucost.config.model import Config
    from gpucost.findings import Findings
    from gpucost.periods import Period
    from gpucost.publish.chargeback import Bundle
    from gpucost.render.view import LayerKind, ReportView
    from gpucost.report import Query
    from gpucost.report.units.query import UnitView
    from gpucost.report.waste import Waste
    from gpucost.store.connection import Store


class Comparison(StrEnum):
    """What a report is compared with."""

    previous = "previous"


def check_comparable(query: Query, *, waste: bool, focus: bool) -> None:
    """Raises UsageError for what has nothing of an earlier period beside it."""
    if focus:
        raise UsageError("a FOCUS file holds charges, and nothing to compare them with", "leave out --compare")
    if waste:
        raise UsageError("--compare and --waste exclude each other", "give one of them")
    if times := [name for name in query.by if name in ("month", "day", "hour")]:
        raise UsageError(f"rows by {times[0]} have none of the period before to compare with", f"leave {times[0]} out of --by")


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
    **{f".{name}": ReportFormat(name) for name in ("html", "json", "csv", "parquet")},
    ".txt": ReportFormat.table,
}


@command("team namespace cluster period by format output")
def report(
    call: Call,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "A,B",
            "Rows by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour. Default: team; with --team namespace; with --namespace workload.",
        ),
    ] = None,
    format: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            help="How to write it. Default: by the suffix of -o (.md, .html, .json, .csv, .parquet, .txt), else table. "
            "focus: the bill of a month, split (docs/focus.md).",
            show_default=False,
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    share_unallocated: Annotated[
        Sharing | None,
        typer.Option(
            "--share-unallocated",
            help="Also spread what nobody held over the teams that used such GPUs in that cluster: by cost, or evenly.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        Comparison | None,
        typer.Option(
            "--compare",
            help="Also how cost changed since the period before, as long; of a month, since the month before.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, count_option("--top", "How many top consumers to list.")] = 10,
    waste: Annotated[
        bool, typer.Option("--waste", help="Also the tables of gpucost waste: where GPU time was wasted and on what.")
    ] = False,
    findings: Annotated[
        int,
        count_option(
            "--findings",
            "On an HTML page, also so many of the dearest findings; asking what-ifs takes seconds, longer on a large fleet.",
        ),
    ] = 0,
    focus_version: Annotated[
        FocusVersion, typer.Option("--focus-version", help="Version of FOCUS that --format focus follows.", rich_help_panel=RARE)
    ] = FocusVersion.v1_2,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 after the report where its period was not collected in full.")
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
      gpucost report --month 2026-10 --format focus -o october-focus.csv
      gpucost report --namespace nlp-prod --by pod,day --format csv -o pods.csv
    """
    from gpucost import comparisons

    target = call.target
    written_as = format or _format_of(target)
    if findings and written_as is not ReportFormat.html:
        raise UsageError("--findings has a place on an HTML page only", "gpucost findings lists them in every other format")
    settings, opened = call.settings, call.store
    query = call.query(
        by=names_in(by),
        top=top,
        with_sections=written_as in (ReportFormat.table, ReportFormat.markdown, ReportFormat.html),
        with_series=written_as is ReportFormat.html or (written_as is ReportFormat.table and is_drawn(target)),
        share_unallocated=share_unallocated.value if share_unallocated else None,
    )
    if compare:
        check_comparable(query, waste=waste, focus=written_as is ReportFormat.focus)
    with completeness(settings, opened, query, strict=strict):
        if written_as is ReportFormat.focus:
            write_focus(call, query, focus_version.value)
            note_gaps(settings, opened, query.period, quiet=call.quiet)
            return
        if compare:
            view = comparisons.compared_report(settings, opened, query)
        elif waste:
            if written_as in _FLAT:
                raise UsageError("--waste has no place in the columns of csv and parquet", "gpucost waste --format csv")
            view = _findings.with_waste(*pipeline.waste_report(settings, opened, query, top=top))
        else:
            view = pipeline.report(settings, opened, query)
        extra_blocks: Sequence[Block] = ()
        if written_as is ReportFormat.html:
            view, extra_blocks = page(settings, opened, query, view, findings)
        write_report(view, written_as, target, extra_blocks)
        call.note_written(view.title)
        if written_as in _FLAT:
            note_gaps(settings, opened, query.period, query.clusters, quiet=call.quiet)


def _format_of(target: Path | None) -> ReportFormat:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in _SUFFIXES:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(_SUFFIXES)}; with any other, --format says how to write it",
        )
    return _SUFFIXES.get(suffix, ReportFormat.table)


def write_report(view: ReportView, format: str, output: Path | None, blocks: Sequence[Block] = ()) -> None:
    """The report in `format`, one of ReportFormat, to `output`, or to stdout where it is None.

    The view of an HTML page needs series; `blocks` stand after its sections. Raises GpucostError where it cannot be written.
    """
    from gpucost.render import data

    if format == "parquet":
        with atomic_write(file_needed(output)) as part:
            data.to_parquet(view, part)
    elif format == "html":
        from gpucost.render.html import render

        write_output(render(view, blocks=blocks), output)
    elif format in ("json", "csv"):
        write_output(data.to_json(view) if format == "json" else data.to_csv(view), output)
    else:
        write_page(view, output, markdown=format == "markdown")


def write_focus(call: Call, query: Query, version: str) -> None:
    """The bill of a month as a FOCUS file, CSV or, by its suffix, Parquet; CSV to stdout where -o names no file.

    Raises UsageError without a month, and for a report that is narrowed: the file takes the place of whole charges.
    """
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
        totals = pipeline.focus_file(config, call.store, month, version, "parquet" if is_parquet else "csv", part)
        if target is None:
            _to_stdout(part)
    billed = "; ".join(f"{cost:,.2f} {currency} effective" for currency, cost in totals.effective_cost.items()) or "no bill"
    call.note(
        f"FOCUS {version} of {month}: {totals.charges:,} charges in {totals.billed_rows:,} rows, {billed}; "
        f"{totals.estimated_rows:,} rows of estimates, {totals.estimated_cost:,.2f} {config.currency}"
    )


def _to_stdout(file: Path) -> None:
    try:
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        drop_stdout()
        raise
    except OSError as error:
        raise stdout_failed(error) from None


def reconciled(settings: Config, store: Store, query: Query, view: ReportView) -> ReportView:
    """`view`, saying where the month's bill went; as it is where no bill prices it, or it is of a part of a month or fleet.

    No word either where machines that no metrics saw are billed in a currency without a rate: `gpucost reconcile` says so.
    """
    is_billed = any(source.name == "bill" for source in view.coverage.price_sources)
    if not is_billed or query.is_narrowed or query.clusters or not is_month(query.period, settings.tz):
        return view
    month = f"{query.period.start.astimezone(settings.tz):%Y-%m}"
    try:
        sentence = pipeline.reconcile(settings, store, month).sentence
    except (IncompleteError, PriceError):
        return view
    return replace(view, coverage=replace(view.coverage, reconciliation=sentence))


#: How many findings stand on each page of a bundle.
FINDINGS = 10
_MOST_ROWS = 10
_BUCKETS = {bucket.name: bucket for bucket in BUCKETS}
_KINDS: Mapping[str, LayerKind] = {
    "active": "active",
    "unmeasured": "unmeasured",
    "cpu_memory": "others",
    **{bucket.name: "unallocated" for bucket in BUCKETS if bucket.whose == "unallocated"},
}
# By answer: the list that says most, and its columns.
_COLUMNS = {
    "epoch": ("runs", "run namespace epochs_done mean_cost lost_cost cost forecast_cost"),
    "requests": ("models", "workload namespace model amount failed cost idle_cost cost_per_1000"),
    "tokens": (
        "models",
        "workload namespace model prompt_tokens generation_tokens cost cost_per_million_tokens "
        "cost_per_million_generation_tokens",
    ),
}
_WHAT = {
    "epoch": "An epoch costs what its workload cost from one epoch to the next, idle time and restarts included.",
    "requests": "The whole cost of the workload that serves counts, also while it idles; failed requests are not counted.",
    "tokens": "The whole cost of the workload that serves counts, also while it idles.",
}


def blocks(
    config: Config, period: Period, waste: Waste, units: Sequence[UnitView], advice: Findings | None, top: int = FINDINGS
) -> tuple[Block, ...]:
    """A block for each of them that has something to say; `advice` is None where nobody asked for findings."""
    words = " ".join(period_words(config, period))
    found = [_wasted(waste, config.currency, None if advice else f"gpucost findings {words}")]
    found += [_per_unit(view, words) for view in units]
    found += [_advice(advice, config.currency, words, top)] if advice else []
    return tuple(block for block in found if block)


def page(config: Config, store: Store, query: Query, view: ReportView, findings: int) -> tuple[ReportView, tuple[Block, ...]]:
    """What stands on a report's page: the view with where the month's bill went, and blocks, one of `findings` findings.

    No blocks where nobody held a GPU of those asked for.
    """
    view = reconciled(config, store, query, view)
    if query.is_narrowed and not view.totals.allocated_gpu_hours:
        return view, ()
    waste, units = pipeline.page_facts(config, store, query)
    advice = None
    if findings:
        every = _findings.read_findings(config, store, query.period)
        advice = _findings.narrowed(every, query.teams, query.namespaces, query.clusters)
    return view, blocks(config, query.period, waste, units, advice, findings)


def bundle_blocks(config: Config, bundle: Bundle, advice: Findings | None) -> dict[str | None, tuple[Block, ...]]:
    """The blocks of each team's page of a bundle, and under None those of all teams."""
    period = bundle.ask.period
    found: dict[str | None, tuple[Block, ...]] = {None: blocks(config, period, bundle.waste, bundle.units, advice)}
    for team in bundle.teams:
        units = [_of_team(view, team) for view in bundle.units]
        own = _findings.narrowed(advice, [team], ()) if advice else None
        found[team] = blocks(config, period, bundle.waste.of("team", team), units, own)
    return found


def _wasted(waste: Waste, currency: str, command: str | None) -> Block | None:
    """Bars of money, or of GPU-hours where nothing has a price."""
    rows = [row for row in waste.buckets if row.cost or row.gpu_hours]
    if not rows:
        return None
    is_priced = bool(waste.totals.cost)
    bars = tuple(
        Bar(
            _BUCKETS[row.bucket].title,
            row.cost if is_priced else row.gpu_hours,
            "money" if is_priced else "hours",
            "; ".join([*([f"{row.gpu_hours:,.1f} h"] if is_priced else []), _BUCKETS[row.bucket].meaning]),
            _KINDS.get(row.bucket, "idle"),
        )
        for row in rows
    )
    all_of = waste.totals
    part, whole = (all_of.wasted_cost, all_of.cost) if is_priced else (all_of.wasted_gpu_hours, all_of.gpu_hours)
    wasted, of = (figure_text(one, "money", currency, 2) if is_priced else f"{one:,.1f} GPU-hours" for one in (part, whole))
    kept = [_BUCKETS[row.bucket].title for row in rows if not _BUCKETS[row.bucket].is_waste]
    but = f": every bar but {' and '.join(kept)}" if kept else ""
    intro = f"Wasted: {wasted} of {of}, {figure_text(float(part) / float(whole), 'ratio', '', 1)}{but}."
    return Block("Where GPU time went", intro, bars=bars, note=f"What to do about it: {command}" if command else None)


def _per_unit(view: UnitView, words: str) -> Block | None:
    name = view.name.removeprefix("unit.")
    section, columns = _COLUMNS[name]
    rows = sorted(view.sections.get(section, ()), key=lambda row: -row["cost"])
    if not rows:
        return None
    table = unit_table(view.title, columns.split(), rows[:_MOST_ROWS], view.ask.tz, work=work_title(view))
    more = f"{len(rows) - _MOST_ROWS:,} more: gpucost unit {name} {words}" if len(rows) > _MOST_ROWS else None
    return Block(view.title, _WHAT[name], table=replace(table, note=more))


def _advice(advice: Findings, currency: str, words: str, top: int) -> Block | None:
    if not advice.findings:
        return None
    items = _findings.finding_items(advice.findings[:top]).items
    left = len(advice.findings) - len(items)
    note = f"{left:,} more: gpucost findings {words}" if left else None
    return Block(_findings.TITLE, _findings.headline(advice, currency), items=items, note=note)


def _of_team(view: UnitView, team: str) -> UnitView:
    """Its rows of one team; a workload that changed teams stands with all teams alone."""
    sections = {name: [row for row in rows if row.get("team") == team] for name, rows in view.sections.items()}
    return replace(view, sections=sections)
