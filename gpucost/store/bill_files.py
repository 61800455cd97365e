"""Strict, bulk reading of billing export files as text columns.

Parquet is read in place, other files as a Parquet copy. Nothing here touches the store: this work is done
before its lock is taken, in memory that does not grow with the files.
"""

import glob
import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import reduce
from pathlib import Path
from typing import Literal

import duckdb
from duckdb import (
    CaseExpression,
    ColumnExpression,
    ConstantExpression,
    DuckDBPyConnection,
    DuckDBPyRelation,
    Expression,
    FunctionExpression,
    LambdaExpression,
)

from gpucost import inputs
from gpucost.errors import DataError
from gpucost.records import frozen_dataclass
from gpucost.store import sqlfiles
from gpucost.store.connection import OFFLINE, confine

# Enough for a few row groups on both cores; the rest spills to the work directory.
MEMORY_LIMIT = "600MB"
# Texts that exporters write for missing values.
BLANK = ("", "NULL", "null", "None")
_NESTED = ("map", "struct", "list", "array", "json", "variant", "union")
_LINE = re.compile(r"on Line: (\d+)")
_COUNTS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")


@frozen_dataclass
class RawFile:
    """A file on disk, read as text: its name for the user, and its required columns.

    `kind` 'json' is one JSON document, whose keys act as columns. `columns` maps the names used in SQL to
    positions in `header`, None for a missing column; `maps` maps names of maps to their keys and positions.
    `line_item` are the columns that identify a line item, its id first; empty without ids. `times` are the
    columns of a charge's start and end, and of its billing period's; `numbers` are numeric columns. `blanks`
    are positions of text columns with texts for missing values. `has_marks`: byte order marks inside the text
    are left out of `path`.
    """

    path: Path
    name: str
    kind: Literal["csv", "parquet", "jsonl", "json"]
    header: Sequence[str]
    delimiter: str = ","
    columns: Mapping[str, int | None] = field(default_factory=dict)
    maps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    line_item: Sequence[str] = ()
    times: Sequence[str | None] = (None,) * 4
    numbers: Sequence[str] = ()
    blanks: frozenset[int] = frozenset()
    has_marks: bool = False


@frozen_dataclass
class Staged:
    """A file that can be read as text columns, and its name for the user.

    `path` is a copy of the required columns, or the Parquet file itself if `raw` is set. `maps` are the keys
    of maps whose entries are columns, in their order. `repeats`: some of its rows have equal `row_digest`.
    `readings`: columns whose texts need conversion, each with its macro and the macro's argument.
    """

    path: Path
    name: str
    raw: RawFile | None = None
    maps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repeats: bool = False
    readings: Mapping[str, Sequence[str]] = field(default_factory=dict)


@contextmanager
def workspace(directory: Path, *others: Path) -> Iterator[DuckDBPyConnection]:
    """A connection outside any store that sees `directory` (also its spill folder) and `others`."""
    with duckdb.connect(":memory:", config=OFFLINE) as con:
        con.execute("SET TimeZone = 'UTC'")
        bound(con)
        confine(con, directory, *others)
        yield con


def bound(con: DuckDBPyConnection) -> None:
    """Limit the memory of a connection."""
    con.execute("SET memory_limit = $1", [MEMORY_LIMIT])


def pattern(path: Path) -> str:
    """The pattern that matches only this file: DuckDB interprets [ ], * and ? in paths."""
    return glob.escape(str(path))


def parquet_header(con: DuckDBPyConnection, path: Path, name: str) -> list[str]:
    """The column names of a Parquet file. Raises DataError if it cannot be read."""
    try:
        return list(con.read_parquet(pattern(path)).columns)
    except duckdb.Error as error:
        raise _unread(name, error) from error


def stage(con: DuckDBPyConnection, file: RawFile, target: Path) -> Staged:
    """A file as text columns, in the file's order.

    Parquet stays in place; other files get a Parquet copy in `target`. Missing columns are left out, and
    missing values are null; each of `maps` is a column, a map of its columns' values. `source_file` is the
    file's name. `row_digest` distinguishes rows with equal line items: by the required columns or, if they
    are equal within the file, by all others. Raises DataError with the line for a file that is cut off,
    ragged, or not UTF-8.
    """
    try:
        try:
            return _stage(con, file, target)
        except duckdb.Error as error:
            if file.kind != "csv" or "state machine" not in str(error):
                raise
            evened = target.with_suffix(".csv")
            _even_line_ends(file.path, evened)
            staged = _stage(con, replace(file, path=evened), target)
            evened.unlink()
            return staged
    except duckdb.Error as error:
        raise _unread(file.name, error) from error


