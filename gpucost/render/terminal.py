"""Pages for a terminal: plain text in columns, with color only where it is asked for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column as GridColumn
from rich.table import Table as Grid
from rich.text import Text

from gpucost.records import record
from gpucost.render.formatting import (
    cell,
    coverage_lines,
    item_value,
    remark_of,
    share_of,
    sum_text,
    value_of,
    with_arrow,
)
from gpucost.render.rows import GAP, TableFit, folded, sum_of
from gpucost.render.view import (
    Column,
    Coverage,
    Figure,
    Figures,
    Items,
    Line,
    Notice,
    Page,
    Series,
    Table,
    Texts,
    Value,
)
from gpucost.texts import unbroken, visible_parts

_BAR = "Cost ░ idle"
_TREND = "Trend"
_METER = 10
_LONGEST_BAR = 20
_SHORTEST_SPARK = 7
# no full block: it would run into that of the line above
_HEIGHTS = "▁▂▃▄▅▆▇"
_FULL = _HEIGHTS[-1]


@record
class Charts:
    """Characters for a bar and a sparkline in every line of a table; 0 where there is none."""

    bar: int = 0
    spark: int = 0

    @property
    def width(self) -> int:
        """What they take of a line, their titles included."""
        return sum(
            width + GAP for width in (self.bar, max(self.spark, len(_TREND)) if self.spark else 0) if width
        )

    def grown(self, table: Table, room: int) -> Charts:
        """As wide as `room` more characters let them be: first a character for each moment, then a longer bar."""
        spark = self.spark and min(self.spark + room, _moments(table))
        left = room - (spark - self.spark)
        return Charts(self.bar and min(self.bar + left, _LONGEST_BAR), spark)

    def titles(self, table: Table, step: str) -> list[str]:
        """What stands above each of them; `step` is that of the moments."""
        bar = _BAR if any(column.bar == "part" for column in table.columns) else ""
        # where several moments share a character it is not one a day any more
        each = f"By {step}" if self.spark >= max(_moments(table), len(f"By {step}")) else _TREND
        return [bar] * bool(self.bar) + [each] * bool(self.spark)

    def cells(self, table: Table) -> list[list[Text]]:
        """What is drawn beside each line."""
        top = max((_amount(line, table, "whole") for line in table.lines if not line.is_sum), default=0.0)
        return [
            [_bar(line, table, self.bar, top)] * bool(self.bar)
            + [Text(sparkline(line.trend, self.spark), style="cyan")] * bool(self.spark)
            for line in table.lines
        ]


def choices(table: Table) -> list[Charts]:
    """What can be drawn beside the table's lines at the least, the most telling first; nothing at last."""
    whole = any(column.bar == "whole" for column in table.columns) and len(table.lines) > 1
    bar = len(_BAR) if whole else 0
    spark = min(_SHORTEST_SPARK, _moments(table)) if _moments(table) > 1 else 0
    return list(dict.fromkeys((Charts(bar, spark), Charts(0, spark), Charts(bar, 0), Charts())))


def with_trends(table: Table, series: Series) -> Table:
    """The report's rows with the cost of each by moment, where the first stack of `series` is of the same names."""
    stack = series.stacks[0]
    if stack.title != table.title:
        return table
    trends = {
        (layer.name, layer.kind != "named"): layer.values
        for layer in stack.layers
        if layer.kind in ("named", "unallocated", "not_collected")
    }
    lines = (replace(line, trend=trends.get((str(line.cells[0]), line.is_sum), ())) for line in table.lines)
    return replace(table, lines=tuple(lines))


