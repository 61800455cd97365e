"""What kube-state-metrics and dcgm-exporter did not export though figures need it, out of the stored series."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from gpucost.model import Period


class Lack(NamedTuple):
    """Something that a cluster did not export: level is 'warning' or 'note'; `fix` is one setting, where there is one."""

    level: str
    code: str
    message: str
    fix: str | None


def look(con: duckdb.DuckDBPyConnection, needs: Sequence[tuple[str, str, str, str]]) -> None:
    """Make the temporary table missing_metrics of `needs`: kind, metric, what is lost without it and what mends that."""
    con.execute("CREATE OR REPLACE TEMP TABLE needs (kind VARCHAR, metric VARCHAR, lost VARCHAR, fix VARCHAR)")
    if needs:
        con.executemany("INSERT INTO needs VALUES ($1, $2, $3, $4)", needs)
    sqlfiles.run(con, "metric_spans")
    sqlfiles.run(con, "missing_metrics")


def of_source(con: duckdb.DuckDBPyConnection, source: str, period: Period) -> list[Lack]:
    """What of missing_metrics concerns the clusters of a source in `period`."""
    rows = con.execute(
        "SELECT DISTINCT level, code, message, fix FROM missing_metrics"
        " WHERE cluster IN (SELECT cluster FROM series WHERE source = $source) AND from_ms < $to AND to_ms > $from ORDER BY ALL",
        {"source": source, "from": period.start_ms, "to": period.end_ms},
    ).fetchall()
    return [Lack(*row) for row in rows]
