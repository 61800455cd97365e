"""Rows of an answer as an aligned table, Markdown, CSV, JSON or Parquet, and tables that fit a line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost.errors import UsageError
from gpucost.texts import in_markdown, readable_json, unbroken

if TYPE_CHECKING:
    from gpucost.render.view import Column, Unit


class RowFormat(StrEnum):
    """Output formats of rows."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    parquet = "parquet"


Rows = Sequence[Sequence[Any]]

# Formats that contain only the rows of one table.
FLAT = (RowFormat.csv, RowFormat.parquet)


def render_rows(columns: Sequence[str], rows: Rows, format: RowFormat, width: int | None = None) -> str:
    """The rows as text: in any format but Parquet. A table fits `width`; the others have every column."""
    if format is RowFormat.json:
        named = [dict(zip(columns, map(plain_value, row), strict=True)) for row in rows]
        return readable_json(named, indent=2) + "\n"
    names = list(map(as_text, columns))
    if format is RowFormat.table:
        return _table(names, rows, width)
    return _markdown(names, rows) if format is RowFormat.markdown else _csv(names, rows)


def save_parquet(columns: Sequence[str], rows: Rows, file: Path) -> None:
    """The rows as a Parquet file, with the types of their values. Raises UsageError for duplicate column names."""
    from gpucost.store.table_files import save_rows

    types = {name: _column_type([row[i] for row in rows]) for i, name in enumerate(columns)}
    if len(types) < len(columns):
        raise UsageError(
            "two columns have the same name, which Parquet does not allow", "rename one of them with AS"
        )
    texts = [
        [
            as_text(value) if kind == "VARCHAR" and value is not None else value
            for kind, value in zip(types.values(), row, strict=True)
        ]
        for row in rows
    ]
    save_rows(types, texts, file)


