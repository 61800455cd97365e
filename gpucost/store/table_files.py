"""Tables as files: Parquet, and CSV that is safe to open in a spreadsheet.

The same table always gives the same bytes.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING, Literal

from gpucost.errors import GpucostError
from gpucost.store.sqlfiles import frames
from gpucost.texts import HIDDEN, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import duckdb
    from duckdb import DuckDBPyConnection

FileKind = Literal["csv", "parquet"]

# Characters that spreadsheets take for the start of a formula (also in full width), or skip before one.
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
# `visible` in SQL, for the text $text, letter by letter. It avoids a list in IN: that would become a join,
# which does not keep the order of rows.
_VISIBLE = r"""array_to_string(list_transform(regexp_extract_all($text, '(?s).'), lambda letter: CASE
    WHEN NOT regexp_matches(letter, '$hidden') THEN letter
    WHEN unicode(letter) < 65536 THEN format('\u{:04x}', unicode(letter))
    ELSE format('\u{:04x}\u{:04x}', unicode(letter) // 1024 + 55232, unicode(letter) % 1024 + 56320) END), '')"""
# `harmless` in SQL; one search suffices for most texts.
_GUARDED = """CASE WHEN NOT regexp_matches($text, '$formula|$hidden') THEN $text
    WHEN regexp_matches($text, '$formula') THEN '''' || $visible ELSE $visible END"""


# rows keep their order with any number of threads; DuckDB quotes cells that contain the character of COMMENT
_SAVE = {
    "csv": "COPY ({}) TO $path (FORMAT csv, HEADER, COMMENT ';', "
    "TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%SZ', DATEFORMAT '%Y-%m-%d')",
    "parquet": "COPY ({}) TO $path (FORMAT parquet, COMPRESSION zstd)",
}


def harmless(text: str) -> str:
    """`text` as a CSV cell, safe for spreadsheets.

    Hidden characters are shown, and an apostrophe is put before text that a spreadsheet would run as a
    formula.
    """
    seen = visible(text)
    return f"'{seen}" if re.match(_FORMULA, text) else seen


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    """Rows as CSV. Cells with semicolons are quoted, too: many spreadsheets use them as separator."""
    lines = (",".join(map(_cell, row)) for row in rows)
    return "".join(f"{line or _EMPTY}\n" for line in lines)


# a row of one empty cell, which readers would skip
_EMPTY = '""'


def _cell(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""')) if re.search('[",;\r\n]', text) else text


def save_table(
    con: DuckDBPyConnection, table: str, columns: Mapping[str, str], kind: FileKind, path: Path
) -> None:
    """Write columns of a table to a file; `columns` maps the file's columns, in order, to the table's.

    In CSV, instants are ISO 8601 in UTC, hidden characters are shown, and text that a spreadsheet would run
    begins with an apostrophe. Parquet keeps types and text unchanged. Rows keep the table's order. Raises
    GpucostError if the file cannot be written.
    """
    import duckdb

    source = con.table(table)
    texts = {
        name for name, type_ in zip(source.columns, source.types, strict=True) if str(type_) == "VARCHAR"
    }
    guarded = texts if kind == "csv" else ()
    selected = [
        (_guarded(name) if name in guarded else duckdb.ColumnExpression(name)).alias(title)
        for title, name in columns.items()
    ]
    try:
        con.execute(_SAVE[kind].format(source.select(*selected).sql_query()), {"path": str(path)})
    except duckdb.IOException as error:
        number = re.search(r'"errno":"(\d+)"', str(error))
        raise GpucostError(
            f"cannot write {path.name}: {os.strerror(int(number[1])) if number else error}"
        ) from error


_AT_ONCE = 50_000


def save_rows(columns: Mapping[str, str], rows: Iterable[Sequence[object]], path: Path) -> None:
    """Write rows to a Parquet file: None, text, numbers, decimals, dates.

    `columns` are their names and DuckDB types.
    """
    import duckdb

    from gpucost.store.bill_files import workspace

    typed = [
        duckdb.ColumnExpression(f"c{place}").cast(duckdb.sqltype(type_)).alias(name)
        for place, (name, type_) in enumerate(columns.items())
    ]
    left = iter(rows)
    with workspace(path.parent) as con:
        save = "create"
        while (some := list(islice(left, _AT_ONCE))) or save == "create":
            texts = {}
            for place in range(len(columns)):
                texts[f"c{place}"] = [None if row[place] is None else str(row[place]) for row in some]
            with frames(con, texts=texts):
                getattr(con.table("texts").select(*typed), save)("typed")
            save = "insert_into"
        save_table(con, "typed", {name: name for name in columns}, "parquet", path)


def _guarded(name: str) -> duckdb.Expression:
    """`harmless` for a column."""
    import duckdb

    quoted = name.replace('"', '""')
    guarded = _GUARDED.replace("$visible", _VISIBLE).replace("$hidden", HIDDEN).replace("$formula", _FORMULA)
    return duckdb.SQLExpression(guarded.replace("$text", f'"{quoted}"'))
