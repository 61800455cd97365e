"""Reports for a terminal: plain text in columns, with color only where it is asked for."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gpucost.render.formatting import cell, coverage_lines, remark_of, share_of, sum_text, value_of, with_arrow
from gpucost.render.view import Column, Figure, Figures, Line, Notice, ReportView, Series, Table, Value

_BAR = "Cost ░ idle"
_TREND = "Trend"
_METER = 10
_LONGEST_BAR = 20
_SHORTEST_SPARK = 7
# no full block: it would run into that of the line above
_HEIGHTS = "▁▂▃▄▅▆▇"
_FULL = _HEIGHTS[-1]


@dataclass(frozen=True, slots=True)
class Charts:
    """Characters for a bar and a sparkline in every line of a table; 0 where there is none."""

    bar: int = 0
    spark: int = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the columns that there are, their titles included."""
        return tuple(max(width, least) for width, least in ((self.bar, 0), (self.spark, len(_TREND))) if width)

    def grown(self, table: Table, room: int) -> Charts:
        """As wide as `room` more characters let them be: first a character for each moment, then a longer bar."""
        spark = min(self.spark + room, _moments(table)) if self.spark else 0
        left = room - (spark - self.spark)
        return Charts(min(self.bar + left, _LONGEST_BAR) if self.bar else 0, spark)

    def titles(self, table: Table, step: str) -> list[str]:
        """What stands above each of them; `step` is that of the moments."""
        has_part = any(column.bar == "part" for column in table.columns)
        titles = [(_BAR if has_part else "")] if self.bar else []
        # where several moments share a character it is not one a day any more
        each = f"By {step}" if self.spark >= _moments(table) else _TREND
        return [*titles, *([each if len(each) <= self.spark else _TREND] if self.spark else [])]

    def cells(self, table: Table) -> list[list[Text]]:
        """What is drawn beside each line."""
        top = max((_amount(line, table, "whole") for line in table.lines if not line.is_sum), default=0.0)
        drawn: list[list[Text]] = []
        for line in table.lines:
            bar = [_bar(line, table, self.bar, top)] if self.bar else []
            drawn.append([*bar, *([Text(sparkline(line.trend, self.spark), style="cyan")] if self.spark else [])])
        return drawn


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
    names = {(layer.name, False): layer.values for layer in stack.layers if layer.kind == "named"}
    names |= {(layer.name, True): layer.values for layer in stack.layers if layer.kind in ("unallocated", "not_collected")}
    found = (names.get((str(line.cells[0]), line.is_sum), ()) for line in table.lines)
    return replace(table, lines=tuple(replace(line, trend=trend) for line, trend in zip(table.lines, found, strict=True)))


