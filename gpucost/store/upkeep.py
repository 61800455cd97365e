"""Upkeep of a store: rewriting, copying and checking it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpucost import disk
from gpucost.errors import StoreError, UsageError
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store.connection import STORED, Store, check_room, confine
from gpucost.store.sqlfiles import column, value

# Rows are stored in reading order: week by week, and series by series within. Other tables keep their order.
_ORDER = {"blocks": "hour // 168, series_id, hour", "states": "series_id, first_ms"}
_TABLES = """
SELECT table_name FROM duckdb_tables() WHERE database_name = $1 AND NOT internal AND NOT temporary ORDER BY table_name"""


# A smaller file is not worth the work.
_LEAST_BYTES = 64 * 2**20
_COMPACTED = """
SELECT (SELECT count(*) FROM loads WHERE from_ms < $1), coalesce(max(at_ms), 0) FROM compactions WHERE sealed_until_ms IS NULL"""


def is_due(store: Store, month_ms: int) -> bool:
    """Whether the store is large, has data from before this month, and was not rewritten since.

    The month began at `month_ms`.
    """
    if not store.exists or store.path.stat().st_size < _LEAST_BYTES:
        return False
    with store.read() as con:
        older, newest = con.execute(_COMPACTED, [month_ms]).fetchall()[0]
    return bool(older) and newest < month_ms


def rewrite(store: Store) -> None:
    """Rewrite the store: each table in reading order, without the space of replaced rows.

    The new file replaces the old one when it is complete and has equal contents; until then, the store is
    locked for writing. Raises StoreError if the store is missing, or if there is not enough space for a
    second one next to it.
    """
    with store.write():  # merges the log that a killed process left
        pass
    path = store.path.resolve()
    with _copied(path, path, "compact") as (con, part, inode):
        con.execute("INSERT INTO compactions VALUES (epoch_ms(now()), NULL)")
        con.execute("CHECKPOINT")
        shutil.copymode(path, part)
        if path.stat().st_ino != inode:
            raise StoreError(
                f"the store {path} was replaced meanwhile, perhaps compacted by another run", "try again"
            )
        # while the old one is locked for writing
        disk.move_into_place(part, path)


def backup(store: Store, target: Path) -> None:
    """Write a copy of the store at one moment to `target`, while others read it.

    All data is read and checked on the way. Raises StoreError if the store is missing, or if there is not
    enough space for the copy.
    """
    with store.read():  # it exists, and has this version
        pass
    path = store.path.resolve()
    if target.exists() and target.samefile(path):
        raise UsageError(f"{target} is the store itself", "name another file")
    if target.exists() and not target.is_file():
        raise UsageError(
            f"{target} is {'a directory' if target.is_dir() else 'not a regular file'}", "name a file"
        )
    with disk.private(store.mode), _copied(path, target, "back up") as (con, part, _):
        con.execute("CHECKPOINT")
        # a log of an earlier file does not belong to this copy
        target.with_name(f"{target.name}.wal").unlink(missing_ok=True)
        disk.move_into_place(part, target)


@contextmanager
def _copied(path: Path, target: Path, verb: str) -> Iterator[tuple[DuckDBPyConnection, Path, int]]:
    """An open copy of the store at `path` next to `target`, and the inode of the store's file.

    The store is locked for writing in this block; a copy that the block does not move is removed.
    """
    import duckdb

    try:
        check_room(path, target.parent, f"cannot {verb} the store {path}")
        with disk.workplace(target.parent) as folder:
            part = folder / "store"
            with duckdb.connect(str(part), config=STORED) as con:
                confine(con, folder, path.parent)
                yield con, part, _copy(con, path)
    except OSError as error:
        raise StoreError(
            f"cannot {verb} the store {path}: {target.parent}: {error.strerror or error}"
        ) from error
    except duckdb.Error as error:
        raise StoreError(
            f"cannot {verb} the store {path}: {error}", "gpucost store check tests the store"
        ) from error


def _copy(con: DuckDBPyConnection, path: Path) -> int:
    """Fill the database of `con` with the contents of the store at `path`; return its inode."""
    into = value(con, "SELECT current_database()")
    old, quoted = f"{into}_before", str(path).replace("'", "''")
    con.execute(f"ATTACH '{quoted}' AS \"{old}\" (READ_ONLY)")
    inode = path.stat().st_ino
    con.execute(f'COPY FROM DATABASE "{old}" TO "{into}" (SCHEMA)')
    con.execute("SET memory_limit = '700MB'")
    for table in column(con, _TABLES, [old]):
        order = f" ORDER BY {_ORDER[table]}" if table in _ORDER else ""
        con.execute(f'INSERT INTO "{table}" FROM "{old}"."{table}"{order}')
        if _digest(con, f'"{table}"') != _digest(con, f'"{old}"."{table}"'):
            raise StoreError(f"the table {table} of the store {path} was not copied completely", "try again")
    return inode


def _digest(con: DuckDBPyConnection, table: str) -> list[tuple[int, int | None]]:
    return con.execute(f"SELECT count(*), bit_xor(hash(t)) FROM {table} AS t").fetchall()  # noqa: S608 - names of our own


@frozen_dataclass
class StoreCheck:
    """The result of one check: number of wrong rows and the first of them.

    `is_made` is false if the check could not be made; then `example` has the reason.
    """

    what: str
    wrong: int
    example: str | None
    is_made: bool = True


# Conditions that hold in every store, with the rows that violate them, each as a text.
_INVARIANTS = {
    "each hourly block is consistent": """
        SELECT format('series {}, hour {}', series_id, hour) FROM blocks
        WHERE samples < 1 OR first_offset_ms > last_offset_ms OR last_offset_ms >= 3600000 OR idle_samples > samples
            OR len(vals) <> samples OR vals[-1] <> last_value OR len(offsets_ms) <> samples
            OR abs(list_sum(vals) - value_sum) > 1e-9 * greatest(1, abs(value_sum))
            OR len(list_filter(vals[:-2], lambda v: v < idle_threshold)) <> idle_samples""",
    "a series has one block an hour": """
        SELECT format('series {}, hour {}', series_id, hour) FROM blocks GROUP BY series_id, hour HAVING count(*) > 1""",
    "each series is stored once": "SELECT format('key {}', key) FROM series GROUP BY key HAVING count(*) > 1",
    "samples belong to known series": """
        SELECT format('series {}', series_id)
        FROM (SELECT series_id FROM blocks UNION SELECT series_id FROM states) ANTI JOIN series USING (series_id)""",
    "states do not overlap": """
        SELECT format('series {} at {}', series_id, epoch_ms(first_ms)) FROM states
        QUALIFY last_ms < first_ms OR first_ms <= lag(last_ms) OVER (PARTITION BY series_id ORDER BY first_ms)""",
    "a bill has the rows it was loaded with": """
        SELECT format('{} of {}', b.source, b.billing_period)
        FROM bills AS b
        LEFT JOIN (SELECT bill_id, count(*) AS rows FROM bill_rows GROUP BY bill_id) AS r USING (bill_id)
        WHERE b.rows <> coalesce(r.rows, 0)""",
    "a node-hour's charges equal its cost, exactly": """
        SELECT format('node {} at {}', n.node_id, epoch_ms(n.from_ms))
        FROM node_runs AS n
        FULL JOIN (SELECT node_id, from_ms, hours, sum(cost) AS cost FROM cost_runs GROUP BY ALL) AS c
            USING (node_id, from_ms, hours)
        WHERE n.node_cost IS DISTINCT FROM c.cost""",
    "measured time is within allocated time": """
        SELECT format('allocation {} at {}', a.allocation_id, epoch_ms(a.from_ms))
        FROM activity_hours AS a
        LEFT JOIN cost_runs AS c ON c.allocation_id = a.allocation_id AND c.from_ms = a.run_from_ms
        WHERE (a.idle_gpu_ms <= a.measured_gpu_ms AND a.measured_gpu_ms <= c.gpu_ms + 1e-3
            AND a.idle_cost <= c.cost) IS NOT TRUE""",
    "days are the sums of their hours, exactly": """
        SELECT format('node {} on {}', d.node_id, epoch_ms(d.from_ms))
        FROM (
            SELECT from_ms, to_ms, node_id, sum(cost + unallocated_cost + not_collected_cost) AS cost FROM cost_daily GROUP BY ALL
        ) AS d
        JOIN attributed_days AS a USING (from_ms, to_ms)
        LEFT JOIN cost_runs AS c ON c.node_id = d.node_id AND c.from_ms >= d.from_ms AND c.from_ms < d.to_ms
        GROUP BY d.node_id, d.from_ms, d.cost
        HAVING d.cost IS DISTINCT FROM sum(c.hours * c.cost)""",
    "costs belong to known nodes and pods": """
        SELECT format('node {} at {}', c.node_id, epoch_ms(c.from_ms))
        FROM cost_runs AS c
        LEFT JOIN nodes AS n USING (node_id)
        LEFT JOIN allocations AS a USING (allocation_id)
        WHERE n.node_id IS NULL OR (c.allocation_id IS NOT NULL AND a.allocation_id IS NULL)""",
}


def check(con: DuckDBPyConnection) -> Iterator[StoreCheck]:
    """Read every page of the store, one table at a time, then check its invariants.

    Raises duckdb.Error for a damaged page, which an open store reports as StoreError.
    """
    for table in column(con, _TABLES, [value(con, "SELECT current_database()")]):
        # DuckDB verifies the checksum of each block that it reads
        _digest(con, f'"{table}"')
    yield StoreCheck("every page can be read", 0, None)
    for what, statement in _INVARIANTS.items():
        wrong, example = con.execute(f"SELECT count(*), min(row) FROM ({statement}) AS t (row)").fetchall()[0]  # noqa: S608
        yield StoreCheck(what, wrong, example)
