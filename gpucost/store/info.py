"""What a store holds, by source, period and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.model import from_ms
from gpucost.store import migrate, sqlfiles

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    import duckdb


@dataclass(frozen=True, slots=True)
class TableInfo:
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One source's loads: how many, the period they span (a hole inside is possible), and what they took in."""

    kind: str
    source: str
    loads: int
    start: datetime
    end: datetime
    rows: int
    dropped: int
    last_loaded_at: datetime


@dataclass(frozen=True, slots=True)
class DroppedInfo:
    """Samples of a metric that were left out as impossible: reason is 'nan', 'sentinel' or 'out_of_range'."""

    source: str
    reason: str
    metric: str
    samples: int


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Sizes are in bytes. `samples` counts the activity samples in hour blocks; `states` the runs of equal values."""

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


def read(con: duckdb.DuckDBPyConnection, path: Path) -> StoreInfo:
    """Reads a StoreInfo from an open store."""
    names = [
        str(row[0])
        for row in con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY table_name"
        ).fetchall()
    ]
    tables = [TableInfo(name, con.table(name).count("*").fetchall()[0][0]) for name in names]
    samples = con.execute("SELECT coalesce(sum(samples), 0)::BIGINT FROM blocks").fetchall()[0][0]
    storage = con.execute(
        "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchall()[0][0]
    wal = path.with_name(path.name + ".wal")
    return StoreInfo(
        path=path,
        size=path.stat().st_size,
        wal_size=wal.stat().st_size if wal.exists() else 0,
        schema_version=migrate.current_version(con),
        storage_version=str(storage or "unknown"),
        samples=int(samples),
        states=next((t.rows for t in tables if t.name == "states"), 0),
        tables=tables,
        sources=[
            SourceInfo(kind, source, loads, from_ms(start), from_ms(end), rows, dropped, loaded_at)
            for kind, source, loads, start, end, rows, dropped, loaded_at in sqlfiles.run(con, "sources").fetchall()
        ],
        dropped=[DroppedInfo(*row) for row in sqlfiles.run(con, "dropped").fetchall()],
    )
