"""Additional blocks of a report's page: waste, unit costs, findings, reconciliation."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from gpucost.errors import IncompleteError, PriceError
from gpucost.options import WorkloadSelection
from gpucost.periods import Period, is_month, period_words
from gpucost.pipeline import read_attributed
from gpucost.questions import findings as of_findings
from gpucost.questions.efficiency import PARTS, effective_cost, losses_of, remedies, tables
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report.build import workload_tables
from gpucost.questions.report.query import filters
from gpucost.questions.report.reading import load_rates
from gpucost.questions.units import unit_table, work_title
from gpucost.questions.units.query import UnitQuery, UnitView
from gpucost.questions.units.reading import unit_views
from gpucost.questions.waste.anatomy import BUCKETS, Waste, build as dissect
from gpucost.render.formatting import figure_text, percent
from gpucost.render.html import Bar, Block
from gpucost.render.view import LayerKind, Notice, ReportView, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.publish.chargeback import Bundle
    from gpucost.questions.efficiency import Waterfall
    from gpucost.questions.findings.kinds import Findings
    from gpucost.questions.report.query import Query
    from gpucost.store.connection import Store

    _Facts = tuple[Table, Waste, Sequence[UnitView], Sequence[Waterfall], Sequence[Notice]]


def reconciled(settings: Config, store: Store, query: Query, view: ReportView) -> ReportView:
    """Add the month's reconciliation to `view`, if it is on a whole month and fleet with a bill.

    Adds none if machines without metrics are billed in a currency without a rate: `gpucost reconcile` reports that.
    """
    if (
        "bill" not in view.coverage.price_sources
        or query.is_narrowed
        or query.clusters
        or not is_month(query.period, settings.tz)
    ):
        return view
    month = f"{query.period.start.astimezone(settings.tz):%Y-%m}"
    try:
        sentence = reconciliation(settings, store, month).sentence
    except (IncompleteError, PriceError):
        return view
    return replace(view, coverage=replace(view.coverage, reconciliation=sentence))


#: Number of findings on each page of a bundle.
FINDINGS = 10
_MOST_ROWS = 10
# Columns to hide on a phone, and columns to leave out so that names have room.
_WEIGHTS = {"Cluster": 3, "Team": 2, "GPU": 2}
_NOT_SEARCHED = ("Share", "Idle h", "Unmeasured", "Efficiency")
_KINDS: Mapping[str, LayerKind] = {
    "active": "active",
    "unmeasured": "unmeasured",
    "cpu_memory": "others",
    **{bucket.name: "unallocated" for bucket in BUCKETS if bucket.scope == "unallocated"},
}
# By answer: its most informative list, and the columns to show.
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
    "epoch": "The cost of an epoch is the cost of its workload from one epoch to the next, including idle time and restarts.",
    "requests": "Counts the whole cost of the serving workload, including idle time; failed requests are not counted.",
    "tokens": "Counts the whole cost of the serving workload, including idle time.",
}


def blocks(
    config: Config,
    period: Period,
    workloads: Table,
    waste: Waste,
    units: Sequence[UnitView],
    advice: Findings | None,
    top: int = FINDINGS,
) -> tuple[Block, ...]:
    """A block for each input with content; `advice` is None if findings were not requested."""
    words = " ".join(period_words(period, config.tz))
    # the long table of workloads is last, also in print
    found = [
        _advice(advice, config.currency, words, top) if advice else None,
        _wasted(waste, config.currency, None if advice else f"gpucost findings {words}"),
        *(_per_unit(view, words) for view in units),
        searched(workloads),
    ]
    return tuple(filter(None, found))


def page(config: Config, store: Store, query: Query, view: ReportView, findings: int) -> ReportView:
    """Prepare the view for an HTML page: add the reconciliation and blocks, one with findings.

    Adds no blocks if the selected pods held no GPUs.
    """
    view = reconciled(config, store, query, view)
    if query.is_narrowed and not view.totals.allocated_gpu_hours:
        return view
    workloads, waste, units, effective, notices = _facts(config, store, query)
    advice = of_findings.findings_of(config, store, query) if findings else None
    found = blocks(config, query.period, workloads, waste, units, advice, findings)
    coverage = replace(view.coverage, warnings=(*view.coverage.warnings, *notices))
    return replace(view, coverage=coverage, blocks=(*found, *_effective(effective, config.currency)))


def _facts(config: Config, store: Store, query: Query) -> _Facts:
    """The data of the blocks, by the report's filters: every workload, waste, unit costs and effective cost."""
    unit_query = UnitQuery(config, query.period, query.period_name, **filters(query))

    def read(con: DuckDBPyConnection) -> _Facts:
        load_rates(con, config, query)
        return (
            workload_tables(con, config, query, {})[None],
            dissect(con, config, query, top=0),
            () if query.labels else unit_views(con, unit_query),  # units have no labels
            *(effective_cost(con, config, query) if config.activity.profile else ((), ())),
        )

    return read_attributed(config, store, read, query.period)


