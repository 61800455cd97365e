"""Which stores are checked on opening, and which stages are skipped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from gpucost import attribute, engine
from gpucost.store import schema
from gpucost.store.connection import Store
from tests.unit import billed_fleets
from tests.unit.test_price_bill_fleets import Billed


@pytest.fixture
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of the stores whose objects were checked."""
    seen: list[Path] = []
    own = schema.objects_digest

    def digest(con: duckdb.DuckDBPyConnection) -> str:
        seen.append(
            Path(con.execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()[0][0])
        )
        return own(con)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(schema, "objects_digest", digest)
    monkeypatch.setattr(schema, "_CHECKED", set())
    return seen


@pytest.fixture
def store(checks: list[Path], tmp_path: Path) -> Store:
    made = Store(tmp_path / "store.duckdb")
    with made.write():
        pass
    checks.clear()
    schema._CHECKED.clear()
    return made


def opened(store: Store) -> None:
    schema._CHECKED.clear()  # as in a new process
    with store.read():
        pass


def test_store_written_by_gpucost_is_not_checked_again(store: Store, checks: list[Path]) -> None:
    opened(store)
    with store.write() as con:
        con.execute("INSERT INTO cuts VALUES (1)")
    opened(store)
    assert not checks


def copied(store: Store) -> None:
    copy = store.path.with_name("copy")
    copy.write_bytes(store.path.read_bytes())
    copy.replace(store.path)


def readable(store: Store) -> None:
    for file in (store.path.parent / "cache" / "gpucost").iterdir():
        file.chmod(0o622)


def logged(store: Store) -> None:
    store.path.with_name(f"{store.path.name}.wal").touch()


@pytest.mark.parametrize("change", [copied, readable, logged])
def test_store_is_checked_if_it_or_its_cache_may_be_foreign(
    change: Callable[[Store], None], store: Store, checks: list[Path]
) -> None:
    """A replaced file; a cache that others may write; a log next to the store."""
    change(store)
    opened(store)
    assert checks == [store.path]


def test_unwritable_cache_folder_is_not_an_error(
    store: Store, checks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    opened(store)
    assert checks == [store.path]


def test_store_is_checked_again_by_another_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert schema.is_trusted(store.path)
    monkeypatch.setattr(schema, "latest_version", lambda: 9999)
    assert not schema.is_trusted(store.path)


def test_stage_without_input_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """`only with` in a header lists tables of which at least one must have rows."""
    head = "-- reads: a, b\n-- writes: c\n-- invariant: none\n-- only with: a, b\n"
    monkeypatch.setattr(engine, "text", lambda *_: f"{head}INSERT INTO c SELECT 1;")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE a (i INT); CREATE TABLE b (i INT); CREATE TABLE c (i INT)")
        for filled, expected in (("c SELECT 1 LIMIT 0", []), ("b VALUES (1)", [(1,)])):
            con.execute(f"INSERT INTO {filled}")
            engine.run_stage(con, "", "")
            assert con.execute("FROM c").fetchall() == expected


STATEMENTS = """\
-- reads: a
-- writes: b, c
-- invariant: none
CREATE OR REPLACE TEMP TABLE b AS FROM a;

-- only with: b
-- otherwise: c (i INT, word VARCHAR)
CREATE OR REPLACE TEMP TABLE c AS SELECT i, 'one' AS word FROM b;
"""


def test_statement_without_input_makes_an_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """`only with` above a statement; a table that changed is looked at again."""
    monkeypatch.setattr(engine, "text", lambda *_: STATEMENTS)
    filled: dict[str, bool] = {}
    with duckdb.connect() as con:
        con.execute("CREATE TABLE a (i INT)")
        for rows, expected in ((0, []), (1, [(0, "one")]), (0, [])):
            con.execute("DELETE FROM a")
            con.execute("INSERT INTO a SELECT range FROM range($1)", [rows])
            engine.run_stage(con, "", "", filled=filled)
            assert con.execute("SELECT i, word FROM c").fetchall() == expected


def columns(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """The types of a query's columns, without the comments after it; parameters are numbers."""
    query = re.sub(r"\$\w+", "0", re.sub(r";\s*(--[^\n]*\s*)*$", "", query))
    rows = con.execute(f"DESCRIBE SELECT * FROM ({query})").fetchall()  # noqa: S608
    return {name: kind for name, kind, *_ in rows}


def test_empty_tables_of_skipped_statements_have_the_columns_of_the_query(
    billed_fleet: Billed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[str] = []
    own = attribute.finish

    def compare(con: duckdb.DuckDBPyConnection) -> None:
        for path in sorted(Path(engine.__file__).parents[1].rglob("*.sql")):
            text = path.read_text(encoding="utf-8")
            for line in re.findall("^-- otherwise: (.*)$", text, re.MULTILINE):
                name = line.partition(" ")[0]
                head = f"CREATE OR REPLACE TEMP TABLE {name} AS\n"
                (made,) = (one.query for one in duckdb.extract_statements(text) if one.query.startswith(head))
                con.execute(f"CREATE OR REPLACE TEMP TABLE declared{line.removeprefix(name)}")
                # of a table whose other columns only skipped stages read
                if not columns(con, "FROM declared").items() <= columns(con, made.removeprefix(head)).items():
                    wrong.append(f"{path}: {name}")
        own(con)

    monkeypatch.setattr(attribute, "finish", compare)
    monkeypatch.setattr(attribute, "_DROP_LARGE", "SELECT 1")
    billed_fleets.copied(billed_fleet, tmp_path, "as_billed")
    assert not wrong
