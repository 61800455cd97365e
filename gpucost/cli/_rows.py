"""Rows of an answer as an aligned table, Markdown, CSV, JSON or Parquet."""

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
from typing import Annotated, Any

import typer

from gpucost.cli._common import made, put_or_write
from gpucost.errors import UsageError


class RowFormat(StrEnum):
    """How rows are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    parquet = "parquet"


_SUFFIXES = {".md": RowFormat.markdown, ".csv": RowFormat.csv, ".json": RowFormat.json, ".parquet": RowFormat.parquet}


def _by_suffix(context: typer.Context, chosen: RowFormat) -> RowFormat:
    """The format named, else the one that the suffix of -o means: click has read that, given options come first."""
    source = context.get_parameter_source("format")
    if source is None or source.name != "DEFAULT":
        return chosen
    return _SUFFIXES.get(Path(context.params.get("output") or "").suffix.lower(), chosen)


FormatOption = Annotated[
    RowFormat,
    typer.Option(
        "--format",
        help="How to write it. Default: by the suffix of -o (.md, .csv, .json, .parquet), else table.",
        callback=_by_suffix,
        show_default=False,
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of stdout.", show_default=False)
]

# Rows of one table and nothing beside them.
FLAT = (RowFormat.csv, RowFormat.parquet)


def write_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat, output: Path | None) -> None:
    """Write rows to `output`, or to stdout where it is None.

    Raises GpucostError where the file cannot be written, UsageError for Parquet without a file.
    """
    if format is RowFormat.parquet:
        _save_parquet(columns, rows, output)
        return
    text = render_rows(columns, rows, format)
    put_or_write(text, output)


def render_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat) -> str:
    """The rows as text: in any format but Parquet."""
    renderers = {RowFormat.table: _table, RowFormat.markdown: _markdown, RowFormat.csv: _csv, RowFormat.json: _json}
    return renderers[format](columns, rows)


def _save_parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]], output: Path | None) -> None:
    from gpucost.store.table_files import save_rows

    types = {name: _column_type([row[i] for row in rows]) for i, name in enumerate(columns)}
    if len(types) < len(columns):
        raise UsageError("Parquet has one column of a name, and here two have the same", "give them names of their own, with AS")
    told = list(types.values())
    texts = [
        [as_text(value) if told[i] == "VARCHAR" and value is not None else value for i, value in enumerate(row)] for row in rows
    ]
    with made(file_needed(output)) as part:
        save_rows(types, texts, "parquet", part)


def file_needed(output: Path | None) -> Path:
    """The file that Parquet goes to. Raises UsageError where there is none."""
    if output is None:
        raise UsageError("parquet is no text: it needs a file", "-o report.parquet")
    return output


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
