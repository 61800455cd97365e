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
from gpucost.render.formatting import coverage_lines, figure_text, remark_of, share_of, sum_text, value_of, with_arrow
from gpucost.render.view import (
    CHARGED,
    Change,
    Column,
    Figure,
    Figures,
    LayerKind,
    Line,
    Notice,
    ReportView,
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
class Item:
    """Something to do: what it is worth (`note` says of what time; `is_most`: no more than that), why, and what shows it."""

    title: str
    value: Decimal
    unit: Unit
    note: str
    text: str
    command: str | None = None
    is_most: bool = False


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


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    is_text: bool
    weight: int


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` is what a number sorts by, empty for text and for what is not known; `trend` says which way a change went."""

    text: str
    value: str
    is_text: bool
    weight: int
    trend: Literal["", "up", "down"]


@dataclass(frozen=True, slots=True)
class Trend:
    path: str
    width: int
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[Cell, ...]
    flag: str | None
    trend: Trend | None


@dataclass(frozen=True, slots=True)
class Body:
    """Rows that are sorted among each other; sums stay where they are."""

    is_sum: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    sum: str | None
    note: str | None
    heads: tuple[Head, ...]
    bodies: tuple[Body, ...]
    has_trends: bool
    has_flags: bool


def grid(table: Table, currency: str, step: Step | None = None) -> Grid:
    """The whole table; trends are by `step`."""
    return Grid(
        title=table.title,
        sum=sum_text(*table.sum, currency) if table.sum else None,
        note=table.note,
        heads=tuple(Head(column.title, column.unit == "text", column.weight) for column in table.columns),
        bodies=tuple(
            Body(is_sum, tuple(_row(line, table, currency, step) for line in lines))
            for is_sum, lines in groupby(table.lines, key=lambda line: line.is_sum)
        ),
        has_trends=any(line.trend for line in table.lines) and step is not None,
        has_flags=any(line.flag for line in table.lines),
    )


def _row(line: Line, table: Table, currency: str, step: Step | None) -> Row:
    trend = Trend(spark(line.trend), len(line.trend), spark_words(line.trend, step, currency)) if line.trend and step else None
    cells = (_cell(value, column, currency) for value, column in zip(line.cells, table.columns, strict=True))
    return Row(tuple(cells), line.flag, trend)


def _cell(value: Value, column: Column, currency: str) -> Cell:
    trend = direction(value) if column.unit == "change" else ""
    return Cell(with_arrow(value, column, currency), _sorted_by(value), column.unit == "text", column.weight, trend)


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
        "title": block.title,
        "intro": block.intro,
        "figures": [told(figure, currency) for figure in block.figures],
        "bars": [_bar(bar, longest, currency) for bar in block.bars],
        "grid": grid(block.table, currency) if block.table else None,
        "items": [_item(item, currency) for item in block.items],
        "note": block.note,
    }


def _bar(bar: Bar, longest: float, currency: str) -> dict[str, Any]:
    text = figure_text(bar.value, bar.unit, currency, 2 if bar.unit in ("money", "price") else 1)
    return {
        "label": bar.label,
        "text": f"{text} h" if bar.unit == "hours" else text,
        "note": bar.note,
        "length": f"{abs(float(bar.value)) / longest * 100:.2f}%" if longest else "0%",
        "style": "c5" if bar.value < 0 else "c0" if bar.kind == "named" else bar.kind,
    }


def _item(item: Item, currency: str) -> dict[str, Any]:
    text = figure_text(item.value, item.unit, currency, 2)
    return {
        "title": item.title,
        "value": f"{'≤ ' if item.is_most else ''}{text}",
        "note": item.note,
        "text": item.text,
        "command": item.command,
    }


def told(figure: Figure, currency: str) -> dict[str, Any]:
    """A figure in words, with what it is a share of or its target."""
    return {
        "label": figure.label,
        "value": value_of(figure, currency),
        "remark": f"{share_of(figure)} {remark_of(figure)}".strip(),
        "status": figure.status,
    }


_CHANGE = Column("Change", "change", 1)


def cards(view: ReportView) -> list[dict[str, Any]]:
    """What it cost, what of that was no use, and the ratios that have a target, in words; and how costs changed."""
    totals, nodes, since = view.totals, view.node_totals, view.changes
    whole = nodes.node_cost if nodes else totals.cost
    found: list[tuple[Figure, Change | None]] = [
        (Figure("Cost", whole, "money", note="of all GPU nodes" if nodes else None), _of(view, "node_cost" if nodes else "cost"))
    ]
    if nodes:
        allocated = Figure("Allocated", totals.cost, "money", ratio(totals.cost, whole), "of cost")
        unallocated = Figure("Unallocated", nodes.unallocated_cost, "money", ratio(nodes.unallocated_cost, whole), "of cost")
        found += [(allocated, _of(view, "cost")), (unallocated, _of(view, "unallocated_cost"))]
        if nodes.not_collected_cost:
            share = ratio(nodes.not_collected_cost, whole)
            unseen = Figure("Not collected", nodes.not_collected_cost, "money", share, "of cost")
            found.append((unseen, _of(view, "not_collected_cost")))
    share_of = "of allocated cost" if nodes else "of cost"
    found.append((Figure("Idle", totals.idle_cost, "money", ratio(totals.idle_cost, totals.cost), share_of), None))
    if view.totals_shared and view.totals_shared.costs:
        found.append((Figure("Shared", view.totals_shared.shared_cost, "money", note="on top"), None))
    found.append((Figure("GPU-hours held", totals.allocated_gpu_hours, "hours"), None))
    targets = [figure for section in view.sections if isinstance(section, Figures) for figure in section.figures if figure.status]
    return [
        told(figure, view.currency) | {"change": _told(change) if since else None}
        for figure, change in [*found, *((figure, None) for figure in targets)]
    ]


def _of(view: ReportView, name: str) -> Change | None:
    change: Change | None = getattr(view.changes, name, None)
    return change


def _told(change: Change | None) -> dict[str, str] | None:
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


def _section(section: Table | Figures, currency: str, step: Step) -> dict[str, Any]:
    empty = part(Block(section.title), currency)
    if isinstance(section, Figures):
        return empty | {"figures": [told(figure, currency) for figure in section.figures]}
    return empty | {"grid": grid(section, currency, step)}


def _alike(notices: list[Notice]) -> dict[str, list[Notice]]:
    """Hundreds of nodes without a price are one problem: the first few of a kind stand there, the rest can be unfolded."""
    return {"shown": notices[:_SHOWN_ALIKE], "more": notices[_SHOWN_ALIKE:]}
