"""Reads the logs of calls that gateways write, in bulk: what each call was, and sums of the calls that are new."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb import (
    CaseExpression,
    CoalesceOperator,
    ColumnExpression,
    ConstantExpression,
    DuckDBPyConnection,
    DuckDBPyRelation,
    Expression,
    FunctionExpression,
)

from gpucost.errors import DataError
from gpucost.store import bill_files, sqlfiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Literal
    from zoneinfo import ZoneInfo

    import numpy as np
    from numpy.typing import NDArray

    from gpucost.config.model import CallLog

#: What a log may tell of a call, in the order of the columns of `call_texts`.
FIELDS = (
    "id", "time", "model", "provider", "api_base", "team", "tenant", "prompt_tokens", "cached_tokens", "generation_tokens",
    "spend", "currency", "status", "from_cache",
)  # fmt: skip
#: What the sums are by.
SERIES = ("unit", "model", "tenant", "team", "provider", "api_base", "currency", "is_failure")
_CALLS = """
CREATE TEMP TABLE calls (file INTEGER, row BIGINT, key UBIGINT, at_ms BIGINT, model VARCHAR, provider VARCHAR, api_base VARCHAR,
    team VARCHAR, tenant VARCHAR, currency VARCHAR, is_failure BOOLEAN, prompt DOUBLE, cached DOUBLE, generation DOUBLE,
    spend DOUBLE, wrong VARCHAR, value VARCHAR)"""
#: How gateways write that they do not know, in labels and logs, beside how files do.
UNKNOWN = (*bill_files.BLANK, "unknown", "-")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log of calls: its columns, and the settings that say which of them tells what."""

    path: Path
    kind: Literal["csv", "parquet", "jsonl", "array"]
    gzipped: bool
    header: Sequence[str]
    log: CallLog

    @property
    def gateway(self) -> str:
        """Who wrote it."""
        return self.log.gateway or self.log.name

    @property
    def source(self) -> str:
        """What the store calls the file."""
        return str(self.path.resolve())

    def columns(self, field: str) -> list[str]:
        """The columns that tell one of FIELDS."""
        names: list[str] = getattr(self.log, "currency_column" if field == "currency" else field)
        return names


@dataclass(frozen=True, slots=True)
class CallSums:
    """What a file's new calls come to: of each series, by SERIES, moments and values.

    `repeats` of its `calls` were told of before; `span` runs from its first to past its last call.
    """

    calls: int
    repeats: int
    span: tuple[int, int]
    series: list[tuple[tuple[Any, ...], NDArray[np.int64], NDArray[np.float64]]]


_OBJECTS = "SELECT DISTINCT unnest(json_keys(json)) FROM (SELECT json FROM read_json_objects($path) LIMIT 1000)"


@contextmanager
def workspace(*folders: Path) -> Iterator[CallReader]:
    """A reader of logs that lie in these folders."""
    with TemporaryDirectory(prefix="gpucost-") as work, bill_files.workspace(Path(work), *folders) as con:
        con.execute(_CALLS)
        yield CallReader(con, Path(work))


