"""Load Slurm's data into the store."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from gpucost import inputs
from gpucost.collect.base import Progress, ProgressState, month_start_ms, period_of
from gpucost.collect.slurm.facts import SlurmTable, read_facts
from gpucost.collect.slurm.live import Slurmlike, slurm_of
from gpucost.collect.slurm.sacct import Batch, Notes, SacctFormat, read_sacct
from gpucost.config.model import Slurm
from gpucost.errors import DataError, GpucostError, SourceError, UsageError
from gpucost.periods import Period, from_ms, local_days, local_midnight, to_ms
from gpucost.records import DuckDBPyConnection
from gpucost.store import runs, slurm
from gpucost.store.connection import Store

T = TypeVar("T")
KIND = "slurm"
_DAY = timedelta(days=1)
_UTC = ZoneInfo("UTC")
# Fact tables are small; this limit of the first look separates them from jobs, which can be gigabytes.
_LOOK = 4096
_ATTRIBUTE_AGAIN = "UPDATE attribution_state SET last_load_id = -1"


@dataclass(slots=True)
class SlurmResult:
    """The result of one source: jobs by cluster with the collected time, and fact tables with their rows."""

    source: str
    clusters: dict[str, Period] = field(default_factory=dict)
    runs: int = 0
    steps: int = 0
    facts: dict[str, int] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
    purged: Period | None = None  # queried, but no longer kept
    failed: list[GpucostError] = field(default_factory=list)

    def add(self, facts: SlurmTable) -> None:
        """Count the rows of a fact table."""
        table, columns = facts
        self.facts[table] = len(next(iter(columns.values()), ()))


def import_files(
    store: Store, paths: Sequence[Path], form: SacctFormat, period: Period | None, now: datetime
) -> tuple[list[SlurmResult], int]:
    """Load all files, or none if one cannot be read. Return each file's result and the changed rows of the
    store.

    Without `period`, jobs count as collected from the first one's start to the last moment of any. Raises
    UsageError if a path does not exist or the cluster is unknown, SourceError or DataError if a file cannot
    be read.
    """
    for path in paths:
        if not path.is_file():
            raise UsageError(
                f"{path} does not exist", "name a file with output of sacct, scontrol, sacctmgr or sshare"
            )
    results = [SlurmResult(str(path)) for path in paths]
    with store.write() as con:
        unnamed = []
        for path, result in zip(paths, results, strict=True):
            facts = _facts(path, form, result.notes, to_ms(now))
            if facts is None:
                _load_jobs(con, read_sacct(path, form, result.notes), result, period, form.cluster, now)
            else:
                result.add(facts)
                unnamed.append(facts)
        _load_facts(con, unnamed, form, results)
        changed = slurm.merge(con)
        for result in results:
            _log_jobs(con, result)
            if result.facts and not result.clusters:
                # facts have no time of their own, but earlier attributions lack them
                con.execute(_ATTRIBUTE_AGAIN)
    return results, changed


def collect(
    store: Store,
    settings: Slurm,
    period: Period | None,
    tz: ZoneInfo,
    now: datetime,
    progress: Progress | None = None,
) -> SlurmResult:
    """Query Slurm for jobs, a day at a time, and for its facts.

    Without `period`, the first run starts at the beginning of the month, later runs at `late_days` before the
    last collected moment. Each day is committed by itself, so an interrupted run resumes there. Raises
    SourceError if jobs cannot be read; other failures are in `failed`.
    """
    source = slurm_of(settings)
    result = SlurmResult(source.name)
    cluster = settings.cluster or _optional(source.cluster, result)
    if period is None:
        with store.write() as con:
            ends = [end for _, end in runs.loaded(con, KIND, cluster)] if cluster else []
        late = timedelta(days=settings.late_days)
        first = from_ms(max(ends)) - late if ends else from_ms(month_start_ms(now, tz))
        period = Period(min(first, now - timedelta(minutes=1)), now)
    retention = _optional(source.retention, result)
    if retention is not None and period.start < now - retention:
        result.purged = Period(period.start, min(now - retention, period.end))
        period = Period(result.purged.end, period.end)
    form = SacctFormat(cluster=cluster)
    for date in local_days(period, _UTC):
        start = local_midnight(date, _UTC)
        day = Period(max(period.start, start), min(period.end, start + _DAY))
        part = SlurmResult(source.name)
        if progress:
            done, total = day.start_ms - period.start_ms, period.end_ms - period.start_ms
            progress(ProgressState(source.name, done, total, result.runs))
        with store.write() as con:
            _load_jobs(con, source.jobs(day, result.notes), part, day, cluster, now)
            slurm.merge(con)
            _log_jobs(con, part)
        result.runs += part.runs
        result.steps += part.steps
        result.clusters |= dict.fromkeys(part.clusters, period)
    _load_other(store, source, form, result, now)
    return result


def _optional(ask: Callable[[], T | None], result: SlurmResult) -> T | None:
    """Optional facts: slurmctld can be down while slurmdbd answers."""
    try:
        return ask()
    except SourceError as error:
        result.failed.append(error)
        return None


def _load_other(
    store: Store, source: Slurmlike, form: SacctFormat, result: SlurmResult, now: datetime
) -> None:
    tables = []
    for name, ask in source.facts():
        try:
            facts = read_facts(ask(), name, form, Notes(), to_ms(now))
        except (SourceError, DataError) as error:
            result.failed.append(error)
            continue
        if facts is not None:
            tables.append(facts)
            result.add(facts)
    with store.write() as con:
        _load_facts(con, tables, form, [result])
        if slurm.merge(con):
            con.execute(_ATTRIBUTE_AGAIN)


def _facts(path: Path, form: SacctFormat, notes: Notes, seen_ms: int) -> SlurmTable | None:
    if path.suffix == ".gz":
        return None
    try:
        with path.open("rb") as file:
            start = file.read(_LOOK).removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"{") and b'"jobs"' in start and b'"accrue_time"' not in start:
            return None
        if path.stat().st_size > inputs.ANSWER:
            return None
        head = start.partition(b"\n")[0].lower()
        if not start.startswith((b"{", b"JobId=")) and b"jobid" in head:
            return None
        return read_facts(
            path.read_text(encoding="utf-8-sig", errors="replace"), str(path), form, notes, seen_ms
        )
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None


def _load_jobs(
    con: DuckDBPyConnection,
    batches: Iterable[Batch],
    result: SlurmResult,
    period: Period | None,
    explicit_cluster: str | None,
    now: datetime,
) -> None:
    spans: dict[str, tuple[int, int]] = {}
    for batch in batches:
        columns = batch.runs
        result.runs += len(columns["job_id"])
        result.steps += len(batch.steps["job_id"])
        moments = (columns[name] for name in ("cluster", "submit_ms", "start_ms", "end_ms", "elapsed_ms"))
        for cluster, submit, start, end, elapsed in zip(*moments, strict=True):
            first = submit if start is None else start
            last = end if end is not None else first + (elapsed or 0)
            begin, over = spans.get(cluster, (first, last))
            spans[cluster] = min(begin, first), max(over, last)
        slurm.stage(con, "slurm_runs", columns)
        slurm.stage(con, "slurm_steps", batch.steps)
    if period is not None and explicit_cluster and not spans:
        # An answer without jobs is valid.
        spans[explicit_cluster] = (0, 0)
    result.clusters = {
        cluster: period_of((period.start_ms, period.end_ms) if period else (first, max(last, first + 1)))
        for cluster, (first, last) in spans.items()
    }
    for cluster, span in result.clusters.items():
        # A running job without an elapsed time counts until the end of the queried time.
        con.execute(_RUNS_ON, [cluster, min(span.end_ms, to_ms(now))])


def _log_jobs(con: DuckDBPyConnection, result: SlurmResult) -> None:
    for cluster, span in result.clusters.items():
        runs.log_run(con, KIND, cluster, (span.start_ms, span.end_ms), rows=max(result.runs, 1))


_RUNS_ON = """UPDATE incoming_slurm_runs SET elapsed_ms = greatest(0, $2 - start_ms)
WHERE cluster = $1 AND start_ms IS NOT NULL AND end_ms IS NULL AND elapsed_ms IS NULL"""


def _load_facts(
    con: DuckDBPyConnection,
    all_facts: Sequence[SlurmTable],
    form: SacctFormat,
    results: Sequence[SlurmResult],
) -> None:
    """Assign rows without a cluster to the given cluster, or to the only cluster of the jobs."""
    if not all_facts:
        return
    clusters = {cluster for result in results for cluster in result.clusters}
    if form.cluster:
        clusters = {form.cluster}
    elif not clusters:
        rows = con.execute("SELECT DISTINCT source FROM loads WHERE kind = 'slurm'").fetchall()
        clusters = {name for (name,) in rows}
    for table, columns in all_facts:
        if None in columns.get("cluster", ()):
            if len(clusters) != 1:
                raise UsageError(
                    f"the cluster of the {table.removeprefix('slurm_')} is unknown",
                    "name it with --cluster NAME, spelled as in sacct's field Cluster",
                )
            (cluster,) = clusters
            columns["cluster"] = [name or cluster for name in columns["cluster"]]
        slurm.stage(con, table, columns)
