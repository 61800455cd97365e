"""The store file: access, locks, and its state after failures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest

from gpucost.errors import StoreError, UsageError
from gpucost.installation import upgrade
from gpucost.store import connection
from gpucost.store.connection import Store

pytestmark = pytest.mark.usefixtures("own_migrations")

HOLD = """
import sys, time
from pathlib import Path
from gpucost.store.connection import Store
with Store(Path(sys.argv[1])).write() as con:
    con.execute("INSERT INTO cuts VALUES (2)")
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def only_read(module_path: Path) -> Store:
    store = Store(module_path / "a.duckdb")
    write_a_row(store, 1)
    return store


@pytest.fixture
def store(tmp_path: Path, only_read: Store) -> Store:
    return Store(shutil.copyfile(only_read.path, tmp_path / "a.duckdb"))


def test_missing_store_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="store not found") as caught, Store(tmp_path / "none").read():
        pass
    assert caught.value.fix == "gpucost collect prometheus"


def test_exception_rolls_back_and_failed_statement_keeps_its_error(store: Store) -> None:
    with pytest.raises(duckdb.BinderException), store.write() as con:
        con.execute("INSERT INTO cuts VALUES (2); SELECT nothing_like_it FROM cuts")
    assert store.query("SELECT at_ms FROM cuts") == (["at_ms"], [(1,)])


def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="read-only"):
        store.query("DELETE FROM cuts")


def test_process_with_the_lock_is_named_and_others_wait(store: Store) -> None:
    words = [sys.executable, "-c", HOLD, str(store.path), "1"]
    other = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    held = rf"in use by .*python.* \(PID {other.pid}\)"
    with pytest.raises(StoreError, match=held), Store(store.path, 0).write():
        pass
    assert store.query("SELECT count(*) FROM cuts")[1] == [(2,)]
    assert other.wait() == 0


