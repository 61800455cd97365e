"""Numbered migrations: each file of `migrations/` is applied once, in order."""

import hashlib
import os
import re
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from gpucost.errors import StoreError
from gpucost.installation import upgrade
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.resources import shipped
from gpucost.store.sqlfiles import column, value


@cache
def _migrations() -> tuple[tuple[int, str, str], ...]:
    scripts = [f for f in (files("gpucost.store") / "migrations").iterdir() if f.name.endswith(".sql")]
    return tuple(
        sorted(
            (int(f.name.split("_", 1)[0]), f.name.removesuffix(".sql"), f.read_text("utf-8")) for f in scripts
        )
    )


def latest_version() -> int:
    """The schema version that this program writes."""
    return _migrations()[-1][0]


def current_version(con: DuckDBPyConnection) -> int:
    """The schema version of an open store; 0 if it has no tables of gpucost yet."""
    import duckdb

    try:
        # qualified: this cannot be the store's own function
        return value(con, "SELECT system.main.max(version) FROM schema_version") or 0
    except duckdb.CatalogException:
        return 0


def check(con: DuckDBPyConnection, path: Path) -> bool:
    """Whether the store has the schema of this program; False if it is older.

    Raises StoreError for a store written by a newer gpucost, for a DuckDB file that is not a store, and for a
    store with other tables, views or macros than its version's: a store is data and must not run its own
    code.
    """
    if is_trusted(path):
        return True
    version = current_version(con)
    if version > latest_version():
        raise StoreError(
            f"{path} was written by a newer gpucost (schema {version}; this one has {latest_version()})",
            upgrade(),
        )
    if (
        version == 0
        and con.execute(
            "SELECT 1 FROM system.main.duckdb_tables() WHERE NOT internal AND NOT temporary"
        ).fetchall()
    ):
        raise StoreError(
            f"{path} is a DuckDB file, but not a gpucost store",
            "name another file with --store or store = … in gpucost.toml",
        )
    if version and objects_digest(con) != _schema_digests().get(version):
        _refuse_others(con, path, version)
    if version == latest_version():
        trust(path)
    return version == latest_version()


# Digests of files that were checked, or that gpucost wrote afterwards: a command opens its store several
# times.
_CHECKED: set[str] = set()
# Number of digests kept in a user's file for later commands.
_KEPT = 200


