"""The fixture of `gpucost demo`: ten weeks of a generated fleet, as tables with times in seconds since its first Monday."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from gpucost.collect.slurm.sacct import DELIMITER, FIELDS
from gpucost.demo.fixture import MOMENTS, STEP_S, TABLES
from gpucost.periods import Period
from gpucost.store.progress import ProgressBatch, ProgressSeries
from tests.sample import bill, slurm
from tests.sample.fleet import DAY, DemoFleet, plan
from tests.sample.samples import samples
from tests.sample.work import Work, work_of

#: Whole months from a Monday on; the fixture has the first ten weeks: two months of 31 days after six days.
MONTHS = Period(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC))
START = MONTHS.start_ms // 1000
SECONDS = 70 * DAY
#: The first month has a bill: 31 days and the six days before.
BILLED_FOR = timedelta(days=37)
BILLED = Period(MONTHS.start, MONTHS.start + BILLED_FOR)
#: The time of the call of sshare.
SHARES_AT = START + 65 * DAY

Rows = list[tuple[Any, ...]]


def write(folder: Path) -> list[Path]:
    """Write the tables into `folder` as Parquet; return the paths."""
    paths = []
    with duckdb.connect() as con:
        con.execute("SET threads = 1")
        for name, rows in tables().items():
            con.register(name, rows)
            paths.append(folder / f"{name}.parquet")
            con.execute(
                f"COPY {name} TO '{paths[-1]}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 19)"
            )
    return paths


def tables() -> dict[str, pa.Table]:
    """Return the rows of each table."""
    # a reservation is unused for some time, even if days at the beginning are cut off
    fleet = plan(MONTHS, unused_reservation_days=7)
    work = work_of(fleet, "demo")
    cluster = slurm.played(MONTHS)
    made = {
        "samples": _samples(fleet),
        "work": _work(work),
        "runs": _runs(work),
        "bill": _bill(fleet),
        "jobs": _jobs(cluster),
        "slurm": _slurm(cluster),
    }
    assert tuple(made) == TABLES
    return made


def _samples(fleet: DemoFleet) -> pa.Table:
    """Return a row per series, with a value for each scrape from its first sample to its last; NaN if missing."""
    rows = []
    for labels, times, values in samples(fleet):
        metric = labels["__name__"]
        seconds = times[times < START + SECONDS] - START
        if not len(seconds):
            continue
        scrapes = (seconds - seconds[0]) // STEP_S
        grid = np.full(scrapes[-1] + 1, np.nan)
        grid[scrapes] = values[: len(seconds)] - (START if metric in MOMENTS else 0)
        rows.append((metric, json.dumps(labels), int(seconds[0]), grid))
    rows.sort(key=lambda row: row[:3])
    return _table(
        rows, metric=pa.string(), labels=pa.string(), first_s=pa.int64(), vals=pa.list_(pa.float64())
    )


def _work(work: Work) -> pa.Table:
    rows = []
    for source, batch in (("demo", work.counted), ("mlflow", work.epochs)):
        rows += [(source, *row) for row in _values(batch)]
    numbers = pa.list_(pa.int64())
    return _table(rows, source=pa.string(), series=pa.string(), at_s=numbers, vals=numbers)


def _values(batch: ProgressBatch) -> Iterator[tuple[str, list[int], list[int]]]:
    for series, at_ms, values in zip(batch.series, batch.at_ms, batch.values, strict=True):
        seconds = at_ms // 1000 - START
        inside = seconds < SECONDS
        if inside.any():
            yield _json(series), seconds[inside].tolist(), values[inside].astype(int).tolist()


def _json(series: ProgressSeries) -> str:
    return json.dumps(series._asdict())


def _runs(work: Work) -> pa.Table:
    rows = []
    for run in work.runs:
        started, ended = run.started_ms // 1000 - START, run.ended_ms // 1000 - START
        if started < SECONDS:
            rows.append((json.dumps(run._asdict() | {"started_ms": 0, "ended_ms": 0}), started, ended))
    return _table(rows, run=pa.string(), from_s=pa.int64(), to_s=pa.int64())


def _bill(fleet: DemoFleet) -> pa.Table:
    with TemporaryDirectory() as folder, duckdb.connect() as con:
        con.read_parquet(str(bill.write(fleet, BILLED, Path(folder)))).create_view("cur")
        statements = Path(__file__).with_name("bill_parts.sql").read_text(encoding="utf-8")
        return con.sql(statements, params={"start": BILLED.start, "end": BILLED.end}).to_arrow_table()


def _jobs(cluster: slurm.Scheduler) -> pa.Table:
    """Return the output of sacct, with times as numbers."""
    text = slurm.jobs(cluster).replace("Unknown", "").splitlines()
    rows = []
    for line in text[1:]:
        row = dict(zip(FIELDS, line.split(DELIMITER), strict=True))
        times = {name: int(row[name]) - START if row[name] else None for name in _TIMES}
        if times["Submit"] < SECONDS:
            rows.append(tuple(value if value != "" else None for value in (row | times).values()))
    kinds = {name: pa.int64() if name in _TIMES else pa.string() for name in FIELDS}
    return _table(rows, **kinds)


_TIMES = ("Submit", "Eligible", "Start", "End")


def _slurm(cluster: slurm.Scheduler) -> pa.Table:
    """Return lines of Slurm's other commands; braces replace beginning and end."""
    rows = []
    for name, text in slurm.facts().items():
        rows += [(name, None, None, line) for line in text.splitlines()]
    rows += [("slurm-shares.psv", None, None, line) for line in _shares(cluster).splitlines()]
    for name, start, end, node, account in cluster.reservations:
        rows.append(
            (
                "slurm-reservations.txt",
                start - START,
                end - START,
                slurm.reservation(name, "{}", "{}", node, account),
            )
        )
    for node, start, end, state, why in cluster.events:
        rows.append(
            ("slurm-events.psv", start - START, end - START, slurm.event(node, "{}", "{}", state, why))
        )
    rows = [(number, *row) for number, row in enumerate(rows)]
    return _table(
        rows, number=pa.int64(), file=pa.string(), from_s=pa.int64(), to_s=pa.int64(), line=pa.string()
    )


def _shares(cluster: slurm.Scheduler) -> str:
    """Return the output of sshare at SHARES_AT."""
    runs = [run for run in cluster.runs if run.start is not None and run.start < SHARES_AT]
    return slurm.shares([replace(run, end=min(run.end or SHARES_AT, SHARES_AT)) for run in runs], SHARES_AT)


def _table(rows: Sequence[tuple[Any, ...]], **columns: pa.DataType) -> pa.Table:
    values = zip(*rows, strict=True)
    arrays = [pa.array(column, type=kind) for column, kind in zip(values, columns.values(), strict=True)]
    return pa.table(arrays, names=list(columns))