class CallReader:
    """Reads logs one after the other; what they tell of together is known at the end."""

    def __init__(self, con: DuckDBPyConnection, work: Path) -> None:
        self._con = con
        self._work = work
        self._files: list[str] = []

    def header(self, path: Path, kind: str) -> list[str]:
        """The columns of a Parquet file, or the keys of the first objects of JSON; none where it is no JSON of objects.

        Raises DataError for Parquet that cannot be read.
        """
        if kind == "parquet":
            return bill_files.parquet_header(self._con, path.resolve(), str(path))
        try:
            keys = self._con.execute(_OBJECTS, {"path": bill_files.pattern(path.resolve())}).fetchall()
            return sorted(key for (key,) in keys)
        except duckdb.Error:
            return []

    def read(self, file: LogFile, tz: ZoneInfo) -> None:
        """Reads a log's calls; `tz` is that of times without offset. Raises DataError with the row where one cannot be read."""
        number = len(self._files)
        self._files.append(file.source)
        known = {one.casefold(): one for one in file.header}
        found = {name: [place for one in file.columns(name) for place in _places(one, file, known)] for name in FIELDS}
        columns = list(dict.fromkeys(column for places in found.values() for column, _ in places))
        named = {column: f"c{at}" for at, column in enumerate(columns)}
        # of JSON only these keys are read
        header = file.header if file.kind in ("csv", "parquet") else columns
        positions = {named[column]: header.index(column) for column in columns}
        raw = bill_files.RawFile(file.path.resolve(), str(file.path), file.kind, header, file.gzipped, columns=positions)
        staged = bill_files.stage(self._con, raw, self._work / f"{number}.parquet")
        with bill_files.values_in_words([str(file.path)]):
            bill_files.staged_view(self._con, [staged], positions, ())
            texts = _texts(self._con.view("staged"), found, named)
            self._con.execute(f"CREATE OR REPLACE TEMP VIEW call_texts AS {texts.sql_query()}")
            self._con.execute("SET TimeZone = $1", ["UTC" if file.log.is_utc else tz.key])
            settings = {"gateway": file.gateway, "failures": file.log.failure, "currency": file.log.currency}
            sqlfiles.run(self._con, "calls", {"file": number, **settings})
        if staged.raw is None:
            staged.path.unlink()
        for row, wrong, value in self._con.execute(_WRONG, [number]).fetchall():
            where = f"{file.path}, row {row}"
            if wrong not in _NEEDED:
                raise DataError(f"{where}: {wrong} is no JSON", _FIX)
            column = " or ".join(file.columns(wrong)) or wrong
            raise DataError(f"{where}: {column} {value or ''!r} is {_NEEDED[wrong]}", _FIX)
        if not self._con.execute("SELECT 1 FROM calls WHERE file = $1 LIMIT 1", [number]).fetchall():
            raise DataError(f"{file.path} tells of no calls", _FIX)

    def load(self, store: DuckDBPyConnection) -> list[CallSums]:
        """What each file's new calls come to; enters their keys into the store, within the caller's transaction."""
        keys = _keys(self._con.execute("SELECT DISTINCT key FROM calls"))
        with sqlfiles.frames(store, batch_calls=keys):
            known = _keys(store.execute("SELECT key FROM batch_calls WHERE key IN (SELECT call_key FROM gateway_calls)"))
        with sqlfiles.frames(self._con, known_calls=known):
            sqlfiles.run(self._con, "new_calls")
        sqlfiles.run(self._con, "call_sums")
        for number, source in enumerate(self._files):
            new = self._con.execute("SELECT key FROM new_calls WHERE file = $1 ORDER BY key", [number])
            with sqlfiles.frames(store, batch_calls=_keys(new)):
                store.execute("INSERT INTO gateway_calls SELECT $1, key FROM batch_calls", [source])
        return [self._sums(number) for number in range(len(self._files))]

    def _sums(self, number: int) -> CallSums:
        import numpy as np

        counts = self._con.execute(_COUNTS, [number]).fetchall()[0]
        names = [duckdb.ColumnExpression(name) for name in SERIES]
        sums = self._con.table("call_sums").filter(ColumnExpression("file") == ConstantExpression(number))
        series = sums.aggregate(
            [*names, FunctionExpression("list", ColumnExpression("at_ms")), FunctionExpression("list", ColumnExpression("value"))]
        )
        return CallSums(
            counts[0],
            counts[0] - counts[1],
            (counts[2], counts[3] + 1),
            [(row[:-2], np.array(row[-2], dtype=np.int64), np.array(row[-1], dtype=np.float64)) for row in series.fetchall()],
        )


def _keys(con: DuckDBPyConnection) -> dict[str, NDArray[Any]]:
    """What the last statement answers, as a table of one column for `frames`."""
    import numpy as np

    return {"key": np.asarray(con.fetchnumpy()["key"], dtype=np.uint64)}