def test_replaced_file_is_not_written_to(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the file is opened, `store compact` replaces it, or a failed first writer removes it."""
    connect, changes = duckdb.connect, ["compacted"]

    def late(path: str, **options: Any) -> duckdb.DuckDBPyConnection:
        con = connect(path, **options)
        if changes:
            shutil.copyfile(path, f"{path}.new")
            Path(path).unlink()
            if changes.pop() == "compacted":
                Path(f"{path}.new").rename(path)
        return con

    monkeypatch.setattr(duckdb, "connect", late)
    write_a_row(store)
    with store.read() as con:
        assert con.execute("FROM cuts ORDER BY ALL").fetchall() == [(1,), (2,)]
    for path in (store.path, store.path.with_name("new.duckdb")):
        changes.append("removed")
        with pytest.raises(StoreError, match="cannot reach the store"):
            write_a_row(Store(path))


@pytest.mark.parametrize(
    "reason",
    ["File locks are not supported for this file system, cannot open the file in read-write mode.", "No locks available.",
     "Function not implemented.", "Invalid argument."],
)  # fmt: skip
def test_file_system_without_locks_is_refused_at_once(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's messages if fcntl cannot set a lock: no process holds the file, so waiting is pointless."""

    error = duckdb.IOException(f"IO Error: Could not set lock on file: {reason} See also https://duckdb.org")
    monkeypatch.setattr(duckdb, "connect", Mock(side_effect=error))
    begun = time.monotonic()
    with pytest.raises(StoreError) as caught:
        write_a_row(Store(tmp_path / "a.duckdb"))
    assert "has no locks" in caught.value.message and caught.value.fix == "name another file with --store"
    assert time.monotonic() - begun < 5


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign.duckdb"
    text.write_text("not a database\n" * 1000)
    with duckdb.connect(str(foreign)) as con:
        con.execute("CREATE TABLE theirs (a INTEGER)")
    files = {"cannot be opened as a store": text, "is a directory": tmp_path, "directory not found": tmp_path / "no" / "where",
             "not a gpucost store": foreign}  # fmt: skip
    for message, path in files.items():
        with pytest.raises(StoreError, match=message), Store(path).write():
            pass


def test_truncated_store_is_refused_and_unchanged(store: Store) -> None:
    fill(store)
    left = store.path.read_bytes()[: int(store.path.stat().st_size * 0.999)]
    store.path.write_bytes(left)
    for use in (store.info, lambda: store.query("SELECT sum(at_ms) FROM cuts"), lambda: write_a_row(store)):
        with pytest.raises(StoreError, match=f"the store {store.path} is damaged: ") as caught:
            use()
        assert caught.value.fix is not None and caught.value.fix.startswith("restore a copy")
    assert store.path.read_bytes() == left


def test_damaged_block_is_reported_on_reading(store: Store) -> None:
    fill(store)
    with store.read() as con:
        (block,) = con.execute("SELECT max(block_id) FROM pragma_storage_info('cuts')").fetchall()[0]
    with store.path.open("r+b") as file:
        file.seek(3 * 4096 + block * 262144 + 1000)
        file.write(b"\xff" * 5000)
    with pytest.raises(StoreError, match="is damaged"):
        store.query("SELECT sum(at_ms) FROM cuts")
    with pytest.raises(StoreError, match="is damaged"), store.write() as con:
        con.execute("CREATE TEMP TABLE copied AS FROM cuts")


def test_store_with_freed_space_is_not_damaged(store: Store) -> None:
    fill(store)
    with store.write() as con:
        con.execute("DELETE FROM cuts WHERE at_ms > 9")
    for at in (2, 3):
        write_a_row(store, at)
    assert store.query("SELECT at_ms FROM cuts ORDER BY 1")[1] == [(1,), (2,), (3,)]


def write_a_row(store: Store, at: int = 2) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts VALUES ($1)", [at])


def fill(store: Store) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts SELECT 10 + hash(range) // 4 FROM range(200000)")


@pytest.mark.parametrize("sql", ["", " ;", "-- nothing", "SELECT 1; SELECT 2"])
def test_exactly_one_statement_is_accepted(only_read: Store, sql: str) -> None:
    with pytest.raises(UsageError, match="statement"):
        only_read.query(sql)


COPY = "WITH x AS (COPY cuts TO '{file}') FROM x"
SERIALIZED = """FROM json_execute_serialized_sql('{{"statements":[{{"node":{{"type":"SELECT_NODE","modifiers":[]}}}}]}}')"""


REFUSED = f"""
CREATE TEMP TABLE a (b INTEGER)
CHECKPOINT
SET threads = 1
BEGIN
LOAD parquet
PRAGMA version
CALL pragma_version()
PIVOT cuts ON at_ms USING count(*)
COPY cuts TO '{{file}}'
EXPLAIN COPY cuts TO '{{file}}'
EXPLAIN ANALYZE COPY cuts TO '{{file}}'
/* a */ explain /* b */ (analyze, format json) COPY cuts TO '{{file}}'
EXPLAIN ANALYZE FROM cuts
{COPY}
EXPLAIN {COPY}
DESCRIBE {COPY}
SUMMARIZE {COPY}
FROM ({COPY})
WITH a AS (DELETE FROM cuts RETURNING at_ms) FROM a
{SERIALIZED}
{SERIALIZED.replace("json", "JSON")}
SELECT (FROM query('FROM json_exec' || 'ute_serialized_sql(''{{{{}}}}'')'))"""  # noqa: S608


@pytest.mark.parametrize("sql", REFUSED.strip().splitlines())
def test_statements_with_side_effects_are_refused(
    only_read: Store, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a file that the connection can see, and its own file
    catalog = only_read.path.with_name("prices.csv")
    monkeypatch.setattr(connection, "pricing_dir", lambda: only_read.path.parent)
    for file in (catalog, only_read.path):
        catalog.write_text("as it was")
        before = file.read_bytes()
        with only_read.read(), pytest.raises(StoreError, match="read-only"):
            only_read.query(sql.format(file=file))
        assert file.read_bytes() == before


READING = """
FROM cuts
VALUES (1)
SHOW TABLES
DESCRIBE cuts
SUMMARIZE cuts
EXPLAIN FROM cuts
TABLE cuts
WITH a AS (FROM cuts) FROM a;
PIVOT cuts ON at_ms IN (1) USING count(*)
WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a WHERE n < 3) FROM a UNION SELECT 9
SELECT '"type":"COPY_QUERY_NODE"'"""


@pytest.mark.parametrize("sql", [*READING.strip().splitlines(), "-- a\nexplain SELECT 1 -- b"])
def test_reading_statements_are_accepted(only_read: Store, sql: str) -> None:
    assert only_read.query(sql)[1]


@pytest.mark.parametrize(
    "sql", [COPY, "WITH a AS (INSERT INTO cuts VALUES (1) RETURNING at_ms) FROM a UNION SELECT 1"]
)
def test_write_inside_with_is_found_in_any_storage_version(sql: str) -> None:
    """DuckDB does not serialize this statement for the store's version, but does for later versions."""
    with duckdb.connect() as con:
        ((parsed,),) = con.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()
    assert connection._NOT_READING.search(parsed) is not None


def test_statement_sees_no_folder_and_ends_in_time(only_read: Store) -> None:
    ((folders,),) = only_read.query("SELECT current_setting('allowed_directories')")[1]
    assert folders == [f"{only_read.path}.tmp/"]
    ended = r"^the statement took longer than 0\.1 s and was ended$"
    with pytest.raises(StoreError, match=ended):
        Store(only_read.path, statement_seconds=0.1).query("SELECT sleep_ms(20) FROM range(100)")


def test_store_of_a_newer_program_is_refused(store: Store) -> None:
    with duckdb.connect(str(store.path)) as con:
        con.execute("INSERT INTO schema_version VALUES (9999, 'later', now()::TIMESTAMP)")
    with pytest.raises(StoreError, match="newer gpucost") as caught, store.read():
        pass
    assert caught.value.fix == upgrade()


@pytest.mark.parametrize("written", [b"", b"DU", b"\0" * 8 + b"DUCK" + b"\0" * 8180])
def test_remains_of_a_failed_start_are_removed(
    written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "new.duckdb")

    def fail(path: str, **_: object) -> None:
        Path(path).write_bytes(written)
        raise duckdb.IOException("IO Error: Could not write file: Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(duckdb, "connect", fail)
        with pytest.raises(StoreError), store.write():
            pass
    assert not store.exists
    with store.write():
        pass
    # a file that existed before is kept with any content
    there = Store(tmp_path / "there.duckdb")
    there.path.write_bytes(b"mine")
    with pytest.raises(StoreError), there.write():
        pass
    assert there.path.read_bytes() == b"mine"


@pytest.mark.usefixtures("opened_anew")
def test_threads_of_a_process_read_concurrently(store: Store, tmp_path: Path) -> None:
    def read(_: int) -> object:
        with store.read(tmp_path) as con:
            return con.execute("SELECT count(*) FROM cuts").fetchall()[0][0]

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(40))) == {1}
    impatient = Store(store.path, wait_seconds=0)
    refused = pytest.raises(StoreError, match=rf"in use by this process \(PID {os.getpid()}\)")
    with store.read(), impatient.read(), refused, impatient.read(tmp_path):
        pass
    with impatient.read(tmp_path):
        pass