def sparkline(values: Sequence[Decimal], width: int) -> str:
    """At most `width` characters in a row, the highest value fills its height; blank is 0. Moments share one evenly."""
    count = min(width, len(values))
    edges = [at * len(values) // count for at in range(count + 1)] if count else []
    means = [float(sum(values[start:end])) / (end - start) for start, end in pairwise(edges)]
    top = max(means, default=0.0)
    return "".join(
        _HEIGHTS[min(int(mean / top * len(_HEIGHTS)), len(_HEIGHTS) - 1)] if mean > 0 else " "
        for mean in means
    )


def meter(share: float) -> str:
    """A share (0-1) of a whole, drawn."""
    full = min(_METER, max(round(share * _METER), 0))
    return _FULL * full + "·" * (_METER - full)


def _moments(table: Table) -> int:
    return max((len(line.trend) for line in table.lines), default=0)


def _bar(line: Line, table: Table, width: int, top: float) -> Text:
    """As long as the line's cost beside `top`, which fills the width; its idle part hatched. Sums have none."""
    whole = _amount(line, table, "whole")
    if line.is_sum or whole <= 0:
        return Text()
    length = round(width * whole / top)
    part = min(length, round(width * _amount(line, table, "part") / top))
    bar = Text(_FULL * (length - part) or ("" if part else "▏"), style="cyan")
    return bar.append("░" * part, style="yellow")


def _amount(line: Line, table: Table, role: str) -> float:
    for value, column in zip(line.cells, table.columns, strict=True):
        if column.bar == role and isinstance(value, Decimal):
            return float(value)
    return 0.0


_INDENT = 2
_ALIKE_SHOWN = 3
_STATUS_STYLES = {"met": "green", "missed": "red", "unknown": "yellow"}
# Where nothing limits a line: that of a table, and of sentences.
_UNLIMITED = 10_000
_PROSE = 100


def render(page: Page, width: int | None, *, color: bool, charts: bool = False) -> str:
    """The page in lines of at most `width` characters; None is as many as tables take.

    Columns of lesser weight stand there only where there is room, the others are named. With `charts` bars of cost and shares,
    and where the page has series sparklines of cost, where there is room for them.
    """
    page = visible_parts(page, unbroken)
    target = io.StringIO()
    console = Console(
        file=target,
        width=width or _UNLIMITED,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    _Terminal(console, page, width or _PROSE, charts).print()
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"


@record
class _Terminal:
    """`prose` is the width of sentences."""

    console: Console
    page: Page
    prose: int
    charts: bool

    def print(self) -> None:
        """Writes the page: its title, then every section in as many columns as there is room for."""
        self.console.print(Text(self.page.title, style="bold"), width=self.prose)
        if self.page.subtitle:
            self.console.print(Text(self.page.subtitle, style="dim"), width=self.prose)
        for section in self.page.sections:
            self.console.print()
            if section.title and not (isinstance(section, Table) and not section.has_header):
                self.console.print(Text(section.title, style="bold"))
            if isinstance(section, Figures):
                self._figures(section)
            elif isinstance(section, Texts):
                for text in section.texts:
                    self._indented(text, width=self.prose)
                self._remark(section.note)
            elif isinstance(section, Items):
                self._items(section)
            elif section.has_header:
                self._table(
                    with_trends(section, self.page.series) if self.charts and self.page.series else section
                )
            else:
                self._sum(section)
        if self.page.coverage:
            self.console.print()
            self._coverage(self.page.coverage)

    def _indented(self, content: RenderableType, width: int | None = None) -> None:
        self.console.print(Padding.indent(content, _INDENT), width=width)

    def _remark(self, text: str | None) -> None:
        if text:
            self._indented(Text(text, style="dim"), self.prose)

    def _table(self, table: Table) -> None:
        if not table.lines:
            self._remark(table.note or "none")
            return
        columns = table.columns
        series = self.page.series
        currency = self.page.currency
        flags = [line.flag or "" for line in table.lines]
        texts = [
            [with_arrow(*one, currency) for one in zip(line.cells, columns, strict=True)]
            for line in table.lines
        ]
        fit = TableFit(columns, texts)
        room = self.console.width - _INDENT - (max(map(cell_len, flags)) + GAP if any(flags) else 0)
        shown, charts = _layout(fit, room, choices(table) if self.charts else [])
        room -= charts.width
        widths = fit.widths(shown, room)
        charts = charts.grown(table, room - sum_of(widths, shown))
        grid = _grid(show_header=True)
        for index in shown:
            title = Text("\n".join(folded(columns[index].title, widths[index])), style="dim")
            grid.add_column(title, justify=_side(columns[index]), width=widths[index], overflow="fold")
        for heading in charts.titles(table, series.step if series else ""):
            grid.add_column(Text(heading, style="dim"), no_wrap=True)
        if any(flags):
            grid.add_column(no_wrap=True)
        for line, row, flag, drawn in zip(table.lines, texts, flags, charts.cells(table), strict=True):
            style = "bold" if line.is_sum else ""
            cells = [
                Text(
                    "\n".join(folded(row[index], widths[index])),
                    f"{style} {_change_style(line.cells[index], columns[index])}".strip(),
                )
                for index in shown
            ]
            grid.add_row(*cells, *drawn, *([Text(flag, style="yellow")] if any(flags) else []))
        self._indented(grid)
        self._remark(table.note)
        left_out = [
            column.title for index, column in enumerate(columns) if index not in shown and column.title
        ]
        if left_out:
            whole = f"--format {self.page.whole_in} has all."
            self._remark(f"Left out for lack of room: {', '.join(left_out)}; {whole}")

    def _sum(self, table: Table) -> None:
        """A table that reads as arithmetic: label, hours × price = cost; the sums at the right edge."""
        grid = _grid()
        for column in table.columns:
            if column.sign:
                grid.add_column(no_wrap=True)
            grid.add_column(justify=_side(column), no_wrap=column.unit != "text", overflow="fold")
        if table.sum:
            blanks = [""] * (len(grid.columns) - 2)
            whole = Text(sum_text(*table.sum, self.page.currency), style="bold")
            grid.add_row(Text(table.title, style="bold"), *blanks, whole)
        for line in table.lines:
            style = "bold" if line.is_sum else ""
            cells: list[RenderableType] = []
            for column, value in zip(table.columns, line.cells, strict=True):
                if column.sign:
                    cells.append(Text("" if line.is_sum else column.sign, style="dim"))
                unit = " h" if column.unit == "hours" and value != "" else ""
                cells.append(Text(cell(value, column, self.page.currency) + unit, style=style))
            grid.add_row(Padding.indent(cells[0], _INDENT), *cells[1:])
        self.console.print(grid)
        self._remark(table.note)

    def _figures(self, section: Figures) -> None:
        figures = [GridColumn(justify="right", no_wrap=True) for _ in range(2)]
        grid = _grid(GridColumn(), *figures, *[GridColumn(no_wrap=True)] * self.charts, GridColumn())
        for figure in section.figures:
            remark = Text(remark_of(figure))
            if figure.status:
                remark.append(": ").append(figure.status, style=_STATUS_STYLES[figure.status])
            drawn = [_meter(figure)] if self.charts else []
            grid.add_row(figure.label, value_of(figure, self.page.currency), share_of(figure), *drawn, remark)
        self._indented(grid)

    def _items(self, section: Items) -> None:
        """A ranked list; a command is never broken: it is there to be copied."""
        width = max(cell_len(item_value(item, self.page.currency)) for item in section.items)
        for at, item in enumerate(section.items):
            if at:
                self.console.print()
            head = _grid(
                GridColumn(justify="right", width=3),
                GridColumn(justify="right", width=width),
                GridColumn(overflow="fold"),
            )
            head.add_row(f"{item.rank}", item_value(item, self.page.currency), Text(item.title, style="bold"))
            self.console.print(head, width=self.prose)
            self.console.print(Padding.indent(item.text, 5), width=self.prose)
            if item.command:
                self.console.print(Text(f"     {item.command}", style="cyan"), soft_wrap=True)

    def _coverage(self, coverage: Coverage) -> None:
        self.console.print(Text("Coverage", style="bold"))
        grid = _grid(GridColumn(no_wrap=True), GridColumn(overflow="fold"))
        for label, sentences in coverage_lines(coverage, self.page.currency):
            for sentence in sentences:
                grid.add_row(label, sentence)
                label = ""
        self._indented(grid, self.prose)
        for _, alike in groupby(coverage.warnings, key=lambda notice: notice.code):
            self._notices(list(alike))

    def _notices(self, alike: list[Notice]) -> None:
        """The first few of a kind: hundreds of nodes without a price are one problem. A fix they share is said once."""
        shown = alike[:_ALIKE_SHOWN]
        for index, notice in enumerate(shown):
            grid = _grid(GridColumn(style="yellow"), GridColumn(overflow="fold"), gap=1)
            grid.add_row("!", notice.message)
            if notice.fix and (notice is shown[-1] or shown[index + 1].fix != notice.fix):
                grid.add_row("", Text(f"fix: {notice.fix}", style="cyan"))
            self._indented(grid, self.prose)
        if len(alike) > len(shown):
            self._remark(f"  and {len(alike) - len(shown):,} more of this kind: --format json lists them")


def _change_style(value: Value, column: Column) -> str:
    """What costs more is red, what costs less green."""
    if column.unit != "change" or not isinstance(value, float) or not value:
        return ""
    return "red" if value > 0 else "green"


def _meter(figure: Figure) -> Text:
    """A share that has a target in the color of its status, any other is of waste."""
    share = figure.share if figure.share_of else figure.value if figure.unit == "ratio" else None
    if not isinstance(share, float):
        return Text()
    return Text(meter(share), style=_STATUS_STYLES[figure.status] if figure.status else "yellow")


def _grid(*columns: GridColumn, show_header: bool = False, gap: int = GAP) -> Grid:
    return Grid(
        *columns, box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=show_header, header_style=""
    )


def _layout(fit: TableFit, room: int, choices: list[Charts]) -> tuple[list[int], Charts]:
    """The columns to show, and the first of `choices` for which no name is broken and no column left out: figures come first."""
    shown = fit.shown(room)
    for charts in choices:
        if charts.width and sum_of(fit.natural, shown) <= room - charts.width:
            return shown, charts
    return shown, Charts()


def _side(column: Column) -> Literal["left", "right"]:
    return "left" if column.unit == "text" else "right"
