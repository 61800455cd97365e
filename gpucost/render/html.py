"""Reports as one HTML file that needs nothing else: no network, no fonts, no library."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from gpucost.render.charts import HEAT_LEVELS, HEIGHT, clean, columns, heat_map, spark, spark_words
from gpucost.render.formatting import coverage_lines, figure_text, item_value, remark, sum_text, value_of, with_arrow
from gpucost.render.view import (
    CHARGED,
    Change,
    Column,
    Figure,
    Figures,
    Item,
    LayerKind,
    Line,
    Notice,
    ReportView,
    Section,
    Step,
    Table,
    Unit,
    Value,
    ratio,
)
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; its length is its share of the longest of the block, its color that of `kind` in charts.

    `note` stands behind the value.
    """

    label: str
    value: float | Decimal
    unit: Unit
    note: str | None = None
    kind: LayerKind = "named"


@dataclass(frozen=True, slots=True)
class Block:
    """A section of its own: a sentence, figures, bars, a table and a list of items, each where there is one; `note` ends it."""

    title: str
    intro: str | None = None
    figures: tuple[Figure, ...] = ()
    bars: tuple[Bar, ...] = ()
    table: Table | None = None
    items: tuple[Item, ...] = ()
    note: str | None = None


@cache
def environment() -> Environment:
    """The templates of reports/html, and those of reports/chargeback, which use their macros; names are escaped.

    Kept: a bundle renders the same templates for every team.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([reports_dir() / "html", reports_dir() / "chargeback"]),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def frame() -> dict[str, str]:
    """`style` and `script`, to be put into a page as they are, and their digests for its Content-Security-Policy."""
    files = {
        name: (reports_dir() / "html" / file).read_text(encoding="utf-8").strip()
        for name, file in (("style", "report.css"), ("script", "report.js"))
    }
    digests = {f"{name}_digest": b64encode(sha256(text.encode()).digest()).decode() for name, text in files.items()}
    return digests | {name: Markup(text) for name, text in files.items()}  # noqa: S704 - our own files


def _cleaned(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)


def grid(table: Table, currency: str, step: Step | None = None) -> dict[str, Any]:
    """The whole table as the macro `grid` takes it; trends are by `step`. Lines are sorted among each other; sums stay."""
    return {
        "table": table,
        "sum": sum_text(*table.sum, currency) if table.sum else None,
        "bodies": [
            (is_sum, [_line(line, table.columns, currency, step) for line in lines])
            for is_sum, lines in groupby(table.lines, key=lambda line: line.is_sum)
        ],
        "has_trends": any(line.trend for line in table.lines) and step is not None,
        "has_flags": any(line.flag for line in table.lines),
    }


def _line(line: Line, columns: Sequence[Column], currency: str, step: Step | None) -> dict[str, Any]:
    """Cells are a column, a text, what a number sorts by (nothing for text and for what is not known), and which way it went."""
    cells = [
        (column, with_arrow(value, column, currency), _sorted_by(value), direction(value) if column.unit == "change" else "")
        for value, column in zip(line.cells, columns, strict=True)
    ]
    trend = (spark(line.trend), len(line.trend), spark_words(line.trend, step, currency)) if line.trend and step else None
    return {"cells": cells, "flag": line.flag, "trend": trend}


def direction(change: Value) -> Literal["", "up", "down"]:
    """Which way a change of cost went; nowhere where it is a word, unknown, or nothing."""
    if isinstance(change, str) or not change:
        return ""
    return "up" if change > 0 else "down"


def _sorted_by(value: Value) -> str:
    if value is None or isinstance(value, str):
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:.9f}"


def part(block: Block, currency: str) -> dict[str, Any]:
    """A block in words and lengths, as the macro `part` takes it."""
    longest = max((abs(float(bar.value)) for bar in block.bars), default=0.0)
    return {
        "block": block,
        "figures": [_figure(figure, currency) for figure in block.figures],
        "bars": [_bar(bar, longest, currency) for bar in block.bars],
        "grid": grid(block.table, currency) if block.table else None,
        "item_values": [item_value(item, currency) for item in block.items],
    }


def _bar(bar: Bar, longest: float, currency: str) -> dict[str, Any]:
    text = figure_text(bar.value, bar.unit, currency, 2 if bar.unit in ("money", "price") else 1)
    return {
        "bar": bar,
        "text": f"{text} h" if bar.unit == "hours" else text,
        "length": f"{abs(float(bar.value)) / longest * 100:.2f}%" if longest else "0%",
        "style": "c5" if bar.value < 0 else "c0" if bar.kind == "named" else bar.kind,
    }


def _figure(figure: Figure, currency: str) -> dict[str, Any]:
    """A figure in words, with what it is a share of or its target."""
    return {"label": figure.label, "value": value_of(figure, currency), "remark": remark(figure), "status": figure.status}


_CHANGE = Column("Change", "change", 1)


def cards(view: ReportView) -> list[dict[str, Any]]:
    """What it cost, what of that was no use, and the ratios that have a target, in words; and how costs changed."""
    totals, nodes, since = view.totals, view.node_totals, view.changes
    whole, of = (nodes.node_cost, "of allocated cost") if nodes else (totals.cost, "of cost")

    def cost(label: str, amount: Decimal, base: Decimal = whole, share_of: str = "of cost") -> Figure:
        return Figure(label, amount, "money", ratio(amount, base), share_of)

    every = Figure("Cost", whole, "money", note="of all GPU nodes" if nodes else None)
    found: list[tuple[Figure, str]] = [(every, "node_cost" if nodes else "cost")]
    if nodes:
        found += [(cost("Allocated", totals.cost), "cost"), (cost("Unallocated", nodes.unallocated_cost), "unallocated_cost")]
        if nodes.not_collected_cost:
            found.append((cost("Not collected", nodes.not_collected_cost), "not_collected_cost"))
    found.append((cost("Idle", totals.idle_cost, totals.cost, of), ""))
    if view.totals_shared and view.totals_shared.costs:
        found.append((Figure("Shared", view.totals_shared.shared_cost, "money", note="on top"), ""))
    found.append((Figure("GPU-hours held", totals.allocated_gpu_hours, "hours"), ""))
    targets = [figure for section in view.sections if isinstance(section, Figures) for figure in section.figures if figure.status]
    return [
        _figure(figure, view.currency) | {"change": _change(getattr(since, name, None))}
        for figure, name in [*found, *((figure, "") for figure in targets)]
    ]


def _change(change: Change | None) -> dict[str, str] | None:
    """None where nothing was compared, or there was nothing to compare with."""
    if change is None or change.cost_change_percent is None:
        return None
    value = change.cost_change_percent / 100
    return {"text": with_arrow(value, _CHANGE, ""), "trend": direction(value)}


_SHOWN_ALIKE = 3


def render(view: ReportView, *, blocks: Sequence[Block] = ()) -> str:
    """The whole report as one file: style, script and charts inside, and nothing is loaded from anywhere.

    `blocks` follow the report's own sections. The view needs sections and series. The same input gives the same bytes.
    """
    if view.series is None:
        raise ValueError("the HTML report draws series: ask for them with Query(with_series=True)")
    series, currency = view.series, view.currency
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **frame(),
            title=view.title,
            subtitle=view.subtitle,
            currency=currency,
            timezone=series.timezone,
            step=series.step,
            cards=cards(view),
            since=view.changes.period_name if view.changes else None,
            status=_status(view),
            costs=[columns(stack, series, currency, before_sharing=view.totals_shared is not None) for stack in series.stacks],
            hours=columns(series.hours, series, currency),
            charged=_charged(view),
            heat=[heat_map(heat) for heat in series.heat if any(share is not None for row in heat.shares for share in row)],
            heat_levels=HEAT_LEVELS,
            height=HEIGHT,
            sections=[_section(section, currency, series.step) for section in view.sections],
            blocks=[part(block, currency) for block in blocks],
            coverage=coverage_lines(view.coverage, currency),
            notices=[_alike(list(alike)) for _, alike in groupby(view.coverage.warnings, key=lambda notice: notice.code)],
            method=series.method,
        )
    )


def _status(view: ReportView) -> str:
    """What of the figures is still to come."""
    is_whole = view.coverage.is_complete and not view.coverage.not_collected_hours
    parts = [] if is_whole else ["not collected in full"]
    if view.coverage.estimated_cost:
        parts.append("estimated in part" if view.coverage.billed_cost else "estimated: no bill covers it yet")
    return "; ".join(parts) or "billed in full"


def _charged(view: ReportView) -> dict[str, str] | None:
    """Where the page says what each was charged, which its charts do not: None where nothing is shared."""
    for place, section in enumerate(view.sections, 1):
        if isinstance(section, Table) and any(column.title == CHARGED for column in section.columns):
            return {"id": f"part-{place}", "title": section.title, "column": CHARGED}
    return None


def _section(section: Section, currency: str, step: Step) -> dict[str, Any]:
    if isinstance(section, Figures):
        return part(Block(section.title, figures=section.figures), currency)
    empty = part(Block(section.title), currency)
    return empty | ({"grid": grid(section, currency, step)} if isinstance(section, Table) else {})


def _alike(notices: list[Notice]) -> dict[str, list[Notice]]:
    """Hundreds of nodes without a price are one problem: the first few of a kind stand there, the rest can be unfolded."""
    return {"shown": notices[:_SHOWN_ALIKE], "more": notices[_SHOWN_ALIKE:]}