def _column_type(values: Sequence[Any]) -> str:
    """The DuckDB type for all of `values`; text if no other type fits."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in there):
        return "BIGINT"
    if kinds and kinds <= {int, Decimal}:
        # money has nine decimals, prices may have more
        exponents = [value.as_tuple().exponent for value in there if isinstance(value, Decimal)]
        scale = max(9, *(-exponent for exponent in exponents if isinstance(exponent, int)), 0)
        return f"DECIMAL(38,{min(scale, 18)})"
    if kinds and kinds <= {int, float, Decimal}:
        return "DOUBLE"
    if kinds == {datetime}:
        return "TIMESTAMPTZ" if all(value.tzinfo for value in there) else "TIMESTAMP"
    return "DATE" if kinds == {date} else "VARCHAR"


def _table(columns: Sequence[str], rows: Rows, width: int | None) -> str:
    if not columns:
        return ""
    cells = [[as_text(value) for value in row] for row in rows]
    numbers = _are_numbers(columns, rows)
    visible = list(range(len(columns)))
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    if width is not None and sum_of(widths, visible) > width:
        from gpucost.render.view import Column

        units: list[Unit] = ["hours" if number else "text" for number in numbers]
        heads = [Column(name, units[index], weight=min(index, 1)) for index, name in enumerate(columns)]
        fit = TableFit(heads, cells)
        visible = fit.visible_columns(width)
        widths = fit.widths(visible, width)
    lines = []
    for row in (columns, ["-" * width for width in widths], *cells):
        parts = {index: folded(row[index], widths[index]) for index in visible}
        for at in range(max(map(len, parts.values()))):
            line = [
                f"{part[at] if at < len(part) else '':{'>' if numbers[index] else '<'}{widths[index]}}"
                for index, part in parts.items()
            ]
            lines.append("  ".join(line).rstrip())
    if left_out := [name for index, name in enumerate(columns) if index not in visible]:
        lines += ["", f"{len(left_out)} columns left out to fit the width; other formats have all"]
    return "".join(f"{line}\n" for line in lines)


def _markdown(columns: Sequence[str], rows: Rows) -> str:
    rules = ["--:" if right else ":--" for right in _are_numbers(columns, rows)]
    cells = [[in_markdown(as_text(value)) for value in row] for row in (columns, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in [cells[0], rules, *cells[1:]])


def _csv(columns: Sequence[str], rows: Rows) -> str:
    from gpucost.store.table_files import csv_text, harmless

    cells = (
        [harmless(as_text(value)) if isinstance(value, str) else as_text(value) for value in row]
        for row in rows
    )
    return csv_text([map(harmless, columns), *cells])


def as_text(value: Any) -> str:
    """`value` in tables and CSV, on one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return unbroken(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    plain = plain_value(value)
    if isinstance(plain, str):
        return as_text(plain)
    return f"{value:f}" if isinstance(value, Decimal) else readable_json(plain)


def plain_value(value: Any) -> Any:
    """`value` in JSON: decimals become numbers, instants ISO 8601, bytes hexadecimal.

    NaN becomes null. Infinity becomes a string, as JSON numbers cannot express it.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return None if math.isnan(value) else value
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _are_numbers(columns: Sequence[str], rows: Rows) -> list[bool]:
    """The columns with any number."""
    return [
        any(isinstance(row[at], int | float | Decimal) and not isinstance(row[at], bool) for row in rows)
        for at in range(len(columns))
    ]


GAP = 2
_NARROWEST_TEXT = 10
_SHORT_WORD = 16
# of a text with words that are broken anywhere
_NARROWEST = 6
_PIECE = r"[^-/._\s]*[-/._]|[^-/._\s]+"


class TableFit:
    """A table's columns, and how they share a line.

    Columns of weight 0 stay if any width of texts allows it; otherwise figures are left out, then texts, money last; the
    first column stays. The others are added if they fit, lighter ones first, and columns of one group
    together. Texts are broken between words to fit columns of weight 1, but not to fit heavier ones. Figures are never
    broken, titles of their columns between words.
    """

    def __init__(self, columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> None:
        from rich.cells import cell_len

        def longest(index: int, pattern: str) -> int:
            return max(
                (cell_len(piece) for row in texts for piece in re.findall(pattern, row[index])), default=0
            )

        titles = [column.title for column in columns]
        self.columns = columns
        self.names = [index for index, column in enumerate(columns) if column.unit == "text"]
        self.natural = [
            max(map(cell_len, (title, *(row[index] for row in texts)))) for index, title in enumerate(titles)
        ]
        self._floors = [
            {
                index: max(longest(index, pattern), cell_len(titles[index]), _NARROWEST_TEXT)
                for index in self.names
            }
            for pattern in (r"\S+", _PIECE)
        ]
        self._floors.append(
            {
                index: min(_NARROWEST, self.natural[index])
                if index in self.names
                else max(longest(index, ".+"), *map(cell_len, title.split(" ")))
                for index, title in enumerate(titles)
            }
        )
        # The floors limit how far texts of a line are narrowed, whole words first. `_short` is the least width that a
        # column of weight 1 is kept for: one long word may be broken (a name of 40 characters), and the line's other
        # texts are not narrowed.
        self._short = list(self.natural)
        for index in self.names:
            word = longest(index, r"\S+")
            title = cell_len(titles[index])
            self._short[index] = max(title, min(_SHORT_WORD, word), min(_NARROWEST_TEXT, self.natural[index]))

    def visible_columns(self, room: int) -> list[int]:
        """The columns that fit."""
        found = [index for index, column in enumerate(self.columns) if not column.weight]
        for index, column in sorted(enumerate(self.columns), key=lambda pair: pair[1].weight):
            alike = [other for other, each in enumerate(self.columns) if each.group == column.group]
            together = alike if column.group else [index]
            if (
                index not in found
                and sum_of(self._short if column.weight == 1 else self.natural, [*found, *together]) <= room
            ):
                found += together
        least = [self._floors[-1][index] for index in range(len(self.columns))]
        first, *others = sorted(found)
        for index in sorted(others, key=self._importance):
            if sum_of(least, [first, *others]) > room:
                others.remove(index)
        return [first, *others]

    def _importance(self, index: int) -> tuple[bool, bool, int]:
        """A key by which columns are left out: figures, texts, then money, the last column of each first."""
        return self.columns[index].unit == "money", index in self.names, -index

    def widths(self, visible: Sequence[int], room: int) -> list[int]:
        """The width of each column: texts are narrowed evenly, first between words, then after - / . or _ in them.

        If that does not suffice, titles of figures are broken between words, and texts anywhere.
        """
        widths = list(self.natural)
        for floors in self._floors:
            for _ in range(sum_of(widths, visible) - room):
                wide = [index for index in floors if index in visible and widths[index] > floors[index]]
                if wide:
                    widths[max(wide, key=lambda index: widths[index])] -= 1
        return widths


def sum_of(widths: Sequence[int], visible: Sequence[int]) -> int:
    """The length of a line with these columns."""
    return sum(widths[index] + GAP for index in visible) - GAP


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width`, broken between words, in longer words after - / . or _, and otherwise anywhere."""
    if text.isascii() and len(text) <= width:
        return [text]
    from rich.cells import cell_len

    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for piece in [word] if cell_len(word) <= width else re.findall(_PIECE, word):
            if lines[-1] and cell_len(lines[-1] + piece) > width:
                lines.append("")
            while cell_len(piece) > width:
                lines[-1:] = [piece[:width], ""]
                piece = piece[width:]
            lines[-1] += piece
    return lines
