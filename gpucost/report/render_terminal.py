"""Reports for a terminal: plain text in columns, with color only where it is asked for."""

from __future__ import annotations

import io
import re
from itertools import groupby
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gpucost.report.render_terminal_charts import Charts, choices, meter, with_trends
from gpucost.report.series.view import Series
from gpucost.report.view import Column, Figure, Figures, Notice, ReportView, Table, Value
from gpucost.report.words import cell, coverage_lines, remark_of, share_of, sum_text, value_of, with_arrow

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
