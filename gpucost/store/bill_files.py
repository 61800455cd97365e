"""Reads the files of a billing export strictly and in bulk, as text columns: Parquet in its place, the rest as one copy.

Nothing here touches the store: the work is done before its lock is taken, in memory that does not grow with the files.
"""

from __future__ import annotations

import glob
import operator
import re
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

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
from gpucost.records import record
from gpucost.store import sqlfiles
from gpucost.store.connection import OFFLINE, confine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# Enough for a few row groups of both cores; what does not fit goes to the work directory.
MEMORY_LIMIT = "600MB"
# How exporters write that there is no value.
BLANK = ("", "NULL", "null", "None")
_NESTED = ("map", "struct", "list", "array", "json", "variant", "union")
_LINE = re.compile(r"on Line: (\d+)")
_COUNTS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")


@record
class RawFile:
    """A file on disk, read as text: what it is called for the user, and which of its columns are wanted.

    `kind` 'json' is one JSON document, whose keys stand for columns.
    `columns` maps the names that the SQL uses to positions in `header`, None for a column that is not there; `maps` names maps,
    each of keys to positions. `line_item` are the columns by which a line item is known, the first its id; empty without ids.
    `times` are the columns of a charge's start and end, and of its billing period's; `numbers` those that hold numbers.
    `blanks` are positions of text columns that hold what says that there is no value.
    `has_marks`: byte order marks inside the text are left out of `path`.
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


@record
class Staged:
    """A file that can be read as text columns, and what it is called for the user.

    `path` is a copy of the wanted columns, or where `raw` is given the Parquet file itself. `maps` are the keys of maps whose
    entries are columns, in their order. `repeats`: some of its rows agree in `row_digest`. `readings`: columns whose
    texts are not as SQL reads them, each with the macro that makes them so, and its argument.
    """

    path: Path
    name: str
    raw: RawFile | None = None
    maps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repeats: bool = False
    readings: Mapping[str, Sequence[str]] = field(default_factory=dict)


@contextmanager
def workspace(directory: Path, *others: Path) -> Iterator[DuckDBPyConnection]:
    """A connection of its own, outside any store, that sees `directory`, to which it spills, and other folders."""
    with duckdb.connect(":memory:", config=OFFLINE) as con:
        con.execute("SET TimeZone = 'UTC'")
        bound(con)
        confine(con, directory, *others)
        yield con


def bound(con: DuckDBPyConnection) -> None:
    """Bounds the memory of a connection."""
    con.execute("SET memory_limit = $1", [MEMORY_LIMIT])


def pattern(path: Path) -> str:
    """What DuckDB reads as this file alone: it takes a path for a pattern, in which [ ], * and ? stand for others."""
    return glob.escape(str(path))


def parquet_header(con: DuckDBPyConnection, path: Path, name: str) -> list[str]:
    """The column names of a Parquet file. Raises DataError where it cannot be read."""
    try:
        return list(con.read_parquet(pattern(path)).columns)
    except duckdb.Error as error:
        raise _unread(name, error) from error


def stage(con: DuckDBPyConnection, file: RawFile, target: Path) -> Staged:
    """A file as text columns, in the file's order: Parquet stays where it is, of anything else `target` becomes a Parquet copy.

    Columns that are not there are left out, and what says that there is no value is null; each of `maps` is a column, a map of
    its columns' values; `source_file` is the file's name, `row_digest` tells rows that name their line item apart: by the wanted
    columns, and where those agree within the file by all the others.
    Raises DataError with the line for a file that breaks off, is ragged, or is not UTF-8.
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
# A sixth of the time of writing it with Bloom filters, which nobody asks.
_COPY = "COPY {} TO $1 (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 60000, WRITE_BLOOM_FILTER false)"
# Line items that stand there twice: only of those are digests worked out, a third of the time of digesting all.
_AGAIN = """CREATE OR REPLACE TEMP TABLE items_again AS SELECT item FROM items GROUP BY item HAVING count(*) > 1;
    CREATE OR REPLACE TEMP TABLE digests_again AS
    SELECT row_digest FROM items SEMI JOIN items_again USING (item) GROUP BY row_digest HAVING count(*) > 1"""
