"""Pages for a terminal: plain text in columns, with optional color."""

import io
from itertools import groupby
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column as GridColumn, Table as Grid
from rich.text import Text

from gpucost.records import frozen_dataclass
from gpucost.render.formatting import (
    cell,
    coverage_lines,
    item_value,
    remark_of,
    share_of,
    sum_text,
    value_of,
)
from gpucost.render.rows import GAP, TableFit, folded
from gpucost.render.view import Column, Coverage, Figures, Items, Notice, Page, Table, Texts
from gpucost.texts import unbroken, visible_parts

_INDENT = 2
_ALIKE_SHOWN = 3
_STATUS_STYLES = {"met": "green", "missed": "red", "unknown": "yellow"}
# Without a limit: the width of a table, and of sentences.
_UNLIMITED = 10_000
_PROSE = 100


def render(page: Page, width: int | None, *, color: bool) -> str:
    """The page in lines of at most `width` characters; None fits the tables.

    Columns of higher weight appear only if they fit; the others are listed by name.
    """
    page = visible_parts(page, unbroken)
    if page.lines:
        return "\n".join([*page.lines, ""])
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
    _Terminal(console, page, width or _PROSE).print()
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"


@frozen_dataclass
class _Terminal:
    """`prose` is the width of sentences."""

    console: Console
    page: Page
    prose: int

    def print(self) -> None:
        """Write the page: its title, then every section with as many columns as fit."""
        self.console.print(Text(self.page.title, style="bold"), width=self.prose)
        if self.page.headline:
            self.console.print(Text(self.page.headline), width=self.prose)
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
                self._table(section)
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
        currency = self.page.currency
        flags = [line.flag or "" for line in table.lines]
        texts = [
            [cell(*pair, currency) for pair in zip(line.cells, columns, strict=True)] for line in table.lines
        ]
        fit = TableFit(columns, texts)
        room = self.console.width - _INDENT - (max(map(cell_len, flags)) + GAP if any(flags) else 0)
        visible = fit.visible_columns(room)
        widths = fit.widths(visible, room)
        grid = _grid(show_header=True)
        for index in visible:
            title = Text("\n".join(folded(columns[index].title, widths[index])), style="dim")
            grid.add_column(title, justify=_side(columns[index]), width=widths[index], overflow="fold")
        if any(flags):
            grid.add_column(no_wrap=True)
        for line, row, flag in zip(table.lines, texts, flags, strict=True):
            style = "bold" if line.is_sum else ""
            cells = [Text("\n".join(folded(row[index], widths[index])), style) for index in visible]
            grid.add_row(*cells, *([Text(flag, style="yellow")] if any(flags) else []))
        self._indented(grid)
        self._remark(table.note)
        left_out = [
            column.title for index, column in enumerate(columns) if index not in visible and column.title
        ]
        if left_out:
            whole = f"--format {self.page.whole_in} has all."
            self._remark(f"Columns left out to fit the width: {', '.join(left_out)}; {whole}")

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
            cells = []
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
        grid = _grid(GridColumn(), *figures, GridColumn())
        for figure in section.figures:
            remark = Text(remark_of(figure))
            if figure.status:
                remark.append(": ").append(figure.status, style=_STATUS_STYLES[figure.status])
            grid.add_row(figure.label, value_of(figure, self.page.currency), share_of(figure), remark)
        self._indented(grid)

    def _items(self, section: Items) -> None:
        """A ranked list; commands are never broken, so that they can be copied."""
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
        """The first few of a kind: hundreds of nodes without a price are one problem. A shared fix appears once."""
        displayed = alike[:_ALIKE_SHOWN]
        for index, notice in enumerate(displayed):
            grid = _grid(GridColumn(style="yellow"), GridColumn(overflow="fold"), gap=1)
            grid.add_row("!", notice.message)
            if notice.fix and (notice is displayed[-1] or displayed[index + 1].fix != notice.fix):
                grid.add_row("", Text(f"fix: {notice.fix}", style="cyan"))
            self._indented(grid, self.prose)
        if len(alike) > len(displayed):
            self._remark(f"  and {len(alike) - len(displayed):,} more of this kind: --format json lists them")


def _grid(*columns: GridColumn, show_header: bool = False, gap: int = GAP) -> Grid:
    return Grid(
        *columns, box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=show_header, header_style=""
    )


def _side(column: Column) -> Literal["left", "right"]:
    return "left" if column.unit == "text" else "right"
