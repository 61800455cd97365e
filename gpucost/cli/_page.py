"""What an HTML page says beside its report: where GPU time went, what units of work cost, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost import pipeline
from gpucost.cli import _findings
from gpucost.cli._reconciled import reconciled
from gpucost.report.html import Bar, Block, Item
from gpucost.report.view import Column, Line, Table
from gpucost.report.words import figure_text
from gpucost.savings import period_words
from gpucost.waste import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpucost.chargeback import Bundle
    from gpucost.config import Config
    from gpucost.findings import Findings
    from gpucost.model import Period
    from gpucost.report import Query, ReportView
    from gpucost.report.series.view import LayerKind
    from gpucost.store import Store
    from gpucost.units import UnitView
    from gpucost.waste import Waste

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
# By answer: the section that says most, and its columns as (key, title, unit, weight).
_COLUMNS: dict[str, tuple[str, tuple[tuple[str, str, Any, int], ...]]] = {
    "epoch": (
        "runs",
        (
            ("run", "Run", "text", 0),
            ("namespace", "Namespace", "text", 1),
            ("epochs_done", "Epochs", "hours", 0),
            ("mean_cost", "Per epoch", "price", 0),
            ("lost_cost", "Lost", "money", 2),
            ("cost", "Cost", "money", 0),
            ("forecast_cost", "Forecast", "money", 2),
        ),
    ),
    "requests": (
        "models",
        (
            ("workload", "Workload", "text", 0),
            ("namespace", "Namespace", "text", 1),
            ("model", "Model", "text", 1),
            ("amount", "Requests", "hours", 0),
            ("failed", "Failed", "hours", 3),
            ("cost", "Cost", "money", 0),
            ("idle_cost", "Idle cost", "money", 2),
            ("cost_per_1000", "Per 1,000", "price", 0),
        ),
    ),
    "tokens": (
        "models",
        (
            ("workload", "Workload", "text", 0),
            ("namespace", "Namespace", "text", 1),
            ("model", "Model", "text", 1),
            ("prompt_tokens", "Prompt tokens", "hours", 3),
            ("generation_tokens", "Generated tokens", "hours", 3),
            ("cost", "Cost", "money", 0),
            ("cost_per_million_tokens", "Per million", "price", 0),
            ("cost_per_million_generation_tokens", "Per million generated", "price", 1),
        ),
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
        every = _findings.found(config, store, query.period)
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
    is_priced = bool(waste.cost)
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
    part, whole = (waste.wasted_cost, waste.cost) if is_priced else (waste.wasted_gpu_hours, waste.gpu_hours)
    told, of = (figure_text(one, "money", currency, 2) if is_priced else f"{one:,.1f} GPU-hours" for one in (part, whole))
    kept = [_BUCKETS[row.bucket].title for row in rows if not _BUCKETS[row.bucket].is_waste]
    but = f": every bar but {' and '.join(kept)}" if kept else ""
    intro = f"Wasted: {told} of {of}, {figure_text(float(part) / float(whole), 'ratio', '', 1)}{but}."
    return Block("Where GPU time went", intro, bars=bars, note=f"What to do about it: {command}" if command else None)


def _per_unit(view: UnitView, words: str) -> Block | None:
    name = view.schema.removeprefix("gpucost.unit.").partition("/")[0]
    section, columns = _COLUMNS[name]
    rows = sorted(view.sections.get(section, ()), key=lambda row: -row["cost"])
    if not rows:
        return None
    shown = rows[:_MOST_ROWS]
    table = Table(
        view.title,
        tuple(Column(title, unit, _decimals(unit, [row[key] for row in shown]), weight) for key, title, unit, weight in columns),
        tuple(Line(tuple(row[key] for key, *_ in columns)) for row in shown),
        note=f"{len(rows) - len(shown):,} more: gpucost unit {name} {words}" if len(rows) > len(shown) else None,
    )
    return Block(view.title, _WHAT[name], table=table)


def _advice(advice: Findings, currency: str, words: str, top: int) -> Block | None:
    if not advice.findings:
        return None
    items = tuple(
        Item(
            f"{one.title}: {_findings.who(one)}",
            one.saving_per_month,
            "money",
            "a month",
            f"{one.evidence}. {one.advice[:1].upper()}{one.advice[1:]}.",
            one.command,
            one.is_bound,
        )
        for one in advice.findings[:top]
    )
    left = len(advice.findings) - len(items)
    note = f"{left:,} more: gpucost findings {words}" if left else None
    return Block(_findings.TITLE, _findings.headline(advice, currency), items=items, note=note)


def _of_team(view: UnitView, team: str) -> UnitView:
    """Its rows of one team; a workload that changed teams stands with all teams alone."""
    sections = {name: [row for row in rows if row.get("team") == team] for name, rows in view.sections.items()}
    return replace(view, sections=sections)


def _decimals(unit: str, values: list[Any]) -> int:
    """Cents, or four decimals where a price of a column is under one."""
    if unit == "hours":
        return 0
    return 4 if unit == "price" and any(abs(value) < 1 for value in values if isinstance(value, Decimal)) else 2