_TEXTS = ("varchar", "blob", "enum")
# Takes a sixth of the time of writing Bloom filters, which are never used.
_COPY = "COPY {} TO $1 (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 60000, WRITE_BLOOM_FILTER false)"
# Line items that occur twice: digests only of these take a third of the time of all digests.
_AGAIN = """CREATE OR REPLACE TEMP TABLE items_again AS SELECT item FROM items GROUP BY item HAVING count(*) > 1;
    CREATE OR REPLACE TEMP TABLE digests_again AS
    SELECT row_digest FROM items SEMI JOIN items_again USING (item) GROUP BY row_digest HAVING count(*) > 1"""
# Rows with equal required columns: the rank by their other columns; the first needs no digest of its own.
_UNLIKE = """CREATE OR REPLACE TEMP TABLE rows_unlike AS
    SELECT file_row_number, place
    FROM (SELECT file_row_number, dense_rank() OVER (PARTITION BY row_digest ORDER BY whole_digest) AS place
          FROM staged SEMI JOIN digests_again USING (row_digest) JOIN rows_whole USING (file_row_number))
    WHERE place > 1"""
_APART = """(SELECT * EXCLUDE (file_row_number, place)
        REPLACE (CASE WHEN place IS NULL THEN row_digest ELSE hash(row_digest, place) END AS row_digest)
    FROM staged LEFT JOIN rows_unlike USING (file_row_number) ORDER BY file_row_number)"""


def _stage(con: DuckDBPyConnection, file: RawFile, target: Path) -> Staged:
    if file.kind != "csv":  # read_csv handles blanks itself
        file = replace(file, blanks=_blanks(con, file))
    maps = {name: list(entries) for name, entries in file.maps.items()}
    staged = Staged(file.path, file.name, file, maps)
    if file.kind != "parquet":
        _view(con, "rows_staged", _relation(con, [file]))
        con.execute(_COPY.format("rows_staged"), [str(target)])
        staged = Staged(target, file.name, maps=maps)
    staged_view(con, [staged], file.columns, file.maps)
    readings = _readings(con, file)
    staged = replace(staged, readings=readings)
    if not file.line_item:
        return staged
    item = FunctionExpression("hash", *map(ColumnExpression, file.line_item)).alias("item")
    named = con.view("staged").filter(ColumnExpression(file.line_item[0]).isnotnull())
    _view(con, "items", named.select(item, ColumnExpression("row_digest")))
    con.execute(_AGAIN)
    if not con.execute("SELECT 1 FROM digests_again LIMIT 1").fetchall():
        return staged
    _view(con, "rows_whole", _whole_rows(con, file))
    con.execute(_UNLIKE)
    if not con.execute("SELECT 1 FROM rows_unlike LIMIT 1").fetchall():
        return replace(staged, repeats=True)
    apart = target.with_suffix(".apart.parquet")
    con.execute(_COPY.format(_APART), [str(apart)])
    return Staged(apart, file.name, repeats=True, readings=readings)


# The first text of a time that does not begin with its year, and the first numbers with a comma; or null.
_ODD = """SELECT min(starts) FILTER (NOT (starts LIKE '20__-%' AND coalesce(ends LIKE '20__-%', true)
        AND coalesce(since LIKE '20__-%', true) AND coalesce(until LIKE '20__-%', true))),
    min(numbers) FILTER (contains(numbers, ','))
FROM bill_texts"""
_AS_ISO = "export dates as 2026-10-31 and numbers as 1234.5; no data was loaded"


