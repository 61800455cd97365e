"""Rows of an answer as an aligned table, Markdown, CSV, JSON or Parquet, and tables that fit a line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Container, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gpucost.errors import UsageError


class RowFormat(StrEnum):
    """How rows are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    parquet = "parquet"


# Rows of one table and nothing beside them.
FLAT = (RowFormat.csv, RowFormat.parquet)


def render_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat) -> str:
    """The rows as text: in any format but Parquet."""
    renderers = {RowFormat.table: _table, RowFormat.markdown: _markdown, RowFormat.csv: _csv, RowFormat.json: _json}
    return renderers[format](columns, rows)


def save_parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]], file: Path) -> None:
    """The rows as a Parquet file, of the types that their values have. Raises UsageError for two columns of one name."""
    from gpucost.store.table_files import save_rows

    types = {name: _column_type([row[i] for row in rows]) for i, name in enumerate(columns)}
    if len(types) < len(columns):
        raise UsageError("Parquet has one column of a name, and here two have the same", "give them names of their own, with AS")
    kinds = list(types.values())
    texts = [
        [as_text(value) if kinds[i] == "VARCHAR" and value is not None else value for i, value in enumerate(row)] for row in rows
    ]
    save_rows(types, texts, "parquet", file)


def _column_type(values: Sequence[Any]) -> str:
    """The DuckDB type that holds all of `values`; text where none does."""
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


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [[as_text(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(columns))]

    def line(texts: Sequence[str]) -> str:
        fields = zip(texts, widths, numeric, strict=True)
        padded = (text.rjust(width) if right else text.ljust(width) for text, width, right in fields)
        return "  ".join(padded).rstrip() + "\n"

    return line(columns) + line(["-" * width for width in widths]) + "".join(map(line, cells))


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    rules = ["--:" if any(_is_number(row[i]) for row in rows) else ":--" for i in range(len(columns))]
    cells = [[as_text(value).replace("|", "\\|") for value in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in [list(columns), rules, *cells])


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    from gpucost.store.table_files import harmless

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows([harmless(as_text(value)) if isinstance(value, str) else as_text(value) for value in row] for row in rows)
    return text.getvalue()


def _json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return (
        json.dumps([dict(zip(columns, map(plain_value, row), strict=True)) for row in rows], indent=2, ensure_ascii=False) + "\n"
    )


def as_text(value: Any) -> str:
    """`value` as tables and CSV show it, in one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\r", "").replace("\n", "\\n")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(plain, ensure_ascii=False)


def plain_value(value: Any) -> Any:
    """`value` as JSON knows it: decimals become numbers, instants ISO 8601, bytes hexadecimal.

    What is no number becomes null, and infinity, which JSON cannot spell as a number either, the word.
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


_GAP = 2
_NARROWEST_TEXT = 10
_SHORT_WORD = 16


def natural_width(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Characters in a line of the table with nothing left out or broken."""
    return _sum_of(_natural(columns, _texts(rows)), range(len(columns)))


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    weights: Sequence[int],
    width: int | None,
    *,
    figures: Sequence[int] = (),
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table of at most `width` characters, as far as that can be; None is as many as it takes.

    Columns of weight 0 always stay. Of the others the lighter ones come first: for those of weight 1 texts are broken between
    words, for heavier ones nothing is. `figures` are the columns of figures, which are never broken, where their values are texts
    already. A row whose texts are broken is followed by rows with the rest of them.
    """
    if width is None or natural_width(columns, rows) <= width:
        return list(columns), [list(row) for row in rows]
    texts = _texts(rows)
    widths = _natural(columns, texts)
    is_text = [index not in figures and not any(_is_figure(row[index]) for row in rows) for index in range(len(columns))]
    words = [_longest(texts, index, r"\S+") if of_text else 0 for index, of_text in enumerate(is_text)]
    short = [
        max(len(name), min(_SHORT_WORD, word), min(_NARROWEST_TEXT, natural)) if of_text else natural
        for name, word, of_text, natural in zip(columns, words, is_text, widths, strict=True)
    ]
    shown = [index for index, weight in enumerate(weights) if not weight]
    for index in sorted(range(len(columns)), key=lambda index: weights[index]):
        if weights[index] and _sum_of(short if weights[index] == 1 else widths, [*shown, index]) <= width:
            shown.append(index)
    shown.sort()
    names = [index for index in shown if is_text[index]]
    for least in (words, [_longest(texts, index, _PIECE) for index in range(len(columns))]):
        floors = {index: max(least[index], len(columns[index]), _NARROWEST_TEXT) for index in names}
        _narrow(widths, floors, _sum_of(widths, shown) - width)
    lines: list[list[Any]] = []
    for row, cells in zip(rows, texts, strict=True):
        folded = [_folded(cells[index], widths[index]) if is_text[index] else [row[index]] for index in shown]
        lines += [list(line) for line in zip_longest(*folded)]
    return [columns[index] for index in shown], lines


def left_out(columns: Sequence[str], shown: Sequence[str]) -> str:
    """A sentence that names the columns that `fitted` had no room for; empty where it had."""
    names = ", ".join(name for name in columns if name not in shown)
    return f"Left out for lack of room: {names}; --format json has all." if names else ""


def figures_right(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], names: Container[str]
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows with the figures that are written as words (their thousands parted) set to the right.

    Those are the columns of `names` and money, whose names end in its currency.
    """
    columns, lines = list(columns), [list(row) for row in rows]
    for index, name in enumerate(columns):
        if name in names or name[-3:].isupper():
            most = max(len(name), *(len(line[index] or "") for line in lines), 0)
            columns[index] = name.rjust(most)
            for line in lines:
                line[index] = (line[index] or "").rjust(most)
    return columns, lines


def table_text(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    weights: Sequence[int] | None = None,
    width: int | None = None,
    right: Container[str] = (),
    figures: Sequence[int] = (),
) -> str:
    """The table as `fitted` makes it, figures of the columns `right` set to the right, and below what there was no room for."""
    shown = fitted(columns, rows, weights or [0] * len(columns), width, figures=figures)
    below = left_out(columns, shown[0])
    return render_rows(*figures_right(*shown, right), RowFormat.table) + (f"{below}\n" if below else "")


_PIECE = r"[^-/._\s]*[-/._]|[^-/._\s]+"


def _texts(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[as_text(value) for value in row] for row in rows]


def _natural(columns: Sequence[str], texts: list[list[str]]) -> list[int]:
    return [max(len(name), *(len(row[index]) for row in texts), 0) for index, name in enumerate(columns)]


def _is_figure(value: Any) -> bool:
    return value is not None and not isinstance(value, str)


def _longest(texts: list[list[str]], index: int, pattern: str) -> int:
    return max((len(piece) for row in texts for piece in re.findall(pattern, row[index])), default=0)


def _sum_of(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _narrow(widths: list[int], floors: dict[int, int], excess: int) -> None:
    """Take `excess` characters from the widest of the columns in `floors`, evenly, as far as each keeps its least width."""
    for _ in range(max(0, excess)):
        wide = [index for index, floor in floors.items() if widths[index] > floor]
        if not wide:
            return
        widths[max(wide, key=lambda index: widths[index])] -= 1


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most `width`: broken between words, and words only where they are longer than that, behind - / . or _."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for piece in [word] if len(word) <= width else re.findall(_PIECE, word):
            if lines[-1] and len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return lines
