"""Reads the files of a billing export strictly and in bulk: text columns, unchanged, in Parquet files beside each other.

Nothing here touches the store: the work is done before its lock is taken, in memory that does not grow with the files.
"""

from __future__ import annotations

import gzip
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gpucost.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

# Enough for a few row groups of both cores; what does not fit goes to the work directory.
MEMORY_LIMIT = "600MB"
# How exporters write that there is no value.
BLANK = ("", "NULL", "null", "None")
_NESTED = ("map", "struct", "list", "array", "json", "variant", "union")
_LINE = re.compile(r"on Line: (\d+)")
_COUNTS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file on disk, read as text: what it is called for the user, and which of its columns are wanted.

    `columns` maps the names that the SQL uses to positions in `header`, None for a column that is not there; `maps` names maps,
    each of keys to positions. `line_item` is the position of what names a line item, where there is one.
    """

    path: Path
    name: str
    kind: Literal["csv", "parquet", "jsonl"]
    header: Sequence[str]
    columns: Mapping[str, int | None]
    maps: Mapping[str, Mapping[str, int]]
    gzipped: bool = False
    delimiter: str = ","
    line_item: int | None = None


@contextmanager
def workspace(directory: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own, outside any store, that spills to `directory`."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    con = duckdb.connect(":memory:", config=config)
    try:
        con.execute("SET TimeZone = 'UTC'")
        bound(con, directory)
        yield con
    finally:
        con.close()


def bound(con: duckdb.DuckDBPyConnection, directory: Path) -> None:
    """Bounds the memory of a connection; what does not fit goes to `directory`."""
    con.execute("SET memory_limit = $1", [MEMORY_LIMIT])
    con.execute("SET temp_directory = $1", [str(directory / "spill")])


def parquet_header(con: duckdb.DuckDBPyConnection, path: Path, name: str) -> list[str]:
    """The column names of a Parquet file. Raises DataError where it cannot be read."""
    import duckdb

    try:
        return list(con.read_parquet(str(path)).columns)
    except duckdb.Error as error:
        raise _unread(name, error) from error


def stage(con: duckdb.DuckDBPyConnection, file: RawFile, target: Path) -> None:
    """Writes the wanted columns of a file to a Parquet file, as text and in the file's order: its rows are the file's rows.

    Columns that are not there are left out, and what says that there is no value is null; each of `maps` is a column, a map of
    its columns' values; `source_file` is the file's name, `row_digest` tells rows that name their line item apart, by all of
    their columns, whether they are read or not.
    Raises DataError with the line for a file that breaks off, is ragged, or is not UTF-8.
    """
    import duckdb

    try:
        try:
            _write(con, file, target)
        except duckdb.Error as error:
            if file.kind != "csv" or "state machine" not in str(error):
                raise
            evened = target.with_suffix(".csv")
            _even_line_ends(file, evened)
            _write(con, replace(file, path=evened, gzipped=False), target)
            evened.unlink()
    except duckdb.Error as error:
        raise _unread(file.name, error) from error


# A sixth of the time of writing it with Bloom filters, which nobody asks.
_COPY = "COPY rows_staged TO $1 (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 60000, WRITE_BLOOM_FILTER false)"


def _write(con: duckdb.DuckDBPyConnection, file: RawFile, target: Path) -> None:
    _relation(con, file).create_view("rows_staged", replace=True)
    con.execute(_COPY, [str(target)])


def _even_line_ends(file: RawFile, target: Path) -> None:
    """Writes a CSV that ends lines now one way, now the other, with one end for all; quoted fields keep theirs."""
    with gzip.open(file.path, "rb") if file.gzipped else file.path.open("rb") as source, target.open("wb") as out:
        is_quoted, rest = False, b""
        while chunk := source.read(1 << 20):
            chunk = rest + chunk
            # A line end may stand on the edge of two chunks.
            rest = b"\r" if chunk.endswith(b"\r") else b""
            pieces = chunk.removesuffix(rest).split(b'"')
            for number, piece in enumerate(pieces):
                pieces[number] = piece if is_quoted != (number % 2 == 1) else piece.replace(b"\r\n", b"\n")
            is_quoted ^= len(pieces) % 2 == 0
            out.write(b'"'.join(pieces))
        out.write(rest)


def staged_view(con: duckdb.DuckDBPyConnection, staged: Sequence[Path], columns: Iterable[str]) -> None:
    """Makes staged files readable as the view `staged`: all of `columns`, null where no file has them, and `file_row_number`,
    0 being the first row.
    """
    import duckdb

    relation = con.read_parquet([str(path) for path in staged], file_row_number=True, union_by_name=True)
    null = duckdb.ConstantExpression(None).cast("VARCHAR")
    lacking = [null.alias(name) for name in columns if name not in relation.columns]
    relation.select(duckdb.StarExpression(), *lacking).create_view("staged", replace=True)


def _relation(con: duckdb.DuckDBPyConnection, file: RawFile) -> duckdb.DuckDBPyRelation:
    """The wanted columns as text, and a digest of all columns."""
    import duckdb

    names = [f"c{i}" for i in range(len(file.header))]
    if file.kind == "csv":
        relation = con.read_csv(
            str(file.path),
            header=True,
            auto_detect=False,
            columns=dict.fromkeys(names, "VARCHAR"),
            sep=file.delimiter,
            quotechar='"',
            escapechar='"',
            null_padding=False,
            ignore_errors=False,
            compression="gzip" if file.gzipped else "none",
            strict_mode=True,
            na_values=list(BLANK),
        )
    elif file.kind == "parquet":
        relation = con.read_parquet(str(file.path))
        names = list(relation.columns)
    else:
        relation = con.read_json(
            str(file.path),
            format="newline_delimited",
            columns=dict.fromkeys(file.header, "VARCHAR"),
            compression="gzip" if file.gzipped else "none",
        )
        names = list(file.header)
    kinds = dict(zip(relation.columns, (str(kind.id) for kind in relation.types), strict=True))

    def as_text(position: int) -> duckdb.Expression:
        column = duckdb.ColumnExpression(names[position])
        if kinds[names[position]] in _NESTED:
            column = duckdb.FunctionExpression("to_json", column)
        text = column.cast("VARCHAR")
        for blank in () if file.kind == "csv" else BLANK:  # read_csv has seen to it
            text = duckdb.FunctionExpression("nullif", text, duckdb.ConstantExpression(blank))
        return text

    def as_map(columns: Mapping[str, int]) -> duckdb.Expression:
        if not columns:
            return duckdb.ConstantExpression(None)
        values = [duckdb.ColumnExpression(names[at]).cast("VARCHAR") for at in columns.values()]
        if len({key.casefold() for key in columns}) == len(columns):
            # A tenth of the time of map(), whose keys may differ in case alone.
            entries = [value.alias(key) for key, value in zip(columns, values, strict=True)]
            return duckdb.FunctionExpression("struct_pack", *entries)
        keys = duckdb.FunctionExpression("list_value", *(duckdb.ConstantExpression(key) for key in columns))
        return duckdb.FunctionExpression("map", keys, duckdb.FunctionExpression("list_value", *values))

    wanted = [as_text(at).alias(name) for name, at in file.columns.items() if at is not None]

    row_digest: duckdb.Expression = duckdb.ConstantExpression(None).cast("UBIGINT")
    if file.line_item is not None:
        # In the order of their names, for files that have the same columns otherwise ordered.
        ordered = sorted(range(len(names)), key=lambda at: file.header[at])
        hashed = duckdb.FunctionExpression("hash", *(duckdb.ColumnExpression(names[at]) for at in ordered))
        row_digest = duckdb.CaseExpression(as_text(file.line_item).isnotnull(), hashed)
    return relation.select(
        *wanted,
        *(as_map(columns).cast("MAP(VARCHAR, VARCHAR)").alias(name) for name, columns in file.maps.items()),
        row_digest.alias("row_digest"),
        duckdb.ConstantExpression(file.name).alias("source_file"),
    )


@contextmanager
def values_in_words(names: Sequence[str]) -> Iterator[None]:
    """Turns what SQL over the files of these names stumbles on, a nested value that is none, into DataError."""
    import duckdb

    try:
        yield
    except (duckdb.DataError, duckdb.InvalidInputException) as error:
        what = names[0] if len(names) == 1 else f"one of {len(names)} files, {min(names)} to {max(names)},"
        raise DataError(f"{what} cannot be read: {_first_line(str(error))}", "nothing of it was loaded") from error


def _unread(name: str, error: Exception) -> DataError:
    text = str(error)
    line = _LINE.search(text)
    where = f"{name}, line {line.group(1)}" if line else name
    counts = _COUNTS.search(text)
    again = "get the file again; nothing of it was loaded"
    if counts:
        return DataError(f"{where}: {counts.group(2)} fields where the header has {counts.group(1)}", again)
    if "unicode" in text or "utf-8" in text.lower():
        return DataError(f"{where}: the file is not UTF-8", "save it as UTF-8; nothing of it was loaded")
    if "state machine" in text:
        return DataError(f"{where} is no regular CSV: a quote is out of place, or a line end of another kind", again)
    if "quote" in text:
        return DataError(f"{where}: a quoted field does not end where it should", again)
    if "GZIP" in text or "end of" in text.lower():
        return DataError(f"{name} breaks off: it was not downloaded in full", again)
    return DataError(f"{where} cannot be read: {_first_line(text)}", again)


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return re.sub(r"^(Invalid Input|IO|Conversion|Parser) Error: ", "", line)


def rows(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """What the last statement answered, a dict per row."""
    names = [str(column[0]) for column in con.description or []]
    return [dict(zip(names, row, strict=True)) for row in con.fetchall()]