def sparkline(values: Sequence[Decimal], width: int) -> str:
    """At most `width` characters in a row, the highest value fills its height; blank is 0. Moments share one evenly."""
    count = min(width, len(values))
    edges = [at * len(values) // count for at in range(count + 1)] if count else []
    means = [float(sum(values[start:end])) / (end - start) for start, end in pairwise(edges)]
    top = max(means, default=0.0)
    return "".join(_HEIGHTS[min(int(mean / top * len(_HEIGHTS)), len(_HEIGHTS) - 1)] if mean > 0 else " " for mean in means)


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
    found = (value for value, column in zip(line.cells, table.columns, strict=True) if column.bar == role)
    return float(value) if isinstance(value := next(found, None), Decimal) else 0.0


_INDENT = 2
_GAP = 2
_NARROWEST_NAME = 8
_SHORT_NAME = 20
_ALIKE_SHOWN = 3
_HEAVY = 3
_STATUS_STYLES = {"met": "green", "missed": "red", "unknown": "yellow"}


def render(view: ReportView, width: int, *, color: bool, charts: bool = False) -> str:
    """The report in lines of at most `width` characters; columns of lesser weight only where there is room, the others named.

    With `charts` bars of cost and shares, and where the view has series sparklines of cost, where there is room for them.
    """
    target = io.StringIO()
    console = Console(
        file=target,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    console.print(Text(view.title, style="bold"))
    console.print(Text(view.subtitle, style="dim"))
    for section in view.sections:
        console.print()
        if isinstance(section, Figures):
            _print_figures(console, section, view.currency, charts=charts)
        elif section.has_header:
            table = with_trends(section, view.series) if charts and view.series else section
            _print_table(console, table, view.currency, choices(table) if charts else [Charts()], view.series)
        else:
            _print_sum(console, section, view.currency)
    console.print()
    _print_coverage(console, view)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"


def _print_table(console: Console, table: Table, currency: str, choices: list[Charts], series: Series | None) -> None:
    """With the first of `choices` that there is room for; the last one takes none."""
    console.print(Text(table.title, style="bold"))
    if not table.lines:
        console.print(_indented(Text("none", style="dim")))
        return
    flags = [line.flag or "" for line in table.lines]
    texts = [
        [with_arrow(value, column, currency) for value, column in zip(line.cells, table.columns, strict=True)]
        for line in table.lines
    ]
    widths = [
        max(cell_len(text) for text in (column.title, *cells)) for column, *cells in zip(table.columns, *texts, strict=True)
    ]
    room = console.width - _INDENT - (max(map(cell_len, flags)) + _GAP if any(flags) else 0)
    shown, charts = _layout(table.columns, widths, room, choices)
    room -= sum(width + _GAP for width in charts.widths)
    names = [index for index in shown if table.columns[index].unit == "text"]
    whole_words = {index: max(_longest_piece(row[index]) for row in texts) for index in names}
    _narrow(widths, whole_words, _sum_of(widths, shown) - room)
    _narrow(widths, dict.fromkeys(names, _NARROWEST_NAME), _sum_of(widths, shown) - room)
    charts = charts.grown(table, room - _sum_of(widths, shown))
    grid = _grid(show_header=True)
    for index in shown:
        column = table.columns[index]
        title = Text(_folded(column.title, widths[index]), style="dim")
        grid.add_column(title, justify=_side(column), width=widths[index], overflow="fold")
    for heading in charts.titles(table, series.step if series else ""):
        grid.add_column(Text(heading, style="dim"), no_wrap=True)
    if any(flags):
        grid.add_column(no_wrap=True)
    for line, row, flag, drawn in zip(table.lines, texts, flags, charts.cells(table), strict=True):
        style = "bold" if line.is_sum else ""
        marked = [Text(flag, style="yellow")] if any(flags) else []
        styles = {index: f"{style} {_change_style(line.cells[index], table.columns[index])}".strip() for index in shown}
        grid.add_row(*(Text(_folded(row[index], widths[index]), style=styles[index]) for index in shown), *drawn, *marked)
    console.print(_indented(grid))
    left_out = ", ".join(column.title for index, column in enumerate(table.columns) if index not in shown and column.title)
    below = f"Left out for lack of room: {left_out}; --format markdown has all." if left_out else None
    for remark in filter(None, (table.note, below)):
        console.print(_indented(Text(remark, style="dim")))


def _change_style(value: Value, column: Column) -> str:
    """What costs more is red, what costs less green."""
    if column.unit != "change" or not isinstance(value, float) or not value:
        return ""
    return "red" if value > 0 else "green"


def _print_sum(console: Console, table: Table, currency: str) -> None:
    """A table that reads as arithmetic: label, hours × price = cost; the sums at the right edge."""
    grid = _grid()
    for column in table.columns:
        if column.sign:
            grid.add_column(no_wrap=True)
        grid.add_column(justify=_side(column), no_wrap=column.unit != "text", overflow="fold")
    if table.sum:
        blanks = [""] * (len(grid.columns) - 2)
        grid.add_row(Text(table.title, style="bold"), *blanks, Text(sum_text(*table.sum, currency), style="bold"))
    for line in table.lines:
        style = "bold" if line.is_sum else ""
        cells: list[Text | Padding] = []
        for column, value in zip(table.columns, line.cells, strict=True):
            if column.sign:
                cells.append(Text("" if line.is_sum else column.sign, style="dim"))
            unit = " h" if column.unit == "hours" and value != "" else ""
            cells.append(Text(cell(value, column, currency) + unit, style=style))
        cells[0] = _indented(cells[0])
        grid.add_row(*cells)
    console.print(grid)
    if table.note:
        console.print(_indented(Text(table.note, style="dim")))


def _print_figures(console: Console, section: Figures, currency: str, *, charts: bool) -> None:
    console.print(Text(section.title, style="bold"))
    grid = _grid()
    grid.add_column()
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    if charts:
        grid.add_column(no_wrap=True)
    grid.add_column()
    for figure in section.figures:
        remark = Text(remark_of(figure))
        if figure.status:
            remark.append(": ").append(figure.status, style=_STATUS_STYLES[figure.status])
        drawn = [_meter(figure)] if charts else []
        grid.add_row(figure.label, value_of(figure, currency), share_of(figure), *drawn, remark)
    console.print(_indented(grid))


def _meter(figure: Figure) -> Text:
    """A share that has a target in the color of its status, any other is of waste."""
    share = figure.share if figure.share_of else figure.value
    if not isinstance(share, float) or (figure.unit != "ratio" and not figure.share_of):
        return Text()
    return Text(meter(share), style=_STATUS_STYLES[figure.status] if figure.status else "yellow")


def _print_coverage(console: Console, view: ReportView) -> None:
    console.print(Text("Coverage", style="bold"))
    grid = _grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, sentences in coverage_lines(view.coverage, view.currency):
        for index, sentence in enumerate(sentences):
            grid.add_row("" if index else label, sentence)
    console.print(_indented(grid))
    for _, alike in groupby(view.coverage.warnings, key=lambda notice: notice.code):
        _print_notices(console, list(alike))


def _print_notices(console: Console, alike: list[Notice]) -> None:
    """The first few of a kind: hundreds of nodes without a price are one problem. A fix they share is said once."""
    shown = alike[:_ALIKE_SHOWN]
    for index, notice in enumerate(shown):
        grid = _grid(gap=1)
        grid.add_column(style="yellow")
        grid.add_column(overflow="fold")
        grid.add_row("!", notice.message)
        is_last_with_fix = index + 1 == len(shown) or shown[index + 1].fix != notice.fix
        if notice.fix and is_last_with_fix:
            grid.add_row("", Text(f"fix: {notice.fix}", style="cyan"))
        console.print(_indented(grid))
    if len(alike) > len(shown):
        more = f"and {len(alike) - len(shown):,} more of this kind: --format json lists them"
        console.print(_indented(Text(f"  {more}", style="dim")))


def _grid(*, show_header: bool = False, gap: int = _GAP) -> Grid:
    return Grid(box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=show_header, header_style="")


def _indented(content: Grid | Text | Padding) -> Padding:
    return Padding(content, (0, 0, 0, _INDENT))


def _sum_of(widths: list[int], shown: list[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _layout(columns: tuple[Column, ...], widths: list[int], room: int, choices: list[Charts]) -> tuple[list[int], Charts]:
    """The columns to show, and the first of `choices` for which no name is broken, and no column left out but heavy ones."""
    usual = _fitting(columns, widths, room)
    needed = {index for index in usual if columns[index].weight < _HEAVY}
    for charts in choices:
        left = room - sum(width + _GAP for width in charts.widths)
        shown = _fitting(columns, widths, left)
        if charts.widths and needed <= set(shown) and _sum_of(widths, shown) <= left:
            return shown, charts
    return usual, Charts()


def _fitting(columns: tuple[Column, ...], widths: list[int], room: int) -> list[int]:
    """Which columns to show: the lighter ones first. Long names rather break than that a column of weight 1 is left out.

    Columns of a group come all together or not at all: some parts of a sum would not add up for who reads them.
    """
    shown = [index for index, column in enumerate(columns) if not column.weight]
    least = [min(width, _SHORT_NAME) if column.unit == "text" else width for width, column in zip(widths, columns, strict=True)]
    for index in sorted(range(len(columns)), key=lambda index: columns[index].weight):
        column = columns[index]
        if not column.weight or index in shown:
            continue
        together = [other for other, one in enumerate(columns) if column.group and one.group == column.group] or [index]
        if _sum_of(least if column.weight == 1 else widths, [*shown, *together]) <= room:
            shown += together
    return sorted(shown)


def _narrow(widths: list[int], least: dict[int, int], excess: int) -> None:
    """Take `excess` characters from the widest of the columns in `least`, evenly, as far as each keeps its least width."""
    for _ in range(max(0, excess)):
        wide = [index for index, width in least.items() if widths[index] > max(width, _NARROWEST_NAME)]
        if not wide:
            return
        widths[max(wide, key=lambda index: widths[index])] -= 1


def _longest_piece(text: str) -> int:
    return max(map(cell_len, _pieces(text)), default=0)


def _pieces(text: str) -> list[str]:
    return re.findall(r"[^-/._ ]*[-/._ ]|[^-/._ ]+$", text)


def _folded(text: str, width: int) -> str:
    """Names are broken behind a hyphen, slash, dot or underscore where that is possible; nothing is cut off."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and cell_len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _side(column: Column) -> Literal["left", "right"]:
    return "left" if column.unit == "text" else "right"
