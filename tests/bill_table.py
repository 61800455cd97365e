"""Bill rows as one table, for tests that create or change them: the store keeps repeated details once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duckdb import DuckDBPyConnection

_TABLE = """
CREATE OR REPLACE TEMP TABLE edited_rows AS FROM bill_rows;
ALTER TABLE edited_rows RENAME TO bill_rows;
"""
_STORED = """
SET VARIABLE own_columns = (SELECT list(column_name) FROM duckdb_columns() WHERE table_name = 'bill_lines');
CREATE OR REPLACE TEMP VIEW rows_split AS
SELECT 0 AS batch_id, hash(*COLUMNS(lambda name: NOT list_contains(getvariable('own_columns'), name))) AS detail_id, *
FROM bill_rows;
DELETE FROM bill_lines;
DELETE FROM bill_details;
INSERT INTO bill_lines BY NAME SELECT COLUMNS(lambda name: list_contains(getvariable('own_columns'), name)) FROM rows_split;
INSERT INTO bill_details BY NAME
SELECT DISTINCT batch_id, detail_id, COLUMNS(lambda name: NOT list_contains(getvariable('own_columns'), name)) FROM rows_split;
DROP VIEW rows_split;
DROP TABLE temp.bill_rows;
"""


@contextmanager
def bill_table(con: DuckDBPyConnection) -> Iterator[None]:
    """Make `bill_rows` a writable table during the block, then store its rows."""
    con.execute(_TABLE)
    yield
    con.execute(_STORED)


def change_bill_rows(con: DuckDBPyConnection, statement: str, params: object = None) -> None:
    """Run a statement that writes to `bill_rows`."""
    with bill_table(con):
        con.execute(statement, params)
