"""Brings what Slurm says into the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.collect.base import period_of
from gpucost.collect.slurm.facts import Facts, read_facts
from gpucost.collect.slurm.sacct import Batch, Notes, SacctFormat, read_sacct
from gpucost.errors import SourceError, UsageError
from gpucost.periods import Period, to_ms
from gpucost.store import runs, slurm

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.store.connection import Store

KIND = "slurm"
# Tables of facts are small; a first look tells them from jobs, of which there may be gigabytes.
_LOOK = 4096
_FACTS_MOST = 256 * 2**20


@dataclass(slots=True)
class SlurmResult:
    """What one source brought: jobs by cluster with the time that counts as collected, and tables of facts with their rows."""

    source: str
    clusters: dict[str, Period] = field(default_factory=dict)
    runs: int = 0
    steps: int = 0
    facts: dict[str, int] = field(default_factory=dict)
    repaired: int = 0
    has_local_times: bool = False


def import_files(
    store: Store, paths: Sequence[Path], form: SacctFormat, period: Period | None, now: datetime
) -> tuple[list[SlurmResult], int]:
    """Load files, all of them or, where one cannot be read, none; what each brought, and how many rows of the store changed.

    Without `period` jobs count as collected from the first one's start to the last moment of any. Raises UsageError where a
    path does not exist or nothing names the cluster, SourceError or DataError where a file cannot be read.
    """
    for path in paths:
        if not path.is_file():
            raise UsageError(f"there is no file {path}", "name what sacct, scontrol, sacctmgr or sshare wrote")
    results = [SlurmResult(str(path)) for path in paths]
    with store.write() as con:
        unnamed: list[Facts] = []
        for path, result in zip(paths, results, strict=True):
            notes = Notes()
            facts = _facts(path, form, notes, to_ms(now))
            if facts is None:
                _load_jobs(con, read_sacct(path, form, notes), result, period, form.cluster)
            else:
                table, columns = facts
                result.facts[table] = len(next(iter(columns.values()), ()))
                unnamed.append(facts)
            result.repaired, result.has_local_times = notes.repaired, notes.has_local_times
        _load_facts(con, unnamed, form, results)
        changed = slurm.merge(con)
        for result in results:
            for cluster, span in result.clusters.items():
                runs.log_run(con, KIND, cluster, (to_ms(span.start), to_ms(span.end)), rows=max(result.runs, 1))
            if result.facts and not result.clusters:
                # they tell of no time of their own, but what was attributed before does not know them
                con.execute("UPDATE attribution_state SET last_load_id = -1")
    return results, changed


def _facts(path: Path, form: SacctFormat, notes: Notes, seen_ms: int) -> Facts | None:
    if path.suffix == ".gz":
        return None
    try:
        with path.open("rb") as file:
            start = file.read(_LOOK).lstrip()
        if start.startswith(b"{") and b'"jobs"' in start:
            return None
        if path.stat().st_size > _FACTS_MOST:
            return None
        head = start.partition(b"\n")[0].lower()
        if not start.startswith(b"{") and (b"jobid" in head or form.fields):
            return None
        return read_facts(path.read_text(encoding="utf-8", errors="replace"), str(path), form, notes, seen_ms)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None


def _load_jobs(
    con: DuckDBPyConnection, batches: Iterable[Batch], result: SlurmResult, period: Period | None, cluster_given: str | None
) -> None:
    spans: dict[str, tuple[int, int]] = {}
    for batch in batches:
        columns = batch.runs
        result.runs += len(columns["job_id"])
        result.steps += len(batch.steps["job_id"])
        for cluster, submit, start, end, elapsed in zip(
            columns["cluster"], columns["submit_ms"], columns["start_ms"], columns["end_ms"], columns["elapsed_ms"], strict=True
        ):
            first = submit if start is None else start
            last = end if end is not None else first + (elapsed or 0)
            known = spans.get(cluster)
            spans[cluster] = (min(known[0], first), max(known[1], last)) if known else (first, last)
        slurm.stage(con, "slurm_runs", columns)
        slurm.stage(con, "slurm_steps", batch.steps)
    if period is not None and cluster_given and not spans:
        # an answer without jobs is one
        spans[cluster_given] = (0, 0)
    result.clusters = {
        cluster: period_of((to_ms(period.start), to_ms(period.end)) if period else (first, max(last, first + 1)))
        for cluster, (first, last) in spans.items()
    }


def _load_facts(con: DuckDBPyConnection, all_facts: Sequence[Facts], form: SacctFormat, results: Sequence[SlurmResult]) -> None:
    """Rows that name no cluster are of the one that is given, or of the only one that jobs name."""
    if not all_facts:
        return
    clusters = {cluster for result in results for cluster in result.clusters}
    if form.cluster:
        clusters = {form.cluster}
    elif not clusters:
        clusters = {name for (name,) in con.execute("SELECT DISTINCT source FROM loads WHERE kind = 'slurm'").fetchall()}
    for table, columns in all_facts:
        if None in columns.get("cluster", ()):
            if len(clusters) != 1:
                raise UsageError(
                    f"nothing tells of which cluster {table.removeprefix('slurm_')} are",
                    "--cluster NAME says it, as sacct's field Cluster spells it",
                )
            (cluster,) = clusters
            columns["cluster"] = [name or cluster for name in columns["cluster"]]
        slurm.stage(con, table, columns)
