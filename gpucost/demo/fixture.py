"""The fixture of the sample fleet, with times in seconds since a Monday, `base_s`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from gpucost.collect.slurm.sacct import DELIMITER
from gpucost.engine import run_stage
from gpucost.periods import MS_PER_HOUR, Period, to_ms
from gpucost.records import DuckDBPyConnection
from gpucost.store import bill_files
from gpucost.store.metrics import ReadAnswer
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries

FOLDER = Path(__file__).parent
TABLES = ("samples", "work", "runs", "bill", "jobs", "slurm")
# Seconds between the samples of a series.
STEP_S = 600
# Metrics whose values are times.
MOMENTS = ("kube_node_created", "kube_pod_completion_time", "kube_pod_status_scheduled_time")
# Names of its files in a demo's folder.
BILLS, SLURM = "cur-*.parquet", "slurm-*"


def base_of(period: Period) -> int:
    """The fixture's start for a period: the last Monday on or before the period's start."""
    monday = period.start - timedelta(days=period.start.weekday())
    return to_ms(monday) // 1000


@contextmanager
def opened(folder: Path) -> Iterator[DuckDBPyConnection]:
    """A connection with a view of each table, which can write files into `folder`."""
    with bill_files.workspace(folder, FOLDER) as con:
        for name in TABLES:
            con.read_parquet(bill_files.pattern(FOLDER / f"{name}.parquet")).create_view(name)
        yield con


def answers(con: DuckDBPyConnection, base_s: int) -> Iterator[ReadAnswer]:
    """All samples, an answer for each metric."""
    rows = con.execute("SELECT * FROM samples").fetchnumpy()
    metrics = np.asarray(rows["metric"])
    for metric in np.unique(metrics):
        of_metric = np.flatnonzero(metrics == metric)
        parts = rows["vals"][of_metric]
        lengths = [len(part) for part in parts]
        first_s = np.repeat(rows["first_s"][of_metric], lengths)
        later_s = STEP_S * np.concatenate([np.arange(length) for length in lengths])
        values = np.concatenate(parts) + (base_s if metric in MOMENTS else 0)
        answer = ReadAnswer(
            series=[json.loads(labels) for labels in rows["labels"][of_metric]],
            series_index=np.repeat(np.arange(len(parts), dtype=np.int32), lengths),
            ts_ms=(base_s + first_s + later_s) * 1000,
            values=values,
        ).only(~np.isnan(values))
        yield answer if metric.startswith("DCGM") else _thinned(answer)


def _thinned(answer: ReadAnswer) -> ReadAnswer:
    """The same answer without samples between two of equal series, hour and value."""
    same = np.ones(len(answer.ts_ms) - 1, dtype=bool)
    for column in (answer.series_index, answer.ts_ms // MS_PER_HOUR, answer.values):
        same &= column[1:] == column[:-1]
    between = np.concatenate(([False], same[:-1] & same[1:], [False]))
    left_out = np.diff(np.flatnonzero(~between), prepend=-1) - 1
    return replace(answer.only(~between), left_out=left_out.astype(np.int32))


def work(con: DuckDBPyConnection, base_s: int, period: Period, source: str) -> ProgressBatch:
    """Units of work that a source counted in the period."""
    batch = ProgressBatch()
    rows = con.execute("SELECT series, at_s, vals FROM work WHERE source = $1", [source]).fetchnumpy()
    for series, at_s, values in zip(rows["series"], rows["at_s"], rows["vals"], strict=True):
        fields = json.loads(series)
        fields["labels"] = tuple(map(tuple, fields["labels"]))
        at_ms = (at_s + base_s) * 1000
        inside = (at_ms >= period.start_ms) & (at_ms < period.end_ms)
        batch.add(ProgressSeries(**fields), at_ms[inside], values[inside].astype(np.float64))
    return batch


_RUNS = """
SELECT run, from_s + $base_s, to_s + $base_s FROM runs WHERE from_s + $base_s < $to_s AND to_s + $base_s > $from_s"""


def tracked(con: DuckDBPyConnection, base_s: int, period: Period) -> list[ProgressRun]:
    """The experiment tracker's runs of the period; runs that end later are running."""
    runs = []
    for text, start_s, end_s in con.execute(_RUNS, {"base_s": base_s, **_seconds(period)}).fetchall():
        fields = json.loads(text) | {"started_ms": start_s * 1000, "ended_ms": end_s * 1000}
        if end_s * 1000 > period.end_ms:
            fields |= {"status": "RUNNING", "ended_ms": 0, "metrics": {}}
        runs.append(ProgressRun(**fields))
    return runs


def write_bill(con: DuckDBPyConnection, base_s: int, month: Period, folder: Path) -> Path:
    """Write a month's bill as Parquet; return its path."""
    path = folder / BILLS.replace("*", f"{month.start:%Y-%m}")
    run_stage(con, __package__, "bill", {"base_s": base_s, **_seconds(month)})
    con.table("cur").write_parquet(str(path))
    return path


_LINES = """
SELECT file, string_agg(format(line, greatest(from_s + $base_s, $from_s), least(to_s + $base_s, $to_s)), chr(10) ORDER BY number)
FROM slurm
WHERE from_s IS NULL OR (from_s + $base_s < $to_s AND to_s + $base_s > $from_s)
GROUP BY file"""


def write_slurm(con: DuckDBPyConnection, base_s: int, period: Period, folder: Path) -> list[Path]:
    """Write the output of Slurm's commands for the period; return the paths, jobs first."""
    params = {"base_s": base_s, **_seconds(period)}
    run_stage(con, __package__, "jobs", params)
    paths = [folder / "slurm-jobs.psv"]
    con.table("sacct").write_csv(str(paths[0]), sep=DELIMITER, header=True)
    for name, text in con.execute(_LINES, params).fetchall():
        paths.append(folder / name)
        paths[-1].write_text(f"{text}\n", "utf-8")
    return paths


def _seconds(period: Period) -> dict[str, int]:
    return {"from_s": period.start_ms // 1000, "to_s": period.end_ms // 1000}
