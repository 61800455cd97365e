"""The store file: who may open it, and what survives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from gpucost.errors import StoreError, UsageError
from gpucost.store.connection import Store
from gpucost.store.schema import latest_version

pytestmark = pytest.mark.usefixtures("own_migrations")

HOLD = """
import sys, time
from pathlib import Path
from gpucost.store import Store
with Store(Path(sys.argv[1])).write() as con:
    con.execute("INSERT INTO cuts VALUES (2)")
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.fixture(scope="module")
def only_read(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("read") / "a.duckdb")
    write_a_row(store, 1)
    return store


@pytest.fixture
def store(tmp_path: Path, only_read: Store) -> Store:
    return Store(shutil.copyfile(only_read.path, tmp_path / "a.duckdb"))


def test_a_missing_store_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store") as caught, Store(tmp_path / "none").read():
        pass
    assert caught.value.fix == "gpucost collect prometheus"


def test_an_exception_rolls_back(store: Store) -> None:
    def fail() -> None:
        with store.write() as con:
            con.execute("INSERT INTO cuts VALUES (2)")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.query("SELECT at_ms FROM cuts") == (["at_ms"], [(1,)])


def test_a_failed_statement_shows_its_own_error(store: Store) -> None:
    with pytest.raises(duckdb.BinderException), store.write() as con:
        con.execute("SELECT nothing_like_it FROM cuts")


def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="read-only"):
        store.query("DELETE FROM cuts")


def test_waits_for_another_program_to_finish(store: Store) -> None:
    other = hold(store.path, 0.5)
    assert store.query("SELECT count(*) FROM cuts")[1] == [(2,)]
    assert other.wait() == 0


def test_who_holds_the_file_is_named_and_killed_leaves_nothing_but_what_it_committed(store: Store) -> None:
    other = hold(store.path, 30)
    try:
        with pytest.raises(StoreError, match=rf"in use by .*python.* \(PID {other.pid}\)"), Store(store.path, 0.2).write():
            pass
    finally:
        other.kill()
        other.wait()
    assert store.query("SELECT at_ms FROM cuts")[1] == [(1,)]
    script = (
        "import duckdb, os, signal, sys; con = duckdb.connect(sys.argv[1]);"
        "con.execute('INSERT INTO cuts VALUES (3)'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(store.path)], check=False)
    assert store.query("SELECT at_ms FROM cuts ORDER BY 1")[1] == [(1,), (3,)]


def test_files_that_are_no_store(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign.duckdb"
    text.write_text("not a database\n" * 1000)
    with duckdb.connect(str(foreign)) as con:
        con.execute("CREATE TABLE theirs (a INTEGER)")
    for path, message in (
        (text, "cannot be opened as a store"),
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "where", "no directory"),
        (foreign, "not a gpucost store"),
    ):
        with pytest.raises(StoreError, match=message), Store(path).write():
            pass


@pytest.mark.parametrize("part", [0.5, 0.9, 0.999])
def test_a_store_that_was_cut_short_is_refused_and_not_touched(store: Store, part: float) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts SELECT (hash(range) >> 2)::BIGINT FROM range(200000)")
    left = store.path.read_bytes()[: int(store.path.stat().st_size * part)]
    store.path.write_bytes(left)
    for use in (store.info, lambda: store.query("SELECT sum(at_ms) FROM cuts"), lambda: write_a_row(store)):
        with pytest.raises(StoreError, match=f"the store {store.path} is damaged: ") as caught:
            use()
        assert caught.value.fix is not None and caught.value.fix.startswith("restore a copy")
    assert store.path.read_bytes() == left


def test_a_block_that_is_damaged_is_said_where_it_is_read(store: Store) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts SELECT (hash(range) >> 2)::BIGINT FROM range(200000)")
    with store.read() as con:
        (block,) = con.execute("SELECT max(block_id) FROM pragma_storage_info('cuts')").fetchall()[0]
    with store.path.open("r+b") as file:
        file.seek(3 * 4096 + block * 262144 + 1000)
        file.write(b"\xff" * 5000)
    with pytest.raises(StoreError, match="is damaged"):
        store.query("SELECT sum(at_ms) FROM cuts")
    with pytest.raises(StoreError, match="is damaged"), store.write() as con:
        con.execute("CREATE TEMP TABLE copied AS FROM cuts")


def test_a_store_that_gave_space_back_is_not_damaged(store: Store) -> None:
    with store.write() as con:
        con.execute("CREATE TABLE much AS SELECT hash(range) AS a FROM range(500000)")
    with store.write() as con:
        con.execute("DROP TABLE much")
    for at in (2, 3):
        write_a_row(store, at)
    assert store.query("SELECT at_ms FROM cuts ORDER BY 1")[1] == [(1,), (2,), (3,)]


def write_a_row(store: Store, at: int = 2) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts VALUES ($1)", [at])


WRITE = """
import sys
from pathlib import Path
from gpucost.errors import StoreError
from gpucost.store import Store
try:
    with Store(Path(sys.argv[1])).write() as con:
        con.execute("INSERT INTO cuts VALUES (2)")
except StoreError as error:
    print(error.message, error.fix, sep="\\n")
"""


def test_a_directory_that_cannot_be_written(store: Store) -> None:
    # root may write anywhere, unless it gives that up
    as_anybody = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    store.path.parent.chmod(0o555)
    try:
        output = subprocess.check_output([*as_anybody, sys.executable, "-c", WRITE, str(store.path)], text=True)
    finally:
        store.path.parent.chmod(0o755)
    message, fix = output.splitlines()
    assert message == f"cannot write the store {store.path}: permission denied"
    assert str(store.path.parent) in fix
    assert store.query("SELECT at_ms FROM cuts")[1] == [(1,)]


@pytest.mark.parametrize("sql", ["", " ;", "-- nothing", "SELECT 1; SELECT 2"])
def test_one_statement_is_answered(only_read: Store, sql: str) -> None:
    with pytest.raises(UsageError, match="statement"):
        only_read.query(sql)


@pytest.mark.parametrize("sql", ["CREATE TEMP TABLE a (b INTEGER)", "CHECKPOINT", "SET threads = 1", "BEGIN", "LOAD parquet"])
def test_statements_that_do_more_than_read_are_refused(only_read: Store, sql: str) -> None:
    with pytest.raises(StoreError, match="read-only"):
        only_read.query(sql)


@pytest.mark.parametrize(
    "sql",
    ["FROM cuts", "VALUES (1)", "SHOW TABLES", "DESCRIBE cuts", "SUMMARIZE cuts", "EXPLAIN FROM cuts", "PRAGMA version",
     "WITH a AS (FROM cuts) FROM a;", "PIVOT cuts ON at_ms USING count(*)"],
)  # fmt: skip
def test_statements_that_read(only_read: Store, sql: str) -> None:
    assert only_read.query(sql)[1]


def test_a_store_of_a_newer_program_is_refused(store: Store) -> None:
    with store.write() as con:
        con.execute("INSERT INTO schema_version VALUES (9999, 'later', now()::TIMESTAMP)")
    with pytest.raises(StoreError, match="newer gpucost") as caught, store.read():
        pass
    assert caught.value.fix == "pip install --upgrade gpucost"


def test_info_says_what_there_is(store: Store) -> None:
    info = store.info()
    assert info.schema_version == latest_version()
    assert info.storage_version.startswith("v1.4")
    assert info.size > 0 and info.samples == 0 and info.sources == []
    assert {"series", "states", "blocks", "loads"} <= {table.name for table in info.tables}
