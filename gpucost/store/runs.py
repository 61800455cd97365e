"""The log: runs of collectors, the windows that they committed, and what is still to be collected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpucost.periods import MS_PER_HOUR
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.periods import Period, Span

Family = Literal["nodes", "target", "gpus", "gpu", "partial"]

# A silence as long as this is none: a restart, or a scrape that failed.
SHORT_SILENCE_MS = 10 * 60_000

# A killed run is taken up again for this long; later, the source is asked anew: it may have learned more since.
_TAKEN_UP_FOR = timedelta(days=1)


class IncompleteHour(NamedTuple):
    """An hour of which something is missing: the silence it lies in (to_ms is None where that has not ended).

    `family` is 'nodes' (nobody spoke of the cluster's nodes), 'target' (one of its scrape targets did not), 'gpus', 'gpu'
    (none of its GPUs, one GPU was measured), 'partial' (the server said so; cluster is None). Settled is what the server
    answered twice, an hour apart.
    """

    hour: int
    family: Family
    cluster: str | None
    from_ms: int
    to_ms: int | None
    is_settled: bool


class Silence(NamedTuple):
    """Time in which nobody measured a cluster's GPUs."""

    cluster: str
    from_ms: int
    to_ms: int


class LaggingTargets(NamedTuple):
    """Scrape targets of one metric, with the labels that the server knows them by, and the moment the first fell silent."""

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
    """Adds one row to loads: what a run committed of a source for [span)."""
    con.execute(_LOADS_INSERT, [run_id, kind, source, *span, rows, dropped, _utc()])


def log_run(
    con: DuckDBPyConnection, kind: str, source: str, span: Span, *, rows: int, dropped: int = 0
) -> None:
    """Enters a run that is over, and the one load that it committed."""
    run_id = begin(con, kind, source, span)
    log_load(con, run_id, kind, source, span, rows=rows, dropped=dropped)
    finish(con, run_id)


def extend_load(con: DuckDBPyConnection, run_id: int, span: Span, end_ms: int) -> None:
    """Has what a run logged as [span) end at `end_ms`: a later sample proves that what lies between is empty, not late."""
    con.execute(
        "UPDATE loads SET to_ms = $1 WHERE run_id = $2 AND from_ms = $3 AND to_ms = $4",
        [end_ms, run_id, *span],
    )


def begin(con: DuckDBPyConnection, kind: str, source: str, span: Span) -> int:
    """Enters a run over [span) that starts now; returns its number."""
    run_id = int(sqlfiles.value(con, "SELECT coalesce(max(run_id), 0) + 1 FROM collect_runs"))
    con.execute(
        "INSERT INTO collect_runs VALUES ($1, $2, $3, $4, $5, $6, NULL)",
        [run_id, kind, source, *span, _utc()],
    )
    return run_id


def finish(con: DuckDBPyConnection, run_id: int) -> None:
    """Marks a run as come to its end, with or without failed windows."""
    con.execute("UPDATE collect_runs SET finished_at = $1 WHERE run_id = $2", [_utc(), run_id])


# a run over a fixed span is taken up again over that span only; one that ended "now" (within a minute of its start) also
# by a run that begins at the same moment and ends later
_RUNS_UNFINISHED = """
SELECT run_id
FROM collect_runs
WHERE kind = $1 AND source = $2 AND finished_at IS NULL AND started_at >= $3 AND from_ms = $4
    AND (to_ms = $5 OR (abs(to_ms - epoch_ms(started_at)) <= 60000 AND $5 >= to_ms))
ORDER BY run_id DESC
LIMIT 1"""


def unfinished(con: DuckDBPyConnection, kind: str, source: str, span: Span) -> int | None:
    """The newest run of the source over the same span, begun within a day, that never came to its end; None if none.

    Spans that ended at the moment the run was started ("until now") are the same where they begin the same.
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


def asked(con: DuckDBPyConnection, kind: str, source: str) -> list[Span]:
    """All spans of a source that runs set out to collect."""
    return con.execute(
        "SELECT from_ms, to_ms FROM collect_runs WHERE kind = $1 AND source = $2", [kind, source]
    ).fetchall()


# windows that held nothing are logged too, and do not count
_FIRST_DATA = "SELECT min(from_ms) FROM loads WHERE kind = $1 AND source = $2 AND rows + dropped > 0"


def first_data(con: DuckDBPyConnection, kind: str, source: str) -> int | None:
    """Where a source's data begins: the start of its first load that held any; None where none did."""
    first: int | None = sqlfiles.value(con, _FIRST_DATA, [kind, source])
    return first


_NEWEST_SAMPLE = """
SELECT greatest(
    (SELECT max(t.last_ms) FROM states AS t JOIN series AS s USING (series_id) WHERE s.source = $source),
    (SELECT max(b.hour::BIGINT * 3600000 + b.last_offset_ms)
        FROM blocks AS b JOIN series AS s USING (series_id) WHERE s.source = $source))"""


def newest_sample(con: DuckDBPyConnection, source: str) -> int | None:
    """The moment of a source's newest sample; None where it has none."""
    newest: int | None = sqlfiles.value(con, _NEWEST_SAMPLE, {"source": source})
    return newest


# first_at stays where the answer holds as many samples as the last one, unless a clock went back
_ASKED_HOURS = """
MERGE INTO asked_hours AS a
USING (SELECT unnest($hours::INTEGER[]) AS hour, unnest($samples::BIGINT[]) AS samples) AS w
ON a.source = $source AND a.hour = w.hour
WHEN MATCHED AND a.samples = w.samples AND a.first_at <= $asked_at THEN UPDATE SET last_at = $asked_at, is_partial = $is_partial
WHEN MATCHED THEN UPDATE SET samples = w.samples, first_at = $asked_at, last_at = $asked_at, is_partial = $is_partial
WHEN NOT MATCHED THEN INSERT VALUES ($source, w.hour, w.samples, $asked_at, $asked_at, $is_partial)"""


def log_answer(
    con: DuckDBPyConnection, source: str, samples: Mapping[int, int], asked_at: datetime, *, is_partial: bool
) -> None:
    """Notes how many samples a source's answer held in each epoch hour that it was asked for."""
    con.execute(
        _ASKED_HOURS,
        {
            "source": source,
            "hours": list(samples),
            "samples": list(samples.values()),
            "asked_at": asked_at.astimezone(UTC).replace(tzinfo=None),
            "is_partial": is_partial,
        },
    )


def find_silences(con: DuckDBPyConnection, source: str, from_ms: int, to_ms: int) -> list[Silence]:
    """When all GPUs of a source's clusters fell silent between two moments.

    Nodes, single targets and GPUs that did stay in the temporary table `silences`.
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
    """The hours that a source was asked for, that begin at `from_ms` or later, end by `to_ms`, and are incomplete."""
    find_silences(con, source, from_ms, to_ms)
    hours = {"from_hour": -(-from_ms // MS_PER_HOUR), "to_hour": to_ms // MS_PER_HOUR}
    return [
        IncompleteHour(*row)
        for row in sqlfiles.run(con, "incomplete_hours", {"source": source, **hours}).fetchall()
    ]


def silent_families(
    con: DuckDBPyConnection, source: str, cluster_label: str, from_ms: int, to_ms: int
) -> list[tuple[str, str, int, int]]:
    """When known families of a source's clusters have no stored sample: rows (family, label of the cluster, from, to)."""
    params = {"source": source, "cluster_label": cluster_label, "from_ms": from_ms, "to_ms": to_ms}
    return sqlfiles.run(con, "silent_families", params | {"tolerance_ms": SHORT_SILENCE_MS}).fetchall()


_NAMESPACES = """
SELECT DISTINCT labels['namespace'] AS namespace FROM series
WHERE source = $1 AND metric = 'kube_pod_info' AND namespace <> ''"""


def pod_namespaces(con: DuckDBPyConnection, source: str) -> set[str]:
    """The namespaces whose pods are stored of a source."""
    return set(sqlfiles.column(con, _NAMESPACES, [source]))


def lagging_targets(
    con: DuckDBPyConnection, source: str, cluster_label: str, from_ms: int, to_ms: int
) -> list[LaggingTargets]:
    """Scrape targets that were heard of since `from_ms`, but no more since `to_ms`."""
    params = {"source": source, "cluster_label": cluster_label, "from_ms": from_ms, "to_ms": to_ms}
    return [LaggingTargets(*row) for row in sqlfiles.run(con, "lagging_targets", params).fetchall()]


# a target's gaps follow its series, which _SERIES_CLUSTER moves next
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
# no load has this number, so the next attribution looks at everything again
_ATTRIBUTION_RESET = "UPDATE attribution_state SET last_load_id = -1"


def settle_clusters(con: DuckDBPyConnection, source: str, cluster_label: str, default_cluster: str) -> None:
    """Puts a source's known series into the clusters that its settings say now, and has them attributed anew if any moved."""
    params = {"source": source, "cluster_label": cluster_label, "default_cluster": default_cluster}
    con.execute(_GAPS_CLUSTER, params)
    if sqlfiles.value(con, _SERIES_CLUSTER, params):
        con.execute(_ATTRIBUTION_RESET)


def _utc() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def look(con: DuckDBPyConnection, needs: Sequence[tuple[str, str, str, str]]) -> None:
    """Make the temporary table missing_metrics of `needs`: kind, metric, what is lost without it and what mends that."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE needs (kind VARCHAR, metric VARCHAR, lost VARCHAR, fix VARCHAR)"
    )
    if needs:
        con.executemany("INSERT INTO needs VALUES ($1, $2, $3, $4)", needs)
    sqlfiles.run(con, "missing_metrics")


def of_source(con: DuckDBPyConnection, source: str, period: Period) -> list[tuple[Any, ...]]:
    """What of missing_metrics concerns the clusters of a source in `period`: rows (level, code, message, fix)."""
    return con.execute(
        "SELECT DISTINCT level, code, message, fix FROM missing_metrics"
        " WHERE cluster IN (SELECT cluster FROM series WHERE source = $source) AND from_ms < $to AND to_ms > $from ORDER BY ALL",
        {"source": source, "from": period.start_ms, "to": period.end_ms},
    ).fetchall()