# Of rows whose wanted columns agree: the place of what the others hold, the first of which needs no digest of its own.
_UNLIKE = """CREATE OR REPLACE TEMP TABLE rows_unlike AS
    SELECT file_row_number, place
    FROM (SELECT file_row_number, dense_rank() OVER (PARTITION BY row_digest ORDER BY whole_digest) AS place
          FROM staged SEMI JOIN digests_again USING (row_digest) JOIN rows_whole USING (file_row_number))
    WHERE place > 1"""
_APART = """(SELECT * EXCLUDE (file_row_number, place)
        REPLACE (CASE WHEN place IS NULL THEN row_digest ELSE hash(row_digest, place) END AS row_digest)
    FROM staged LEFT JOIN rows_unlike USING (file_row_number) ORDER BY file_row_number)"""


def _stage(con: DuckDBPyConnection, file: RawFile, target: Path) -> Staged:
    if file.kind != "csv":  # read_csv sees to blanks itself
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


# A text of a time that does not begin with its year, and numbers one of which has a comma: of each the first, null without.
_ODD = """SELECT min(starts) FILTER (NOT (starts LIKE '20__-%' AND coalesce(ends LIKE '20__-%', true)
        AND coalesce(since LIKE '20__-%', true) AND coalesce(until LIKE '20__-%', true))),
    min(numbers) FILTER (contains(numbers, ','))
FROM bill_texts"""
_AS_ISO = "export dates as 2026-10-31 and numbers as 1234.5; nothing of it was loaded"


def _readings(con: DuckDBPyConnection, file: RawFile) -> dict[str, Sequence[str]]:
    """How columns of the view `staged`, of this file, are read that are not as SQL reads them: what the file itself settles.

    Raises DataError for dates and numbers that can be read in two ways.
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
    for macro, of, example in zip(
        ("bill_time", "bill_number"), (file.times, file.numbers), con.execute(_ODD).fetchall()[0], strict=True
    ):
        if example is not None:
            ways = sqlfiles.run(con, f"{macro}_ways").fetchall()
            if len(ways) != 1:
                raise DataError(
                    f"{file.name}: {example} can be read in two ways, and the file does not settle which",
                    _AS_ISO,
                )
            readings |= dict.fromkeys(texts.intersection(of), (macro, *ways[0]))
    return readings


def _even_line_ends(path: Path, target: Path) -> None:
    """Writes a CSV that ends lines now one way, now the other, with one end for all; quoted fields keep theirs."""
    with path.open("rb") as source, target.open("wb") as out:
        is_quoted = False
        for chunk in inputs.chunks(source, b"\r"):  # a line end may stand on the edge of two
            pieces = chunk.split(b'"')
            for number, piece in enumerate(pieces):
                pieces[number] = piece if is_quoted != (number % 2 == 1) else piece.replace(b"\r\n", b"\n")
            is_quoted ^= len(pieces) % 2 == 0
            out.write(b'"'.join(pieces))


def staged_view(
    con: DuckDBPyConnection, staged: Sequence[Staged], columns: Iterable[str], maps: Iterable[str]
) -> None:
    """Makes staged files readable as the view `staged`: all of `columns` and `maps`, null where no file has them,
    `file_row_number`, 0 being the first row, and `label_digest` of what the maps hold, null where they are none.
    """
    kinds = dict.fromkeys(columns, "VARCHAR") | dict.fromkeys(maps, "MAP(VARCHAR, VARCHAR)")
    kinds |= {
        "row_digest": "UBIGINT",
        "label_digest": "UBIGINT",
        "source_file": "VARCHAR",
        "file_row_number": "BIGINT",
    }

    def complete(relation: DuckDBPyRelation, file: Staged) -> DuckDBPyRelation:
        found: dict[str, Expression] = {name: ColumnExpression(name) for name in relation.columns}
        for name, (macro, way) in file.readings.items():
            found[name] = FunctionExpression(macro, found[name], ConstantExpression(way))
        labels: list[Expression] = []
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

    alike: defaultdict[str, list[Staged]] = defaultdict(list)
    for file in sorted(staged, key=lambda file: file.raw is None):
        alike[_likeness(con, file)].append(file)
    relations = [complete(_rows(con, files), files[0]) for files in alike.values()]
    _view(con, "staged", reduce(DuckDBPyRelation.union, relations))


def _likeness(con: DuckDBPyConnection, file: Staged) -> str:
    """The same text for files that can be read together."""
    if file.raw is None:
        return repr((file.maps, file.readings))
    types = con.read_parquet(pattern(file.path)).types
    # A column that is called as DuckDB calls the file's own name leaves no room for that.
    path = file.path if "filename" in file.raw.header else ""
    return repr((list(file.raw.header), list(map(str, types)), path, file.readings))


def _rows(con: DuckDBPyConnection, files: Sequence[Staged]) -> DuckDBPyRelation:
    """The rows of files that are alike."""
    if raw := [file.raw for file in files if file.raw is not None]:
        return _relation(con, raw)
    paths = [pattern(file.path) for file in files]
    return con.read_parquet(paths, file_row_number=True, union_by_name=True)


def _view(con: DuckDBPyConnection, name: str, relation: DuckDBPyRelation) -> None:
    """What `create_view` does, but for this connection alone: a store keeps no view of files."""
    con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {relation.sql_query()}")


def _entry(name: str, at: int) -> str:
    """What the column of a map's entry is called in a copy: keys may differ in case alone, columns may not."""
    return f"{name}:{at}"