_COUNTS = """
SELECT count(*), (SELECT count(*) FROM new_calls WHERE file = $1), min(at_ms), max(at_ms) FROM calls WHERE file = $1"""
_WRONG = "SELECT row, wrong, value FROM calls WHERE file = $1 AND wrong IS NOT NULL ORDER BY row LIMIT 1"
_FIX = "mend it, or map the columns under [[call_logs]]; nothing was loaded"
_NEEDED = {
    "time": "no time such as 2026-10-01T06:00:00Z, and no Unix time",
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "generation_tokens", "spend"), "no number from 0"),
    "currency": "no currency such as USD",
}


_FORGOTTEN = """
CREATE OR REPLACE TEMP TABLE forgotten_calls AS FROM gateway_calls WHERE list_contains($1::VARCHAR[], source)"""
_LOST = """
SELECT source, count(*) FROM forgotten_calls WHERE call_key NOT IN (SELECT call_key FROM gateway_calls) GROUP BY source"""


def forget(store: DuckDBPyConnection, sources: Sequence[str]) -> None:
    """Forgets the calls that files told of, but for what `lost` needs to know."""
    store.execute(_FORGOTTEN, [list(sources)])
    store.execute("DELETE FROM gateway_calls WHERE list_contains($1::VARCHAR[], source)", [list(sources)])


def lost(store: DuckDBPyConnection) -> dict[str, int]:
    """How many of the calls that were forgotten no file tells of any more, by the file that did."""
    return dict(store.execute(_LOST).fetchall())


def column_of(name: str, header: Sequence[str]) -> tuple[str, str] | None:
    """The column that a name means, and the JSON pointer into it, if any; None where there is no such column."""
    if name in header:
        return name, ""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        if (column := ".".join(parts[:cut])) in header:
            return column, "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts[cut:])
    return None


def _places(name: str, file: LogFile, known: dict[str, str]) -> list[tuple[str, str]]:
    """The same as a list; of JSON, where any object may have keys that those at its beginning lack, all that the name can mean.

    Enters these into `known`, columns by their names in small letters: columns of a file cannot differ in case alone.
    """
    if place := column_of(name, file.header):
        return [place]
    if file.kind in ("csv", "parquet"):
        return []
    wanted = [one for one in dict.fromkeys((name, name.split(".")[0])) if known.setdefault(one.casefold(), one) == one]
    return [place for one in wanted if (place := column_of(name, [one]))]


def _texts(
    staged: DuckDBPyRelation, found: Mapping[str, Sequence[tuple[str, str]]], named: Mapping[str, str]
) -> DuckDBPyRelation:
    """The fields as text, null where nothing is known, and in `not_json` the column that should hold JSON and does not."""
    pointers: dict[str, list[str]] = {}
    for column, pointer in (place for places in found.values() for place in places if place[1]):
        pointers.setdefault(column, []).append(pointer)
    nothing = ConstantExpression(None).cast("VARCHAR")
    is_json = {column: FunctionExpression("json_valid", ColumnExpression(named[column])) for column in pointers}
    nested = [
        FunctionExpression(
            "json_extract_string",
            CaseExpression(is_json[column], ColumnExpression(named[column])),
            FunctionExpression("list_value", *map(ConstantExpression, paths)),
        ).alias(f"inside_{named[column]}")
        for column, paths in pointers.items()
    ]
    not_json = [CaseExpression(~valid, ConstantExpression(column)) for column, valid in is_json.items()]
    parsed = staged.select(
        ColumnExpression("file_row_number"),
        *map(ColumnExpression, named.values()),
        *nested,
        CoalesceOperator(*not_json, nothing).alias("not_json"),
    )

    def text(column: str, pointer: str) -> Expression:
        value: Expression = ColumnExpression(named[column])
        if pointer:
            place = ConstantExpression(pointers[column].index(pointer) + 1)
            value = FunctionExpression("list_extract", ColumnExpression(f"inside_{named[column]}"), place)
        return CaseExpression(value.isnotin(*map(ConstantExpression, UNKNOWN)), FunctionExpression("trim", value))

    return parsed.select(
        ColumnExpression("file_row_number"),
        ColumnExpression("not_json"),
        *(CoalesceOperator(*(text(*place) for place in places), nothing).alias(name) for name, places in found.items()),
    )
