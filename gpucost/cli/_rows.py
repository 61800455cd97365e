"""Rows of an answer as an aligned table, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpucost.cli._common import put, write_text


class RowFormat(StrEnum):
    """How rows are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"


def write_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat, output: Path | None) -> None:
    """Write rows to `output`, or to stdout where it is None. Raises GpucostError where the file cannot be written."""
    text = render_rows(columns, rows, format)
    if output is None:
        put(text, nl=False)
        return
    write_text(text, output)


def render_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat) -> str:
    """The rows as text."""
    renderers = {RowFormat.table: _table, RowFormat.markdown: _markdown, RowFormat.csv: _csv, RowFormat.json: _json}
    return renderers[format](columns, rows)


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