def _as_map(entries: Mapping[str, Expression]) -> Expression:
    """A map of the texts that have a value, by their keys; NULL without any."""
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
        # A tenth of the time of map_from_entries(), whose keys may differ in case alone.
        struct = FunctionExpression(
            "struct_pack", *(value.alias(key) for key, value in zip(entries, values, strict=True))
        )
        chosen = chosen.when(
            reduce(operator.and_, (value.isnotnull() for value in values)),
            struct.cast("MAP(VARCHAR, VARCHAR)"),
        )
    return chosen.otherwise(FunctionExpression("map_from_entries", some))


def _read(con: DuckDBPyConnection, files: Sequence[RawFile]) -> tuple[DuckDBPyRelation, list[str], list[str]]:
    """The rows of files that are alike, several only of Parquet; the names of their columns there, and what kind each holds."""
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
        paths = [pattern(one.path) for one in files]
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
    """Positions of the wanted columns that may hold blanks: to look costs less than to replace them where there are none.

    Reads all that is wanted of a Parquet file, so that one that is damaged is known before the store is locked.
    """
    relation, names, kinds = _read(con, [file])
    wanted = sorted({at for at in file.columns.values() if at is not None})
    texts = [at for at in wanted if kinds[at] in _TEXTS]
    nested = [at for at in wanted if kinds[at] in _NESTED]
    if file.kind != "parquet" or not texts:
        return frozenset(texts + nested)
    columns = {at: ColumnExpression(names[at]).cast("VARCHAR") for at in texts}
    typed = {*wanted, *(at for entries in file.maps.values() for at in entries.values())} - set(texts)
    # A length is worked out once for each value of a dictionary.
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
    """The numbers of a file's rows, and a digest of all their columns."""
    relation, names, _ = _read(con, [file])
    digest = FunctionExpression("hash", *(ColumnExpression(name) for name in names)).alias("whole_digest")
    if file.kind == "parquet":
        return relation.select(ColumnExpression("file_row_number"), digest)
    # Without other clauses the window numbers rows as they are read, in the file's order.
    return relation.select(digest).row_number("OVER () - 1 AS file_row_number", "whole_digest")