def _readings(con: DuckDBPyConnection, file: RawFile) -> dict[str, Sequence[str]]:
    """Conversions for columns of the view `staged` that SQL cannot cast, as the file proves them.

    Raises DataError for ambiguous dates and numbers.
    """
    _, _, kinds = _read(con, [file])
    texts = {
        name
        for name, at in file.columns.items()
        # A number may be a date: 20261031.
        if at is not None
        and (kinds[at] in _TEXTS or (name in file.times and not re.match("date|time", kinds[at])))
    }
    null = ConstantExpression(None).cast("VARCHAR")
    times = [ColumnExpression(name) if name in texts else null for name in file.times]
    numbers = [ColumnExpression(name) for name in file.numbers if name in texts]
    columns = dict(zip(("starts", "ends", "since", "until"), times, strict=True))
    columns["numbers"] = FunctionExpression("concat_ws", ConstantExpression(" "), null, *numbers)
    _view(con, "bill_texts", con.view("staged").select(*(text.alias(name) for name, text in columns.items())))
    readings: dict[str, Sequence[str]] = {}
    for macro, argument, example in zip(
        ("bill_time", "bill_number"), (file.times, file.numbers), con.execute(_ODD).fetchall()[0], strict=True
    ):
        if example is not None:
            ways = sqlfiles.run(con, f"{macro}_ways").fetchall()
            if len(ways) != 1:
                raise DataError(
                    f"{file.name}: {example} is ambiguous, and the file does not settle its meaning", _AS_ISO
                )
            readings |= dict.fromkeys(texts.intersection(argument), (macro, *ways[0]))
    return readings


def _even_line_ends(path: Path, target: Path) -> None:
    """Write a CSV with mixed line ends with uniform ones; quoted fields keep theirs."""
    with path.open("rb") as source, target.open("wb") as out:
        is_quoted = False
        for chunk in inputs.chunks(source, b"\r"):  # a line end may be split between two chunks
            pieces = chunk.split(b'"')
            for number, piece in enumerate(pieces):
                pieces[number] = piece if is_quoted != (number % 2 == 1) else piece.replace(b"\r\n", b"\n")
            is_quoted ^= len(pieces) % 2 == 0
            out.write(b'"'.join(pieces))


def staged_view(
    con: DuckDBPyConnection, staged: Sequence[Staged], columns: Iterable[str], maps: Iterable[str]
) -> None:
    """Make staged files readable as the view `staged`.

    Its columns are all of `columns` and `maps` (null in files without them), `file_row_number` (from 0), and
    `label_digest` of the maps' values (null without maps).
    """
    kinds = dict.fromkeys(columns, "VARCHAR") | dict.fromkeys(maps, "MAP(VARCHAR, VARCHAR)")
    kinds |= {
        "row_digest": "UBIGINT",
        "label_digest": "UBIGINT",
        "source_file": "VARCHAR",
        "file_row_number": "BIGINT",
    }

    def complete(relation: DuckDBPyRelation, file: Staged) -> DuckDBPyRelation:
        found = {name: ColumnExpression(name) for name in relation.columns}
        for name, (macro, way) in file.readings.items():
            found[name] = FunctionExpression(macro, found[name], ConstantExpression(way))
        labels = []
        for name, keys in file.maps.items():
            if keys:
                entries = [found[_entry(name, at)] for at in range(len(keys))]
                labels += entries
                found[name] = _as_map(dict(zip(keys, entries, strict=True)))
        if labels:
            found["label_digest"] = FunctionExpression("hash", *labels)
        null = ConstantExpression(None)
        return relation.select(
            *(found.get(name, null).cast(kind).alias(name) for name, kind in kinds.items())
        )

    alike = defaultdict(list)
    for file in sorted(staged, key=lambda file: file.raw is None):
        alike[_likeness(con, file)].append(file)
    relations = [complete(_rows(con, files), files[0]) for files in alike.values()]
    _view(con, "staged", reduce(DuckDBPyRelation.union, relations))


def _likeness(con: DuckDBPyConnection, file: Staged) -> str:
    """An equal text for files that can be read together."""
    if file.raw is None:
        return repr((file.maps, file.readings))
    types = con.read_parquet(pattern(file.path)).types
    # A column named like DuckDB's column for file names hides that.
    path = file.path if "filename" in file.raw.header else ""
    return repr((list(file.raw.header), list(map(str, types)), path, file.readings))


def _rows(con: DuckDBPyConnection, files: Sequence[Staged]) -> DuckDBPyRelation:
    """The rows of similar files."""
    if raw := [file.raw for file in files if file.raw is not None]:
        return _relation(con, raw)
    paths = [pattern(file.path) for file in files]
    return con.read_parquet(paths, file_row_number=True, union_by_name=True)


def _view(con: DuckDBPyConnection, name: str, relation: DuckDBPyRelation) -> None:
    """Like `create_view`, but temporary: a store keeps no views of files."""
    con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {relation.sql_query()}")


def _entry(name: str, at: int) -> str:
    """The column name of a map's entry in a copy; with a number, because keys may differ in case alone, columns not."""
    return f"{name}:{at}"


