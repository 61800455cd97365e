"""The store file: who may open it, and what survives."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from gpucost.errors import StoreError
from gpucost.store import Store
from gpucost.store.migrate import latest_version

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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "a.duckdb")
    with made.write() as con:
        con.execute("INSERT INTO cuts VALUES (1)")
    return made


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


def test_names_the_program_that_holds_the_file(store: Store) -> None:
    other = hold(store.path, 30)
    try:
        with pytest.raises(StoreError, match=rf"in use by .*python.* \(PID {other.pid}\)"), Store(store.path, 0.2).write():
            pass
    finally:
        other.kill()
        other.wait()


def test_kill_leaves_nothing_of_an_unfinished_transaction(store: Store) -> None:
    other = hold(store.path, 30)
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert store.query("SELECT at_ms FROM cuts")[1] == [(1,)]


def test_kill_after_commit_loses_nothing(store: Store) -> None:
    script = (
        "import duckdb, os, signal, sys; con = duckdb.connect(sys.argv[1]);"
        "con.execute('INSERT INTO cuts VALUES (3)'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(store.path)], check=False)
    assert store.query("SELECT at_ms FROM cuts ORDER BY 1")[1] == [(1,), (3,)]


def test_files_that_are_no_store(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database\n" * 1000)
    with pytest.raises(StoreError, match="cannot be opened as a store"), Store(text).read():
        pass
    with pytest.raises(StoreError, match="is a directory"), Store(tmp_path).write():
        pass
    with pytest.raises(StoreError, match="no directory"), Store(tmp_path / "no" / "where").write():
        pass
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(str(foreign)) as con:
        con.execute("CREATE TABLE theirs (a INTEGER)")
    with pytest.raises(StoreError, match="not a gpucost store"), Store(foreign).write():
        pass


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


def test_every_sql_file_says_what_it_reads_writes_and_keeps() -> None:
    files = sorted((Path(__file__).parents[2] / "gpucost" / "store").rglob("*.sql"))
    assert files
    for file in files:
        lines = file.read_text().splitlines()
        for line, word in zip(lines, ("reads", "writes", "invariant"), strict=False):
            assert line.startswith(f"-- {word}: "), f"{file}: {line}"