def bundle_blocks(
    config: Config, bundle: Bundle, advice: Findings | None
) -> dict[str | None, tuple[Block, ...]]:
    """The blocks of each team's page in a bundle; key None has the blocks of all teams."""
    period = bundle.query.period
    workloads = bundle.workloads
    found: dict[str | None, tuple[Block, ...]] = {
        None: blocks(config, period, workloads[None], bundle.waste, bundle.units, advice)
    }
    for team in bundle.teams:
        units = [_of_team(view, team) for view in bundle.units]
        team_advice = advice and advice.narrowed(WorkloadSelection(teams=(team,)))
        found[team] = blocks(
            config, period, workloads[team], bundle.waste.of("team", team), units, team_advice
        )
    return found


def searched(workloads: Table) -> Block:
    """The table of workloads, with the columns that fit a page."""
    lines = sorted(workloads.lines, key=lambda line: line.is_sum)
    is_shown = [column.title not in _NOT_SEARCHED for column in workloads.columns]
    columns = [
        replace(column, weight=_WEIGHTS.get(column.title, column.weight))
        for column in compress(workloads.columns, is_shown)
    ]
    displayed_lines = [replace(line, cells=tuple(compress(line.cells, is_shown))) for line in lines]
    table = Table("All workloads", tuple(columns), tuple(displayed_lines), workloads.note)
    return Block(table.title, table=table, is_searched=True)


def _wasted(waste: Waste, currency: str, command: str | None) -> Block | None:
    """Bars of money, or of GPU-hours without any price."""
    rows = [row for row in waste.buckets if row.cost or row.gpu_hours]
    if not rows:
        return None
    sums = waste.totals
    is_priced = bool(sums.cost)
    bars = tuple(
        Bar(
            row.kind.title,
            row.cost if is_priced else row.gpu_hours,
            "money" if is_priced else "hours",
            f"{row.gpu_hours:,.1f} h; {row.kind.meaning}" if is_priced else row.kind.meaning,
            _KINDS.get(row.bucket, "idle"),
        )
        for row in rows
    )
    part, whole = (sums.wasted_cost, sums.cost) if is_priced else (sums.wasted_gpu_hours, sums.gpu_hours)
    wasted, total = (
        figure_text(value, "money", currency, 2) if is_priced else f"{value:,.1f} GPU-hours"
        for value in (part, whole)
    )
    useful = [row.kind.title for row in rows if not row.kind.is_waste]
    but = f": every bar except {' and '.join(useful)}" if useful else ""
    intro = f"Wasted: {wasted} of {total}, {percent(float(part) / float(whole))}{but}."
    return Block(
        "Where GPU time went", intro, bars=bars, note=f"What to do about it: {command}" if command else None
    )


def _effective(rows: Sequence[Waterfall], currency: str) -> Iterator[Block]:
    """The waterfall as bars, a table for each grouping, and the workloads that lose most."""
    if not rows:
        return
    total, *others = tables(rows, FINDINGS)
    bars = []
    for part, title, _, kind in PARTS:
        cost = getattr(rows[0], f"{part}_cost")
        if cost is not None:
            bars.append(Bar(title, cost, "money", None, kind))
    yield Block("Effective cost", total.title, bars=tuple(bars), note=total.note)
    for table in others:
        yield Block(f"Effective cost {table.title.replace('By', 'by')}", table=table)
    for lost in remedies(losses_of(rows), currency):
        yield Block(lost.title, "; ".join(lost.texts), note=lost.note)


def _per_unit(view: UnitView, words: str) -> Block | None:
    name = view.name.removeprefix("unit.")
    section, columns = _COLUMNS[name]
    rows = sorted(view.sections.get(section, ()), key=lambda row: -row["cost"])
    if not rows:
        return None
    table = unit_table(
        view.title, columns.split(), rows[:_MOST_ROWS], view.query.config.tz, work=work_title(view)
    )
    more = f"{len(rows) - _MOST_ROWS:,} more: gpucost unit {name} {words}" if len(rows) > _MOST_ROWS else None
    return Block(view.title, _WHAT[name], table=replace(table, note=more))


def _advice(advice: Findings, currency: str, words: str, top: int) -> Block | None:
    if not advice.findings:
        return None
    items = of_findings.finding_items(advice.findings[:top], currency).items
    left = len(advice.findings) - len(items)
    note = f"{left:,} more: gpucost findings {words}" if left else None
    return Block(of_findings.TITLE, of_findings.headline(advice, currency), items=items, note=note)


def _of_team(view: UnitView, team: str) -> UnitView:
    """The view's rows for one team.

    A workload that changed teams is only on the page of all teams.
    """
    sections = {
        name: [row for row in rows if row.get("team") == team] for name, rows in view.sections.items()
    }
    return replace(view, sections=sections)