def _as_map(entries: Mapping[str, Expression]) -> Expression:
    """A map of the nonempty texts by their keys; NULL without any."""
    values = [CaseExpression(text != ConstantExpression(""), text) for text in entries.values()]
    pairs = [
        CaseExpression(
            value.isnotnull(),
            FunctionExpression("struct_pack", ConstantExpression(key).alias("key"), value.alias("value")),
        )
        for key, value in zip(entries, values, strict=True)
    ]
    is_there = LambdaExpression("pair", ColumnExpression("pair").isnotnull())
    some = FunctionExpression("list_filter", FunctionExpression("list_value", *pairs), is_there)
    none = reduce(operator.and_, (value.isnull() for value in values))
    chosen = CaseExpression(none, FunctionExpression("map").cast("MAP(VARCHAR, VARCHAR)"))
    if len({key.casefold() for key in entries}) == len(entries):
        # A tenth of the time of map_from_entries(), which allows keys that differ only in case.
        struct = FunctionExpression(
            "struct_pack", *(value.alias(key) for key, value in zip(entries, values, strict=True))
        )
        chosen = chosen.when(
            reduce(operator.and_, (value.isnotnull() for value in values)),
            struct.cast("MAP(VARCHAR, VARCHAR)"),
        )
    return chosen.otherwise(FunctionExpression("map_from_entries", some))


def _read(con: DuckDBPyConnection, files: Sequence[RawFile]) -> tuple[DuckDBPyRelation, list[str], list[str]]:
    """The rows of similar files (several only for Parquet), their column names, and types."""
    file, names = files[0], list(files[0].header)
    if file.kind == "csv":
        names = [f"c{i}" for i in range(len(names))]
        relation = con.read_csv(
            pattern(file.path),
            header=True,
            auto_detect=False,
            columns=dict.fromkeys(names, "VARCHAR"),
            sep=file.delimiter,
            quotechar='"',
            escapechar='"',
            null_padding=False,
            ignore_errors=False,
            compression="none",
            strict_mode=True,
            na_values=list(BLANK),
        )
    elif file.kind == "parquet":
        paths = [pattern(each.path) for each in files]
        relation = con.read_parquet(paths, file_row_number=True, filename=len(files) > 1)
        names = relation.columns[: len(names)]
    else:
        relation = con.read_json(
            pattern(file.path),
            format="newline_delimited",
            columns=dict.fromkeys(names, "VARCHAR"),
            compression="none",
        )
    return relation, names, [str(kind.id) for kind in relation.types]


def _blanks(con: DuckDBPyConnection, file: RawFile) -> frozenset[int]:
    """Positions of required columns that may hold blanks; checking is cheaper than replacing.

    Reads all required data of a Parquet file, so that a damaged file is found before the store is locked.
    """
    relation, names, kinds = _read(con, [file])
    wanted = sorted({at for at in file.columns.values() if at is not None})
    texts = [at for at in wanted if kinds[at] in _TEXTS]
    nested = [at for at in wanted if kinds[at] in _NESTED]
    if file.kind != "parquet" or not texts:
        return frozenset(texts + nested)
    columns = {at: ColumnExpression(names[at]).cast("VARCHAR") for at in texts}
    typed = {*wanted, *(at for entries in file.maps.values() for at in entries.values())} - set(texts)
    # The length is computed once per value of a dictionary.
    seen = [FunctionExpression("hash", ConstantExpression(0), *(ColumnExpression(names[at]) for at in typed))]
    shortest = [FunctionExpression("min", FunctionExpression("strlen", columns[at])) for at in texts]
    lengths = relation.aggregate([*shortest, FunctionExpression("max", *seen)]).fetchall()[0]
    longest = max(map(len, BLANK))
    short = [
        at for at, length in zip(texts, lengths, strict=False) if length is not None and length <= longest
    ]
    is_any = [
        FunctionExpression("bool_or", columns[at].isin(*map(ConstantExpression, BLANK))) for at in short
    ]
    found = relation.aggregate(is_any).fetchall()[0] if short else ()
    return frozenset(nested + [at for at, is_blank in zip(short, found, strict=True) if is_blank])


def _whole_rows(con: DuckDBPyConnection, file: RawFile) -> DuckDBPyRelation:
    """The row numbers of a file, and a digest of all columns of each."""
    relation, names, _ = _read(con, [file])
    digest = FunctionExpression("hash", *(ColumnExpression(name) for name in names)).alias("whole_digest")
    if file.kind == "parquet":
        return relation.select(ColumnExpression("file_row_number"), digest)
    # Without other clauses, the window numbers rows as they are read, in the file's order.
    return relation.select(digest).row_number("OVER () - 1 AS file_row_number", "whole_digest")