def _relation(con: DuckDBPyConnection, files: Sequence[RawFile]) -> DuckDBPyRelation:
    """The wanted columns as text, entries of maps each as `_entry` calls them, and a digest of all."""
    file = files[0]
    relation, names, kinds = _read(con, files)

    def as_text(position: int) -> Expression:
        """The column as text; what is nested as JSON."""
        column = ColumnExpression(names[position])
        if kinds[position] in _NESTED:
            column = FunctionExpression("to_json", column)
        text = column.cast("VARCHAR")
        if not any(position in one.blanks for one in files):
            return text
        return CaseExpression(text.isnotin(*map(ConstantExpression, BLANK)), text)

    wanted = {name: as_text(at) for name, at in file.columns.items() if at is not None}
    row_digest: Expression = ConstantExpression(None).cast("UBIGINT")
    if file.line_item:
        # In the order of their names, for files that have the same columns otherwise ordered, or lack some that are null.
        placed = (at for _, at in sorted(file.columns.items()))
        values = [ConstantExpression(None) if at is None else ColumnExpression(names[at]) for at in placed]
        entries: list[Expression] = []
        for columns in file.maps.values():
            for key in sorted(columns):
                entries += (ConstantExpression(key), ColumnExpression(names[columns[key]]))
        hashed = FunctionExpression("hash", *values, *entries)
        row_digest = CaseExpression(wanted[file.line_item[0]].isnotnull(), hashed)
    source: Expression = ConstantExpression(file.name)
    if len(files) > 1:
        paths, shown = [str(one.path) for one in files], [one.name for one in files]
        by_path = FunctionExpression("map", ConstantExpression(paths), ConstantExpression(shown))
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
    """Whether a staged file holds any row. Raises DataError where it cannot be read."""
    with values_in_words([file.name]):
        return bool(con.read_parquet(pattern(file.path)).limit(1).fetchall())


@contextmanager
def values_in_words(names: Sequence[str]) -> Iterator[None]:
    """Turns what SQL over the files of these names stumbles on, a nested value that is none, into DataError."""
    try:
        yield
    except duckdb.Error as error:
        # what else goes wrong is the store's
        if (
            not isinstance(error, duckdb.DataError | duckdb.InvalidInputException)
            and "parquet" not in str(error).lower()
        ):
            raise
        what = names[0] if len(names) == 1 else f"one of {len(names)} files, {min(names)} to {max(names)},"
        raise DataError(
            f"{what} cannot be read: {_first_line(str(error))}", "nothing of it was loaded"
        ) from error


_GET_AGAIN = "get the file again; nothing of it was loaded"
# What DuckDB says of a file that it cannot read, what that means, and what to do; the first that fits.
_MEANINGS = (
    ("unicode|(?i:utf-8)", "{where}: the file is not UTF-8", "save it as UTF-8; nothing of it was loaded"),
    (
        "state machine",
        "{where} is no regular CSV: a quote is out of place, or a line end of another kind",
        _GET_AGAIN,
    ),
    ("quote", "{where}: a quoted field does not end where it should", _GET_AGAIN),
    ("GZIP|(?i:end of)", "{name} breaks off: it was not downloaded in full", _GET_AGAIN),
)


def _unread(name: str, error: Exception) -> DataError:
    text = str(error)
    line = _LINE.search(text)
    where = f"{name}, line {line[1]}" if line else name
    if counts := _COUNTS.search(text):
        return DataError(f"{where}: {counts[2]} fields where the header has {counts[1]}", _GET_AGAIN)
    for said, meaning, fix in _MEANINGS:
        if re.search(said, text):
            return DataError(meaning.format(where=where, name=name), fix)
    return DataError(f"{where} cannot be read: {_first_line(text)}", _GET_AGAIN)


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return re.sub(r"^(Invalid Input|IO|Conversion|Parser) Error: ", "", line)