def _state(path: Path) -> str:
    """A digest of this version, the file and its write-ahead log: programs cannot reset ctime."""
    files = [path.stat()]
    with suppress(FileNotFoundError):
        files.append(path.with_name(f"{path.name}.wal").stat())
    state = [(at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for at in files]
    return hashlib.sha256(repr((path.resolve(), state, latest_version())).encode()).hexdigest()


def _checked_before() -> Path:
    """The user's file of checked digests. Raises RuntimeError without a home directory."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "gpucost" / "checked-stores"


def is_trusted(path: Path) -> bool:
    """Whether a file is of this version, and unchanged since gpucost last checked or wrote it."""
    state = _state(path)
    if state not in _CHECKED:
        with suppress(OSError, RuntimeError, ValueError):
            marker = _checked_before()
            at = marker.stat()
            if at.st_uid == os.geteuid() and not at.st_mode & 0o022:
                _CHECKED.update(marker.read_text("ascii").split())
    return state in _CHECKED


def trust(path: Path) -> None:
    """Record that a file, as it is now, has the right objects.

    It is checked again only after another program writes it.
    """
    state = _state(path)
    _CHECKED.add(state)
    with suppress(OSError, RuntimeError, ValueError):
        marker = _checked_before()
        marker.parent.mkdir(parents=True, exist_ok=True)
        earlier = marker.read_text("ascii").split()[1 - _KEPT :] if marker.exists() else []
        new = marker.with_name(f"{marker.name}-{os.getpid()}")
        new.touch(0o600)
        new.write_text("\n".join([*earlier, state]), "ascii")
        new.replace(marker)


# The objects of a schema, without DuckDB's own; macros last, because they are listed among thousands of
# functions. Functions are qualified, and as few as possible: a store may have macros with the names of
# DuckDB's own.
_OBJECTS = """
SELECT 'table' AS kind, schema_name, table_name AS name, sql AS definition, database_name, internal OR temporary AS is_internal
FROM system.main.duckdb_tables()
UNION ALL SELECT 'view', schema_name, view_name, sql, database_name, internal OR temporary FROM system.main.duckdb_views()
UNION ALL SELECT 'index', schema_name, index_name, sql, database_name, false FROM system.main.duckdb_indexes()
UNION ALL SELECT 'sequence', schema_name, sequence_name, sql, database_name, temporary FROM system.main.duckdb_sequences()
UNION ALL SELECT 'trigger', schema_name, trigger_name, sql, database_name, false FROM system.main.duckdb_triggers()
UNION ALL SELECT 'type', schema_name, type_name, logical_type, database_name, internal FROM system.main.duckdb_types()
UNION ALL SELECT 'schema', 'main', schema_name, sql, database_name, internal FROM system.main.duckdb_schemas()"""
_MACROS = """
SELECT schema_name, function_name, parameters, macro_definition, database_name
FROM system.main.duckdb_functions() WHERE NOT internal"""


# DuckDB keeps the items in these brackets in arbitrary order.
_UNORDERED = re.compile(r"\b(?:EXCLUDE|REPLACE) \(")


def _ordered(definition: str) -> str:
    """A definition with its unordered lists sorted."""
    found = _UNORDERED.search(definition)
    if not found:
        return definition
    parts, depth, begin, at = [], 1, found.end(), found.end()
    while depth and at < len(definition):
        depth += {"(": 1, ")": -1}.get(definition[at], 0)
        if not depth or (depth == 1 and definition[at] == ","):
            parts.append(definition[begin:at].strip())
            begin = at + 1
        at += 1
    return (
        definition[: found.end()] + ", ".join(sorted(map(_ordered, parts))) + ")" + _ordered(definition[at:])
    )


# An object that loads of bills left behind before this schema version: it is unused, and the migration to
# that version drops it.
_LEFT, _LEFT_UNTIL = ("view", "staged"), 20


def _objects(con: DuckDBPyConnection) -> dict[tuple[str, str], str]:
    """The definition of each object by its kind and name."""
    own_database = value(con, "SELECT system.main.current_database()")
    definitions = [
        (kind, schema, name, definition)
        for kind, schema, name, definition, database, is_internal in con.execute(_OBJECTS).fetchall()
        if database == own_database and not is_internal
    ]
    definitions += [
        ("macro", schema, name, f"[{', '.join(map(str, parameters or ()))}] {definition}")
        for schema, name, parameters, definition, database in con.execute(_MACROS).fetchall()
        if database == own_database
    ]
    found = {
        (kind, name if schema == "main" else f"{schema}.{name}"): _ordered(definition or "")
        for kind, schema, name, definition in definitions
    }
    if current_version(con) < _LEFT_UNTIL:
        found.pop(_LEFT, None)
    return found


def objects_digest(con: DuckDBPyConnection) -> str:
    """A digest of all objects in the schema of an open store, by name and definition."""
    return hashlib.sha256(repr(sorted(_objects(con).items())).encode()).hexdigest()


@cache
def _schema_digests() -> dict[int, str]:
    """The digest of each version, as computed by this project's tests."""
    lines = shipped("store/migrations/objects.txt").splitlines()
    return {int(version): digest for version, digest in (line.split() for line in lines)}


def _refuse_others(con: DuckDBPyConnection, path: Path, version: int) -> None:
    """Raise StoreError if the objects differ from the objects that the migrations create.

    This DuckDB creates them for the comparison: another version may spell definitions in another way.
    """
    import duckdb

    with duckdb.connect(":memory:") as reference:
        migrate(reference, until=version)
        due = _objects(reference)
    there = _objects(con)
    for kind, name in sorted(there.keys() | due.keys()):
        if there.get((kind, name)) != due.get((kind, name)):
            made = (
                f"contains a {kind} {name} that gpucost did not create"
                if (kind, name) in there
                else f"lacks its {kind} {name}"
            )
            raise StoreError(
                f"the store {path} {made}",
                "restore a copy, or name another file with --store and collect again",
            )


_SCHEMA_VERSION = """
CREATE TABLE IF NOT EXISTS schema_version (
    version      INTEGER NOT NULL,
    name         VARCHAR NOT NULL,
    applied_at   TIMESTAMP NOT NULL
)"""


def migrate(con: DuckDBPyConnection, until: int | None = None) -> None:
    """Upgrade the schema to the latest version, or to `until`, in one transaction."""
    import duckdb

    version = current_version(con)
    con.execute("BEGIN")
    try:
        con.execute(_SCHEMA_VERSION)
        for number, name, statements in _migrations():
            if version < number <= (until or number):
                con.execute(statements)
                con.execute("INSERT INTO schema_version VALUES ($1, $2, now()::TIMESTAMP)", [number, name])
        con.execute("COMMIT")
    except BaseException:
        # a failed commit has ended the transaction; its own error has the reason
        with suppress(duckdb.Error):
            con.execute("ROLLBACK")
        raise


# The first version whose migration deletes data: older stores are copied first.
DELETES_SINCE = 22
# Number of rows that this migration deletes, by table; the tables exist since version 21.
_DELETED = """
SELECT 'gateway_calls', count(*) FROM gateway_calls
UNION ALL SELECT 'token_prices', count(*) FROM token_prices
UNION ALL SELECT 'progress_series of gateways', count(*) FROM progress_series WHERE gateway IS NOT NULL"""


def deleted_by_upgrade(con: DuckDBPyConnection) -> str:
    """A list of the rows that an upgrade of an open store deletes, by table; '' if none."""
    if current_version(con) != DELETES_SINCE - 1:
        return ""
    return ", ".join(f"{count:,} of {table}" for table, count in con.execute(_DELETED).fetchall() if count)


@frozen_dataclass
class TableInfo:
    name: str
    rows: int


@frozen_dataclass
class SourceInfo:
    """One source's loads: their number, the period they span (with possible gaps), and rows."""

    kind: str
    source: str
    loads: int
    start: datetime
    end: datetime
    rows: int
    dropped: int
    last_loaded_at: datetime


@frozen_dataclass
class DroppedInfo:
    """Impossible samples of a metric that were left out.

    `reason` is 'nan', 'sentinel' or 'out_of_range'.
    """

    source: str
    reason: str
    metric: str
    samples: int


@frozen_dataclass
class StoreInfo:
    """The store's contents.

    Sizes are in bytes. `samples` counts activity samples in hourly blocks; `states` counts runs of equal
    values.
    """

    path: Path
    size: int
    wal_size: int
    schema_version: int
    storage_version: str
    samples: int
    states: int
    tables: list[TableInfo]
    sources: list[SourceInfo]
    dropped: list[DroppedInfo]


_TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY table_name"
_STORAGE_VERSION = """
SELECT coalesce(any_value(tags['storage_version']), 'unknown') FROM duckdb_databases() WHERE database_name = current_database()"""
# the period begins with data, if there ever was any
_SOURCES = """
SELECT kind, source, count(*), epoch_ms(coalesce(min(from_ms) FILTER (rows + dropped > 0), min(from_ms)))::TIMESTAMPTZ,
    epoch_ms(max(to_ms))::TIMESTAMPTZ, sum(rows)::BIGINT, sum(dropped)::BIGINT, max(loaded_at)::TIMESTAMPTZ
FROM loads
GROUP BY kind, source
ORDER BY kind, source"""
_DROPPED = """
SELECT source, reason, metric, sum(samples)::BIGINT FROM dropped_samples
GROUP BY source, reason, metric
ORDER BY source, reason, metric"""


def read(con: DuckDBPyConnection, path: Path) -> StoreInfo:
    """Read a StoreInfo from an open store."""
    rows = {name: value(con, f'SELECT count(*) FROM "{name}"') for name in column(con, _TABLES)}  # noqa: S608
    wal = path.with_name(path.name + ".wal")
    return StoreInfo(
        path=path,
        size=path.stat().st_size,
        wal_size=wal.stat().st_size if wal.exists() else 0,
        schema_version=current_version(con),
        storage_version=value(con, _STORAGE_VERSION),
        samples=value(con, "SELECT coalesce(sum(samples), 0)::BIGINT FROM blocks"),
        states=rows["states"],
        tables=[TableInfo(*table) for table in rows.items()],
        sources=[SourceInfo(*row) for row in con.execute(_SOURCES).fetchall()],
        dropped=[DroppedInfo(*row) for row in con.execute(_DROPPED).fetchall()],
    )
