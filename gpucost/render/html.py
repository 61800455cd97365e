"""Reports as one self-contained HTML file: no network, no fonts, no library."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

from gpucost.records import frozen_dataclass
from gpucost.render.charts import HEIGHT, columns, spark, spark_words
from gpucost.render.formatting import (
    cell,
    coverage_lines,
    figure_text,
    item_value,
    remark,
    sum_text,
    value_of,
)
from gpucost.render.glossary import OF_TITLE, TERMS
from gpucost.render.view import (
    CHARGED,
    OF_ALLOCATED,
    OF_NODES,
    Column,
    Figure,
    Figures,
    Item,
    LayerKind,
    Line,
    ReportView,
    Section,
    Step,
    Table,
    Unit,
    Value,
    part_of,
)
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from jinja2 import Environment


@frozen_dataclass
class Bar:
    """One bar; its length is its share of the block's longest, its color the color of `kind` in charts.

    `note` comes after the value.
    """

    label: str
    value: float | Decimal
    unit: Unit
    note: str | None
    kind: LayerKind


@frozen_dataclass
class Block:
    """A section: a sentence, figures, bars, a table and a list of items, each optional; `note` ends it.

    The table of a block that `is_searched` can be filtered, and names of teams, namespaces and workloads elsewhere
    link to it.
    """

    title: str
    intro: str | None = None
    figures: tuple[Figure, ...] = ()
    bars: tuple[Bar, ...] = ()
    table: Table | None = None
    items: tuple[Item, ...] = ()
    note: str | None = None
    is_searched: bool = False


@cache
def environment() -> Environment:
    """The templates of reports/html and reports/chargeback, which share macros; names are escaped.

    Cached: a bundle renders the same templates for every team.
    """
    from gpucost.render import templates as shared  # slow to import

    folders = (reports_dir() / "html", reports_dir() / "chargeback")
    templates = shared.environment(*folders, trim_blocks=True, lstrip_blocks=True)
    templates.globals |= {
        function.__name__: function
        for function in (
            bodies,
            cells_of,
            columns,
            dimension_of,
            figure_text,
            item_value,
            remark,
            spark,
            spark_words,
            sum_text,
            value_of,
        )
    }
    # pages of teams, passed by the caller
    templates.globals |= {"pages": {}, "term_of": OF_TITLE.get}
    return templates


@cache
def frame() -> dict[str, str]:
    """`style` and `script`, for inclusion in a page, and their digests for its Content-Security-Policy."""
    found = {}
    for name, file in (("style", "report.css"), ("script", "report.js")):
        text = (reports_dir() / "html" / file).read_text("utf-8").strip()
        found[name], found[f"{name}_digest"] = text, b64encode(sha256(text.encode()).digest()).decode()
    return found


def bodies(table: Table) -> list[tuple[bool, list[Line]]]:
    """Groups of lines that are sorted among each other; sums (the first item) stay in place."""
    return [(is_sum, list(lines)) for is_sum, lines in groupby(table.lines, key=lambda line: line.is_sum)]


def cells_of(
    line: Line, columns: Sequence[Column], currency: str
) -> tuple[str, list[tuple[Column, str, str]]]:
    """The text of a line's first cell; the other columns, each with its text and sort value."""
    texts = [cell(value, column, currency) for value, column in zip(line.cells, columns, strict=True)]
    return texts[0], list(zip(columns[1:], texts[1:], map(sort_value, line.cells[1:]), strict=True))


_DIMENSIONS = ("Team", "Namespace", "Workload", "GPU", "Cluster")


def dimension_of(column: Column) -> str:
    """The dimension of a column's names, if the page can be searched for them; otherwise empty."""
    is_searched = column.title in _DIMENSIONS or column.title.startswith("label:")
    return column.title.lower() if is_searched and column.unit == "text" else ""


def sort_value(value: Value) -> str:
    """The sort value of a number; empty for text and unknown values."""
    if value is None or isinstance(value, str):
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:.9f}"


def part(block: Block, currency: str, step: Step | None = None) -> dict[str, Any]:
    """A block as input of the macro `part`; trends are by `step`."""
    longest = max((abs(float(bar.value)) for bar in block.bars), default=0.0)
    lengths = [f"{abs(float(bar.value)) / longest * 100:.2f}%" if longest else "0%" for bar in block.bars]
    return {"block": block, "currency": currency, "step": step, "lengths": lengths}


def cards(view: ReportView) -> list[Figure]:
    """Cost, wasted parts of it, and the ratios with a target."""
    totals = view.totals
    nodes = view.node_totals
    api = view.totals_api
    shared = view.totals_shared
    whole = nodes.node_cost if nodes else totals.cost
    found = [Figure("Cost", whole, "money", note="for all GPU nodes" if nodes else None)]
    if nodes:
        found.append(part_of("Allocated", totals.cost, whole, OF_NODES))
        found.append(part_of("Unallocated", nodes.unallocated_cost, whole, OF_NODES))
        if nodes.not_collected_cost:
            found.append(part_of("Not collected", nodes.not_collected_cost, whole, OF_NODES))
    found.append(part_of("Idle", totals.idle_cost, totals.cost, OF_ALLOCATED))
    if shared and shared.costs:
        found.append(Figure("Shared", shared.shared_cost, "money", note="in addition"))
    if api:
        found.append(Figure("Bought tokens", api.api_cost, "money", note="in addition"))
    return [*found, Figure("GPU-hours held", totals.allocated_gpu_hours, "hours"), *view.targets]


def render(view: ReportView, *, blocks: Sequence[Block] = (), pages: Mapping[str, str] | None = None) -> str:
    """The whole report as one file, with style, script and charts, that loads no other file.

    `blocks` follow the report's own sections; `pages` are the teams' pages, relative to this one. The view needs
    sections and series. The same input gives the same bytes.
    """
    if view.series is None:
        raise ValueError("the HTML report needs series: use Query(with_series=True)")
    series = view.series
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **frame(),
            view=view,
            currency=view.currency,
            series=series,
            cards=cards(view),
            status=_status(view),
            charged=_charged(view),
            height=HEIGHT,
            parts=[
                part(block, view.currency, series.step) for block in (*map(_block, view.sections), *blocks)
            ],
            pages=pages or {},
            terms=TERMS,
            coverage=coverage_lines(view.coverage, view.currency),
            notices=[
                list(alike) for _, alike in groupby(view.coverage.warnings, key=lambda notice: notice.code)
            ],
        )
    )


def _block(section: Section) -> Block:
    if isinstance(section, Figures):
        return Block(section.title, figures=section.figures)
    return Block(section.title, table=section if isinstance(section, Table) else None)


def _status(view: ReportView) -> str:
    """The missing or estimated parts of the figures."""
    coverage = view.coverage
    parts = [] if coverage.is_whole else ["not fully collected"]
    if coverage.estimated_cost:
        parts.append("partly estimated" if coverage.final_cost else "estimated: not billed yet")
    return "; ".join(parts) or "fully billed"


def _charged(view: ReportView) -> dict[str, str] | None:
    """The section with the charged amounts, which charts do not show; None if no costs are shared."""
    for place, section in enumerate(view.sections, 1):
        if isinstance(section, Table) and CHARGED in (column.title for column in section.columns):
            return {"id": f"part-{place}", "title": section.title, "column": CHARGED}
    return None
