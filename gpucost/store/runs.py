"""The log: runs of collectors, committed windows, and hours still to be collected."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from gpucost.periods import MS_PER_HOUR, Span
from gpucost.records import DuckDBPyConnection
from gpucost.store import sqlfiles

Family = Literal["nodes", "target", "gpus", "gpu", "partial"]

# A silence up to this long does not count: a restart, or a failed scrape.
SHORT_SILENCE_MS = 10 * 60_000

# A killed run is resumed for this long; later, the source is queried from the beginning, because it may have
# more data.
_TAKEN_UP_FOR = timedelta(days=1)


class IncompleteHour(NamedTuple):
    """An hour with missing data, and the silence that contains it (to_ms None: ongoing).

    `family` is 'nodes' (no samples of the cluster's nodes), 'target' (one of its scrape targets is silent),
    'gpus' or 'gpu' (all or one of its GPUs are unmeasured), 'partial' (the server marked its answer; cluster
    is None). It is settled if the server gave the same answer twice, an hour apart.
    """

    hour: int
    family: Family
    cluster: str | None
    from_ms: int
    to_ms: int | None
    is_settled: bool


class Silence(NamedTuple):
    """Time without measurements of a cluster's GPUs."""

    cluster: str
    from_ms: int
    to_ms: int


class LaggingTargets(NamedTuple):
    """Scrape targets of one metric, with the server's labels, and when the first fell silent."""

    metric: str
    cluster: str
    job: str
    instances: list[str]
    last_ms: int


_LOADS_INSERT = (
    "INSERT INTO loads SELECT coalesce(max(load_id), 0) + 1, $1, $2, $3, $4, $5, $6, $7, $8 FROM loads"
)


def log_load(
    con: DuckDBPyConnection, run_id: int, kind: str, source: str, span: Span, *, rows: int, dropped: int = 0
) -> None:
    """Add one row to loads: a run's committed window [span) of a source."""
    con.execute(_LOADS_INSERT, [run_id, kind, source, *span, rows, dropped, _utc()])


def log_run(
    con: DuckDBPyConnection, kind: str, source: str, span: Span, *, rows: int, dropped: int = 0
) -> None:
    """Log a finished run with the one load that it committed."""
    run_id = begin(con, kind, source, span)
    log_load(con, run_id, kind, source, span, rows=rows, dropped=dropped)
    finish(con, run_id)


# Extends a run's load, because a later sample proves that the gap is empty: by new end, run, and span.
EXTEND_LOAD = "UPDATE loads SET to_ms = $1 WHERE run_id = $2 AND from_ms = $3 AND to_ms = $4"


def begin(con: DuckDBPyConnection, kind: str, source: str, span: Span) -> int:
    """Log the start of a run over [span); return its number."""
    run_id = int(sqlfiles.value(con, "SELECT coalesce(max(run_id), 0) + 1 FROM collect_runs"))
    con.execute(
        "INSERT INTO collect_runs VALUES ($1, $2, $3, $4, $5, $6, NULL)",
        [run_id, kind, source, *span, _utc()],
    )
    return run_id


def finish(con: DuckDBPyConnection, run_id: int) -> None:
    """Mark a run as finished, with or without failed windows."""
    con.execute("UPDATE collect_runs SET finished_at = $1 WHERE run_id = $2", [_utc(), run_id])


# a run over a fixed span is resumed only over that span; a run that ended "now" (within a minute of its
# start) also by a run with the same start and a later end
_RUNS_UNFINISHED = """
SELECT run_id
FROM collect_runs
WHERE kind = $1 AND source = $2 AND finished_at IS NULL AND started_at >= $3 AND from_ms = $4
    AND (to_ms = $5 OR (abs(to_ms - epoch_ms(started_at)) <= 60000 AND $5 >= to_ms))
ORDER BY run_id DESC
LIMIT 1"""


def unfinished(con: DuckDBPyConnection, kind: str, source: str, span: Span) -> int | None:
    """The newest unfinished run of the source over the same span, begun within a day, or None.

    Spans that ended when the run started ("until now") are equal if their starts are equal.
    """
    params = [kind, source, _utc() - _TAKEN_UP_FOR, *span]
    return next(iter(sqlfiles.column(con, _RUNS_UNFINISHED, params)), None)


def committed(con: DuckDBPyConnection, run_id: int) -> list[Span]:
    """The windows that a run has loaded."""
    return con.execute("SELECT from_ms, to_ms FROM loads WHERE run_id = $1", [run_id]).fetchall()


def loaded(con: DuckDBPyConnection, kind: str, source: str) -> list[Span]:
    """All windows of a source that were ever loaded."""
    return con.execute(
        "SELECT DISTINCT from_ms, to_ms FROM loads WHERE kind = $1 AND source = $2", [kind, source]
    ).fetchall()


def requested(con: DuckDBPyConnection, kind: str, source: str) -> list[Span]:
    """All spans of a source that runs began to collect."""
    return con.execute(
        "SELECT from_ms, to_ms FROM collect_runs WHERE kind = $1 AND source = $2", [kind, source]
    ).fetchall()


# The start of the first load with data, by kind and source. Empty windows are logged, too, and do not count.
FIRST_DATA = "SELECT min(from_ms) FROM loads WHERE kind = $1 AND source = $2 AND rows + dropped > 0"
_NEWEST_SAMPLE = """
SELECT greatest(
    (SELECT max(t.last_ms) FROM states AS t JOIN series AS s USING (series_id) WHERE s.source = $source),
    (SELECT max(b.hour::BIGINT * 3600000 + b.last_offset_ms)
        FROM blocks AS b JOIN series AS s USING (series_id) WHERE s.source = $source))"""


def newest_sample(con: DuckDBPyConnection, source: str) -> int | None:
    """The time of a source's newest sample; None without samples."""
    newest: int | None = sqlfiles.value(con, _NEWEST_SAMPLE, {"source": source})
    return newest


# first_at stays if the answer has as many samples as the previous one, unless a clock went back
_ASKED_HOURS = """
MERGE INTO asked_hours AS a
USING (SELECT unnest($hours::INTEGER[]) AS hour, unnest($samples::BIGINT[]) AS samples) AS w
ON a.source = $source AND a.hour = w.hour
WHEN MATCHED AND a.samples = w.samples AND a.first_at <= $asked_at THEN UPDATE SET last_at = $asked_at, is_partial = $is_partial
WHEN MATCHED THEN UPDATE SET samples = w.samples, first_at = $asked_at, last_at = $asked_at, is_partial = $is_partial
WHEN NOT MATCHED THEN INSERT VALUES ($source, w.hour, w.samples, $asked_at, $asked_at, $is_partial)"""


def log_answer(
    con: DuckDBPyConnection,
    source: str,
    samples: Mapping[int, int],
    queried_at: datetime,
    *,
    is_partial: bool,
) -> None:
    """Record the number of samples in a source's answer for each epoch hour queried."""
    con.execute(
        _ASKED_HOURS,
        {
            "source": source,
            "hours": list(samples),
            "samples": list(samples.values()),
            "asked_at": queried_at.astimezone(UTC).replace(tzinfo=None),
            "is_partial": is_partial,
        },
    )


def find_silences(con: DuckDBPyConnection, source: str, from_ms: int, to_ms: int) -> list[Silence]:
    """Silences of all GPUs of a source's clusters between two moments.

    Silences of nodes, single targets and single GPUs stay in the temporary table `silences`.
    """
    span = {"from_ms": from_ms, "to_ms": to_ms}
    sqlfiles.run(con, "silences", {"source": source, "tolerance_ms": SHORT_SILENCE_MS, **span})
    rows = con.execute(
        "SELECT DISTINCT cluster, greatest(from_ms, $from_ms), least(coalesce(to_ms, $to_ms), $to_ms) FROM silences"
        " WHERE family = 'gpus' AND from_ms < $to_ms ORDER BY ALL",
        span,
    ).fetchall()
    return [Silence(*row) for row in rows]


def incomplete_hours(con: DuckDBPyConnection, source: str, from_ms: int, to_ms: int) -> list[IncompleteHour]:
    """Incomplete hours among those queried from a source, between `from_ms` and `to_ms`."""
    find_silences(con, source, from_ms, to_ms)
    hours = {"from_hour": -(-from_ms // MS_PER_HOUR), "to_hour": to_ms // MS_PER_HOUR}
    return [
        IncompleteHour(*row)
        for row in sqlfiles.run(con, "incomplete_hours", {"source": source, **hours}).fetchall()
    ]


def silent_families(
    con: DuckDBPyConnection, source: str, cluster_label: str, from_ms: int, to_ms: int
) -> list[tuple[str, str, int, int]]:
    """Times without samples of known families: rows (family, label of the cluster, from, to)."""
    params = {"source": source, "cluster_label": cluster_label, "from_ms": from_ms, "to_ms": to_ms}
    return sqlfiles.run(con, "silent_families", params | {"tolerance_ms": SHORT_SILENCE_MS}).fetchall()


# The namespaces with stored pods of a source.
NAMESPACES = """
SELECT DISTINCT labels['namespace'] AS namespace FROM series
WHERE source = $1 AND metric = 'kube_pod_info' AND namespace <> ''"""


def lagging_targets(
    con: DuckDBPyConnection, source: str, cluster_label: str, from_ms: int, to_ms: int
) -> list[LaggingTargets]:
    """Scrape targets with samples since `from_ms`, but not since `to_ms`."""
    params = {"source": source, "cluster_label": cluster_label, "from_ms": from_ms, "to_ms": to_ms}
    return [LaggingTargets(*row) for row in sqlfiles.run(con, "lagging_targets", params).fetchall()]


# move a target's gaps to the cluster of its series; _SERIES_CLUSTER then moves the series
_GAPS_CLUSTER = """
UPDATE scrape_gaps SET cluster = moved.to_cluster
FROM (
    SELECT cluster, coalesce(labels['job'], '') AS job, coalesce(labels['instance'], '') AS instance,
        any_value(coalesce(labels[$cluster_label], $default_cluster)) AS to_cluster
    FROM series WHERE source = $source AND cluster IS DISTINCT FROM coalesce(labels[$cluster_label], $default_cluster)
    GROUP BY ALL
) AS moved
WHERE scrape_gaps.source = $source
    AND (scrape_gaps.cluster, scrape_gaps.job, scrape_gaps.instance) = (moved.cluster, moved.job, moved.instance)"""
_SERIES_CLUSTER = """
UPDATE series SET cluster = coalesce(labels[$cluster_label], $default_cluster)
WHERE source = $source AND cluster IS DISTINCT FROM coalesce(labels[$cluster_label], $default_cluster)"""
# loads never have this number, so the next attribution processes everything again
_ATTRIBUTION_RESET = "UPDATE attribution_state SET last_load_id = -1"


def settle_clusters(con: DuckDBPyConnection, source: str, cluster_label: str, default_cluster: str) -> None:
    """Move a source's series to the clusters in its current settings.

    If any series moved, the next attribution processes everything again.
    """
    params = {"source": source, "cluster_label": cluster_label, "default_cluster": default_cluster}
    con.execute(_GAPS_CLUSTER, params)
    if sqlfiles.value(con, _SERIES_CLUSTER, params):
        con.execute(_ATTRIBUTION_RESET)


def _utc() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


_NEEDS = """
CREATE OR REPLACE TEMP TABLE needs AS
SELECT n[1] AS kind, n[2] AS metric, n[3] AS lost, n[4] AS fix FROM (SELECT unnest($1::VARCHAR[][]) AS n)"""


def look(con: DuckDBPyConnection, needs: Sequence[tuple[str, str, str, str]]) -> None:
    """Create the temporary table missing_metrics from `needs`.

    These are the kind, the metric, the consequence of its absence, and the fix.
    """
    con.execute(_NEEDS, [needs])
    sqlfiles.run(con, "missing_metrics")


# Rows of missing_metrics for a source's clusters in a period: level, code, message, fix.
OF_SOURCE = """
SELECT DISTINCT level, code, message, fix FROM missing_metrics
WHERE cluster IN (SELECT cluster FROM series WHERE source = $source) AND from_ms < $to_ms AND to_ms > $from_ms ORDER BY ALL"""
