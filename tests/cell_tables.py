"""Hourly costs as tables, for tests that create or change them: in the store, hours are views of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duckdb import DuckDBPyConnection

_TABLES = """
CREATE OR REPLACE TEMP TABLE edited_cells AS FROM cost_hourly;
CREATE OR REPLACE TEMP TABLE edited_nodes AS FROM node_hourly;
ALTER TABLE edited_cells RENAME TO cost_hourly;
ALTER TABLE edited_nodes RENAME TO node_hourly;
"""
_STORED = """
DELETE FROM cost_runs;
DELETE FROM node_runs;
DELETE FROM activity_hours;
INSERT INTO cost_runs BY NAME
SELECT kind, from_ms, to_ms, 1 AS hours, node_id, allocation_id, team, unavailable_gpu_ms, estimated_cost,
    allocated_gpu_ms + unallocated_gpu_ms + not_collected_gpu_ms AS gpu_ms, cost + unallocated_cost + not_collected_cost AS cost
FROM cost_hourly;
INSERT INTO activity_hours BY NAME
SELECT allocation_id, from_ms AS run_from_ms, from_ms, active_gpu_ms + idle_gpu_ms AS measured_gpu_ms, idle_gpu_ms,
    utilization_gpu_ms, idle_cost
FROM cost_hourly
WHERE allocation_id IS NOT NULL;
INSERT INTO node_runs BY NAME SELECT *, 1 AS hours FROM node_hourly;
DROP TABLE temp.cost_hourly;
DROP TABLE temp.node_hourly;
"""


@contextmanager
def cell_tables(con: DuckDBPyConnection) -> Iterator[None]:
    """Make `cost_hourly` and `node_hourly` writable tables during the block, then store their rows."""
    con.execute(_TABLES)
    yield
    con.execute(_STORED)
