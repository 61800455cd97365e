"""A store file is not trusted: its mode, foreign objects, macros that replace built-ins, and reachable files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from gpucost.errors import StoreError
from gpucost.store import schema
from gpucost.store.connection import Store
from gpucost.store.schema import latest_version
from tests.text_tables import text_rows

pytestmark = [pytest.mark.usefixtures("own_migrations"), pytest.mark.ci]


def write_a_row(store: Store) -> None:
    with store.write() as con:
        con.execute("INSERT INTO cuts VALUES (1)")


@pytest.fixture(scope="module")
def made(module_path: Path) -> Path:
    store = Store(module_path / "a.duckdb")
    write_a_row(store)
    return store.path


@pytest.fixture
def store(tmp_path: Path, made: Path) -> Store:
    return Store(shutil.copyfile(made, tmp_path / "a.duckdb"))


def test_store_is_private_by_default(tmp_path: Path) -> None:
    for mode, mask, expected in ((0o600, 0o022, "600"), (0o660, 0o002, "660"), (0o660, 0o027, "640")):
        before = os.umask(mask)
        try:
            store = Store(tmp_path / f"{expected}-{mask}.duckdb", mode=mode)
            with store.write() as con:
                con.execute("INSERT INTO cuts VALUES (1)")
                assert (
                    f"{store.path.with_name(store.path.name + '.wal').stat().st_mode & 0o777:o}" == expected
                )
            assert os.umask(mask) == mask
        finally:
            os.umask(before)
        assert f"{store.path.stat().st_mode & 0o777:o}" == expected


def test_store_writable_by_anyone_is_refused(store: Store) -> None:
    store.path.chmod(0o660)
    write_a_row(store)
    store.path.chmod(0o606)
    for opened in (store.read, store.write):
        with pytest.raises(StoreError, match="anyone may write") as caught, opened():
            pass
        assert caught.value.fix == f"chmod o-w {store.path}"


# the last one is a leftover of bill loads in earlier versions
FOREIGN = text_rows("""
view costs | CREATE OR REPLACE VIEW costs AS SELECT content AS team FROM read_text('{}')
view mine | CREATE VIEW mine AS FROM read_csv('{}')
table theirs | CREATE TABLE theirs (a INTEGER DEFAULT 1)
macro sum | CREATE MACRO sum(a) AS 0
macro lines | CREATE MACRO lines() AS TABLE FROM read_text('{}')
index quick | CREATE INDEX quick ON cuts (at_ms)
table cuts | ALTER TABLE cuts ADD COLUMN note VARCHAR DEFAULT 'x'
type mood | CREATE TYPE mood AS ENUM ('a')
sequence count | CREATE SEQUENCE count
schema more | CREATE SCHEMA more
view more.mine | CREATE SCHEMA more; CREATE VIEW more.mine AS SELECT 1
view staged | CREATE VIEW staged AS SELECT 1 AS a""")


FAST = ("view costs", "table cuts", "macro sum", "schema more")


@pytest.mark.parametrize(
    ("what", "sql"),
    [row if row[0] in FAST else pytest.param(*row, marks=pytest.mark.slow) for row in FOREIGN],
)
def test_foreign_objects_of_a_store_are_never_run(what: str, sql: str, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("planted")
    with duckdb.connect(str(store.path)) as con:
        con.execute(sql.format(secret))
    name = "schema more" if what == "view more.mine" else what
    with pytest.raises(StoreError, match=f"contains a {name} that gpucost did not create"):
        store.query("SELECT 1")


# Functions that the program calls before it trusts a store, redefined by the store.
ANSWERS = """
CREATE MACRO current_setting(x) AS false;
CREATE MACRO max(x) AS {version};
CREATE MACRO greatest(x, y) AS 0;
CREATE MACRO list_max(x) AS 0;
CREATE MACRO current_database() AS 'none';
CREATE MACRO pragma_database_size() AS TABLE SELECT content AS block_size, 0 AS total_blocks FROM read_text('{file}');
CREATE MACRO duckdb_tables() AS TABLE SELECT * FROM system.main.duckdb_tables() WHERE false;
CREATE MACRO duckdb_views() AS TABLE SELECT * FROM system.main.duckdb_views() WHERE view_name <> 'leak';
CREATE MACRO duckdb_functions() AS TABLE SELECT * FROM system.main.duckdb_functions() WHERE false;
CREATE VIEW leak AS SELECT content FROM read_text('{file}')
"""


def test_store_cannot_redefine_functions_of_the_program(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("planted")
    with duckdb.connect(str(store.path)) as con:
        con.execute(ANSWERS.format(version=latest_version(), file=secret))
    for use in (lambda: store.query("FROM leak"), store.info, lambda: write_a_row(store)):
        with pytest.raises(StoreError, match="that gpucost did not create") as caught:
            use()
        assert "planted" not in caught.value.message


def test_store_that_lacks_a_view_is_refused(store: Store) -> None:
    with duckdb.connect(str(store.path)) as con:
        con.execute("DROP VIEW daily_node_costs")
    with pytest.raises(StoreError, match="lacks its view daily_node_costs"):
        store.info()


UNSEEN = """
FROM read_csv('{}/other/a.csv')
FROM read_csv('{}/given/../other/a.csv')
FROM read_csv('{}/given/link.csv')
FROM read_text('/etc/passwd')
COPY (SELECT 1) TO '{}/other/b.csv'
ATTACH '{}/other/c.duckdb'
INSTALL httpfs
SET allowed_directories = ['/']
SET enable_external_access = true"""


def test_connections_see_only_the_given_files(store: Store, tmp_path: Path) -> None:
    for name in ("given", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("a\n1\n")
    (tmp_path / "given" / "link.csv").symlink_to(tmp_path / "other" / "a.csv")
    for opened in (store.read, store.write):
        with opened(tmp_path / "given") as con:
            assert con.execute(f"FROM read_csv('{tmp_path}/given/a.csv')").fetchall() == [(1,)]
            con.execute(f"COPY (SELECT 1) TO '{tmp_path}/given/b.csv'")
            for refused in UNSEEN.strip().splitlines():
                with pytest.raises(duckdb.Error):
                    con.execute(refused.format(tmp_path))
                if opened == store.write:
                    con.rollback()
                    con.begin()
    assert not (tmp_path / "other" / "b.csv").exists()


def test_schema_digest_of_each_version_is_known() -> None:
    """A new migration adds a line to migrations/objects.txt: its version, and the digest from this test's message."""
    with duckdb.connect(":memory:") as con:
        for version in range(1, latest_version() + 1):
            schema.migrate(con, until=version)
            assert schema._schema_digests()[version] == schema.objects_digest(con), version