def _relation(con: DuckDBPyConnection, files: Sequence[RawFile]) -> DuckDBPyRelation:
    """The required columns as text, map entries named by `_entry`, and a digest of all."""
    file = files[0]
    relation, names, kinds = _read(con, files)

    def as_text(position: int) -> Expression:
        """The column as text; nested values as JSON."""
        column = ColumnExpression(names[position])
        if kinds[position] in _NESTED:
            column = FunctionExpression("to_json", column)
        text = column.cast("VARCHAR")
        if not any(position in each.blanks for each in files):
            return text
        return CaseExpression(text.isnotin(*map(ConstantExpression, BLANK)), text)

    wanted = {name: as_text(at) for name, at in file.columns.items() if at is not None}
    row_digest = ConstantExpression(None).cast("UBIGINT")
    if file.line_item:
        # Ordered by name, for files with the same columns in another order, or without some null columns.
        placed = (at for _, at in sorted(file.columns.items()))
        values = [ConstantExpression(None) if at is None else ColumnExpression(names[at]) for at in placed]
        entries: list[Expression] = []
        for columns in file.maps.values():
            for key in sorted(columns):
                entries += (ConstantExpression(key), ColumnExpression(names[columns[key]]))
        hashed = FunctionExpression("hash", *values, *entries)
        row_digest = CaseExpression(wanted[file.line_item[0]].isnotnull(), hashed)
    source = ConstantExpression(file.name)
    if len(files) > 1:
        paths, file_names = [str(each.path) for each in files], [each.name for each in files]
        by_path = FunctionExpression("map", ConstantExpression(paths), ConstantExpression(file_names))
        source = FunctionExpression("map_extract_value", by_path, ColumnExpression("filename"))
    return relation.select(
        *(text.alias(name) for name, text in wanted.items()),
        *(
            ColumnExpression(names[position]).cast("VARCHAR").alias(_entry(name, at))
            for name, entries in file.maps.items()
            for at, position in enumerate(entries.values())
        ),
        row_digest.alias("row_digest"),
        source.alias("source_file"),
        *([ColumnExpression("file_row_number")] if file.kind == "parquet" else []),
    )


def has_rows(con: DuckDBPyConnection, file: Staged) -> bool:
    """Whether a staged file has rows. Raises DataError if it cannot be read."""
    with values_in_words([file.name]):
        return bool(con.read_parquet(pattern(file.path)).limit(1).fetchall())


@contextmanager
def values_in_words(names: Sequence[str]) -> Iterator[None]:
    """Turn errors of SQL over these files, such as invalid nested values, into DataError."""
    try:
        yield
    except duckdb.Error as error:
        # other errors concern the store
        if (
            not isinstance(error, duckdb.DataError | duckdb.InvalidInputException)
            and "parquet" not in str(error).lower()
        ):
            raise
        what = names[0] if len(names) == 1 else f"one of {len(names)} files, {min(names)} to {max(names)},"
        raise DataError(f"{what} cannot be read: {_first_line(str(error))}", "no data was loaded") from error


_GET_AGAIN = "get the file again; no data was loaded"
# DuckDB's errors for unreadable files, their meanings and fixes; the first match applies.
_MEANINGS = (
    ("unicode|(?i:utf-8)", "{where}: the file is not UTF-8", "save it as UTF-8; no data was loaded"),
    (
        "state machine",
        "{where} is not a regular CSV file: a misplaced quote, or another kind of line end",
        _GET_AGAIN,
    ),
    ("quote", "{where}: a quoted field does not end correctly", _GET_AGAIN),
    ("GZIP|(?i:end of)", "{name} is cut off: the download is incomplete", _GET_AGAIN),
)


def _unread(name: str, error: Exception) -> DataError:
    text = str(error)
    line = _LINE.search(text)
    where = f"{name}, line {line[1]}" if line else name
    if counts := _COUNTS.search(text):
        return DataError(f"{where}: {counts[2]} fields, but {counts[1]} in the header", _GET_AGAIN)
    for pattern, meaning, fix in _MEANINGS:
        if re.search(pattern, text):
            return DataError(meaning.format(where=where, name=name), fix)
    return DataError(f"{where} cannot be read: {_first_line(text)}", _GET_AGAIN)


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return re.sub(r"^(Invalid Input|IO|Conversion|Parser) Error: ", "", line)
