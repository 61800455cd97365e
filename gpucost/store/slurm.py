"""Slurm's accounting in the store: later answers replace earlier ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpucost.records import DuckDBPyConnection
from gpucost.store import sqlfiles

# Each table of facts, with its key columns.
_KEYS = {
    "slurm_runs": ("cluster", "job_id", "submit_ms"),
    "slurm_steps": ("cluster", "job_id", "step", "start_ms"),
    "slurm_devices": ("cluster", "job_id", "submit_ms", "node", "type"),
    "slurm_nodes": ("cluster", "node", "seen_ms"),
    "slurm_events": ("cluster", "node", "from_ms"),
    "slurm_reservations": ("cluster", "name", "from_ms"),
    "slurm_accounts": ("cluster", "account"),
    "slurm_shares": ("cluster", "account", "user", "seen_ms"),
}
# Precedence of rows with one key: ended before open, then longer before shorter (`sacct --truncate`
# cuts), then either.
_RANKS = {
    "slurm_runs": "end_ms IS NOT NULL, coalesce(elapsed_ms, -1)",
    "slurm_steps": "end_ms IS NOT NULL, coalesce(end_ms, -1)",
    "slurm_events": "to_ms IS NOT NULL, coalesce(to_ms, -1)",
}


def stage(con: DuckDBPyConnection, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Stage rows of `table` by column, None for unknown values; `merge` stores them."""
    # beyond it, DuckDB spills next to the store
    con.execute("SET memory_limit = '900MB'")
    con.execute(f"CREATE TEMP TABLE IF NOT EXISTS incoming_{table} AS FROM {table} LIMIT 0")
    if any(columns.values()):
        with sqlfiles.frames(con, slurm_batch=columns):
            con.execute(f"INSERT INTO incoming_{table} BY NAME FROM slurm_batch")


# Unchanged descriptions of nodes and unchanged shares are not new.
_UNCHANGED = {
    "slurm_nodes": """DELETE FROM incoming_slurm_nodes AS i USING (
        SELECT cluster, node, arg_max((gres, partitions, features, instance_type), seen_ms) AS told
        FROM slurm_nodes GROUP BY ALL) AS n
        WHERE n.cluster = i.cluster AND n.node = i.node
            AND n.told IS NOT DISTINCT FROM (i.gres, i.partitions, i.features, i.instance_type)""",
    "slurm_shares": """DELETE FROM incoming_slurm_shares AS i USING (
        SELECT cluster, account, "user", arg_max((norm_shares, raw_usage, effective_usage, fair_share), seen_ms) AS told
        FROM slurm_shares GROUP BY ALL) AS n
        WHERE n.cluster = i.cluster AND n.account = i.account AND n."user" = i."user"
            AND n.told IS NOT DISTINCT FROM (i.norm_shares, i.raw_usage, i.effective_usage, i.fair_share)""",
}


# Tasks of arrays and parts of heterogeneous jobs that one answer contains without their numbers (then
# generated, from 2 ** 62 on), and another with them.
_NUMBERS = """CREATE OR REPLACE TEMP TABLE numbers AS
WITH runs AS (
    SELECT cluster, job, start_ms, submit_ms, job_id FROM slurm_runs
    UNION ALL
    SELECT cluster, job, start_ms, submit_ms, job_id FROM incoming_slurm_runs
),
made_up AS (
    FROM runs WHERE job_id >= 1::UBIGINT << 62
)
SELECT t.cluster, t.job_id AS made_up, n.job_id
FROM made_up AS t JOIN runs AS n USING (cluster, job, submit_ms)
WHERE n.job_id < 1::UBIGINT << 62
UNION
SELECT t.cluster, t.job_id, n.job_id
FROM made_up AS t JOIN runs AS n USING (cluster, job, start_ms)
WHERE n.job_id < 1::UBIGINT << 62"""
# Runs that one answer contains without their submission (then their start is used), and another with it.
_SUBMISSIONS = """CREATE OR REPLACE TEMP TABLE submissions AS
WITH runs AS (
    SELECT cluster, job_id, start_ms, submit_ms FROM slurm_runs SEMI JOIN incoming_slurm_runs USING (cluster, job_id)
    UNION ALL
    SELECT cluster, job_id, start_ms, submit_ms FROM incoming_slurm_runs
)
SELECT t.cluster, t.job_id, t.start_ms, min(n.submit_ms) AS submit_ms
FROM runs AS t JOIN runs AS n USING (cluster, job_id, start_ms)
WHERE t.submit_ms = t.start_ms AND n.submit_ms < n.start_ms
GROUP BY ALL"""


def _identify(con: DuckDBPyConnection) -> None:
    """Give runs their real number and submission, if any answer has them."""
    if not con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'incoming_slurm_runs'").fetchall():
        return
    of_both = (
        "(SELECT max(job_id) AS most FROM slurm_runs UNION ALL SELECT max(job_id) FROM incoming_slurm_runs)"
    )
    if sqlfiles.value(con, f"SELECT coalesce(max(most), 0) FROM {of_both}") >= 1 << 62:  # noqa: S608 - a text of our own
        con.execute(_NUMBERS)
        for table in ("slurm_runs", "slurm_steps", "incoming_slurm_runs", "incoming_slurm_steps"):
            con.execute(
                f"UPDATE {table} AS t SET job_id = n.job_id FROM numbers AS n "  # noqa: S608 - names of our own
                "WHERE n.cluster = t.cluster AND n.made_up = t.job_id"
            )
    con.execute(_SUBMISSIONS)
    for table in ("slurm_runs", "incoming_slurm_runs"):
        con.execute(
            f"UPDATE {table} AS t SET submit_ms = s.submit_ms FROM submissions AS s "  # noqa: S608 - names of our own
            "WHERE s.cluster = t.cluster AND s.job_id = t.job_id AND s.start_ms = t.start_ms AND t.submit_ms = t.start_ms"
        )


def merge(con: DuckDBPyConnection) -> int:
    """Store the staged rows if they contain more than stored ones; return the number of changed rows."""
    changed = 0
    _identify(con)
    for table, keys in _KEYS.items():
        incoming = f"incoming_{table}"
        if not con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = $1", [incoming]).fetchall():
            continue
        if table in _UNCHANGED:
            con.execute(_UNCHANGED[table])
        names = ", ".join(f'"{key}"' for key in keys)
        rank = f"({_RANKS.get(table, '1')}, hash(t))"
        same = " AND ".join(f'better."{key}" = s."{key}"' for key in keys)
        con.execute(
            f"""CREATE OR REPLACE TEMP TABLE better AS SELECT *, {rank} AS merge_rank FROM {incoming} AS t
            QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY {rank} DESC) = 1"""  # noqa: S608 - names of our own
        )
        con.execute(f"DROP TABLE {incoming}")
        con.execute(
            f"""DELETE FROM better
            USING (SELECT {names}, {rank} AS merge_rank FROM {table} AS t SEMI JOIN better USING ({names})) AS s
            WHERE {same} AND s.merge_rank >= better.merge_rank"""  # noqa: S608
        )
        con.execute(f"DELETE FROM {table} AS s USING better WHERE {same}")  # noqa: S608
        changed += sqlfiles.value(
            con,
            f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (merge_rank) FROM better",  # noqa: S608
        )
        con.execute("DROP TABLE better")
    return changed
