"""The log: runs of collectors, the windows that they committed, and what is still to be collected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    import duckdb

Span = tuple[int, int]

# A killed run is taken up again for this long; later, the source is asked anew: it may have learned more since.
_TAKEN_UP_FOR = timedelta(days=1)


def log_load(
    con: duckdb.DuckDBPyConnection, run_id: int, kind: str, source: str, span: Span, *, rows: int, dropped: int = 0
) -> None:
    """Adds one row to loads: what a run committed of a source for [span)."""
    sqlfiles.run(
        con,
        "loads_insert",
        {
            "run_id": run_id,
            "kind": kind,
            "source": source,
            "from_ms": span[0],
            "to_ms": span[1],
            "rows": rows,
            "dropped": dropped,
            "loaded_at": _utc(),
        },
    )


def begin(con: duckdb.DuckDBPyConnection, kind: str, source: str, span: Span) -> int:
    """Enters a run over [span) that starts now; returns its number."""
    run_id = int(con.execute("SELECT coalesce(max(run_id), 0) + 1 FROM collect_runs").fetchall()[0][0])
    con.execute("INSERT INTO collect_runs VALUES ($1, $2, $3, $4, $5, $6, NULL)", [run_id, kind, source, *span, _utc()])
    return run_id


def finish(con: duckdb.DuckDBPyConnection, run_id: int) -> None:
    """Marks a run as come to its end, with or without failed windows."""
    con.execute("UPDATE collect_runs SET finished_at = $1 WHERE run_id = $2", [_utc(), run_id])


def unfinished(con: duckdb.DuckDBPyConnection, kind: str, source: str, span: Span) -> int | None:
    """The newest run of the source over the same span, begun within a day, that never came to its end; None if none.

    Spans that ended at the moment the run was started ("until now") are the same where they begin the same.
    """
    params = {"kind": kind, "source": source, "from_ms": span[0], "to_ms": span[1], "started_after": _utc() - _TAKEN_UP_FOR}
    rows = sqlfiles.run(con, "runs_unfinished", params).fetchall()
    return int(rows[0][0]) if rows else None


def committed(con: duckdb.DuckDBPyConnection, run_id: int) -> list[Span]:
    """The windows that a run has loaded."""
    return [(int(a), int(b)) for a, b in con.execute("SELECT from_ms, to_ms FROM loads WHERE run_id = $1", [run_id]).fetchall()]


def loaded(con: duckdb.DuckDBPyConnection, kind: str, source: str) -> list[Span]:
    """All windows of a source that were ever loaded."""
    rows = con.execute("SELECT DISTINCT from_ms, to_ms FROM loads WHERE kind = $1 AND source = $2", [kind, source]).fetchall()
    return [(int(a), int(b)) for a, b in rows]


def asked(con: duckdb.DuckDBPyConnection, kind: str, source: str) -> list[Span]:
    """All spans of a source that runs set out to collect."""
    rows = con.execute("SELECT from_ms, to_ms FROM collect_runs WHERE kind = $1 AND source = $2", [kind, source]).fetchall()
    return [(int(a), int(b)) for a, b in rows]


def first_data(con: duckdb.DuckDBPyConnection, kind: str, source: str) -> int | None:
    """Where a source's data begins: the start of its first load that held any; None where none did."""
    first = sqlfiles.run(con, "first_data", {"kind": kind, "source": source}).fetchall()[0][0]
    return None if first is None else int(first)


def settle_clusters(con: duckdb.DuckDBPyConnection, source: str, cluster_label: str, default_cluster: str) -> None:
    """Puts a source's known series into the clusters that its settings say now, and has them attributed anew if any moved."""
    params = {"source": source, "cluster_label": cluster_label, "default_cluster": default_cluster}
    sqlfiles.run(con, "gaps_cluster", params)
    if sqlfiles.run(con, "series_cluster", params).fetchall()[0][0]:
        # no load tells attribution of this
        sqlfiles.run(con, "attribution_reset")


def _utc() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
