"""Short notations for Slurm accounting data, and clusters of it in one store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest

from gpucost import pipeline
from gpucost.collect.slurm.collector import import_files
from gpucost.collect.slurm.sacct import SacctFormat
from gpucost.config.load import load_config
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.questions.waste import waste_report
from gpucost.render.view import ReportView, Row
from gpucost.store import slurm
from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.replay.cases.words import at, fleet
from tests.replay.edits import move
from tests.replay.load import load as load_series
from tests.replay.result import total, unpaid
from tests.replay.series import Series
from tests.text_tables import words

_COLUMNS = "JobID JobIDRaw JobName Cluster Account User Partition QOS State Submit Start End ElapsedRaw NodeList AllocTRES"
FIELDS = _COLUMNS.split()
T = at(0)  # 2026-03-10T00:00Z
H, DAY = 3600, 86_400
NODES = (
    "NodeName=n1 Gres=gpu:a100:4 Partitions=gpu,debug State=IDLE\n"
    "NodeName=n2 Gres=gpu:a100:2,gpu:v100:2 Partitions=gpu State=IDLE\n"
)
HEADER = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start,node_selector,per"
ALL_GPUS = ",,,,on_demand,3.6,USD,,,gpu"
Job = dict[str, Any]
#: GPU-hours of a job: active, idle, unmeasured; and its mean utilization.
Measured = tuple[float, float, float, float | None]


def tres(gpus: float, kind: str = "") -> str:
    typed = f"gres/gpu:{kind}={gpus:g}," if kind else ""
    return f"cpu=1,{typed}gres/gpu={gpus:g},node=1"


def job(number: int, start: int, end: int | None, nodes: str, held: str, **more: Any) -> Job:
    """A run of a job, in seconds after T.

    If `end` is None, it still runs at second 7200.
    """
    spec = words(f"""
        JobID={number} JobIDRaw={number} JobName=job-{number} Cluster=hpc Account=nlp User=ann Partition=gpu QOS=normal
        State={"RUNNING" if end is None else "COMPLETED"} Submit={T + start} Start={T + start}
        End={"Unknown" if end is None else T + end} NodeList={nodes} AllocTRES={held}""")
    return spec | {"ElapsedRaw": (7200 if end is None else end) - start, **more}


def rows(table: str) -> list[dict[str, Any]]:
    """Rows of a table by the names in its head; "-" is an empty cell."""
    head, *lines = (line.split() for line in table.strip().splitlines())
    return [
        {name: cell if cell != "-" else "" for name, cell in zip(head, line, strict=True)} for line in lines
    ]


def jobs(table: str) -> list[Job]:
    """Runs of jobs and their steps, in seconds after T.

    A running job has no end, and a waiting job has no start. GPUs are a count, a model and a count (a100:4),
    or the whole AllocTRES text of sacct. A table of these columns needs no head; other columns are fields of
    sacct.
    """
    head = "" if table.lstrip().startswith("job") else "job start end nodes gpus\n"
    return [_run(row) for row in rows(head + table.lstrip())]


def _run(row: Job) -> Job:
    name, start, end, gpus = (row.pop(column) for column in ("job", "start", "end", "gpus"))
    kind, _, count = gpus.rpartition(":")
    held = tres(float(count), kind) if count.isdecimal() else gpus or "cpu=1,node=1"
    for column in ("Submit", "Eligible"):
        if column in row:
            row[column] = T + int(row[column])
    if not start:
        held, row = "", row | {"State": "PENDING", "Start": "Unknown", "ElapsedRaw": 0}
    number, _, step = name.partition(".")
    if step:
        row |= {"JobID": name, "JobIDRaw": name}
    return job(int(number), int(start or 0), int(end) if end else None, row.pop("nodes"), held, **row)


def text(jobs: list[Job], mark: str = "|", end: str = "\n", fields: list[str] = FIELDS) -> str:
    return (
        end.join([mark.join(fields), *(mark.join(str(one.get(name, "")) for name in fields) for one in jobs)])
        + end
    )


def down(*events: tuple[str, int, int, str]) -> str:
    """Node events: name, seconds after T, state."""
    lines = "".join(f"hpc|{node}|{T + start}|{T + end}|{state}|why\n" for node, start, end, state in events)
    return (
        f"Cluster|NodeName|TimeStart|TimeEnd|State|Reason\nhpc||{T}|Unknown||Cluster Registered TRES\n{lines}"
    )


def dcgm(node: str, gpus: Mapping[str, tuple[float, Mapping[str, str]]]) -> list[Series]:
    """Two hours of a node's GPUs: the utilization of each, and more labels."""
    ticks = np.arange(T, T + 7200, 60, dtype=np.int64) * 1000
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm", "Hostname": node}
    return [
        Series({**labels, "UUID": f"GPU-{gpu}", **more}, ticks, np.full(len(ticks), float(busy)))
        for gpu, (busy, more) in gpus.items()
    ]


def days(first: int, after: int) -> Period:
    """From a day of March 2026 to another."""
    return Period(*(datetime(2026, 3, day, tzinfo=UTC) for day in (first, after)))


@dataclass
class Scene:
    """The loads of a cluster and the expected results; `hpc` is replaced by the cluster's name.

    Expected are GPU-seconds by the values of a dimension; sums of GPU-hours and money; the active, idle and
    unmeasured hours of a job and its mean utilization; and for each warning in WARNINGS, words of its message
    or fix.
    """

    loads: list[list[str]]
    held: dict[str, dict[str, float]] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    warned: dict[str, tuple[str, ...]] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    periods: list[Period | None] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)


WARNINGS = ("over_allocated", "slurm_even_placement", "slurm_requeues_hidden", "unproven_machine")


def scene(
    spec: list[Job] | str, expected: str = "", *facts: str, more: Iterable[list[Job] | str] = (), **known: Any
) -> Scene:
    """One load of jobs with facts (NODES by default), and more loads of jobs with the same facts.

    Expected are lines of GPU-seconds by the values of a dimension, as in `namespace nlp=14400 cv=3600`, and
    one line of `sums`.
    """
    loads = [[one if isinstance(one, str) else text(one), *(facts or (NODES,))] for one in (spec, *more)]
    held: dict[str, dict[str, float]] = {}
    for name, *cells in (line.split() for line in expected.strip().splitlines()):
        pairs = [cell.rsplit("=", 1) for cell in cells]
        held[name] = {key: float(value) for key, value in pairs}
    return Scene(loads, held, held.pop("sums", {}), **known)


class Clusters:
    """Clusters in one store, attributed together."""

    def __init__(
        self, folder: Path, scenes: Mapping[str, Scene], book: str = ALL_GPUS, settings: str = ""
    ) -> None:
        self.names = {name: f"hpc{number}x" for number, name in enumerate(scenes)}
        (folder / "prices.csv").write_text(f"{HEADER}\n{book}\n")
        self._configure(folder, "a", settings)
        series = [moved for name, one in scenes.items() for moved in move(one.series, self.names[name])]
        for number in range(max((len(one.loads) for one in scenes.values()), default=0)):
            with self.at_once():
                for name, one in scenes.items():
                    for texts in one.loads[number : number + 1]:
                        self.load(
                            self.names[name], texts, one.periods[number] if one.periods else None, **one.form
                        )
        if series:
            nodes = [{"cluster": name, "name": "n1"} for name in self.names.values()]
            load_series(fleet(2, nodes, [], {}), series, self.config)

    def _configure(self, folder: Path, name: str, settings: str) -> None:
        path = folder / f"{name}.toml"
        path.write_text(f'store = "{name}.duckdb"\n[prices]\nbook = "prices.csv"\n{settings}')
        self.config = load_config(path, environ={}, cwd=folder)
        self.store = Store(self.config.store)
        self._rows: dict[str, list[Row]] = {}

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Merge the loads of several clusters once, like the load of several files."""
        merge = slurm.merge
        with self.store.write() as con, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "write", lambda _: nullcontext(con))
            patch.setattr(slurm, "merge", lambda _: 0)
            yield
            merge(con)

    def load(self, cluster: str, texts: list[str], period: Period | None = None, **form: Any) -> None:
        paths = [self.config.store.with_name(f"{cluster}-{number}") for number, _ in enumerate(texts)]
        for path, content in zip(paths, texts, strict=True):
            path.write_text(content.replace("hpc", cluster), encoding="utf-8")
        import_files(
            self.store,
            paths,
            SacctFormat(**{"cluster": cluster, **form}),
            period,
            datetime(2026, 3, 20, tzinfo=UTC),
        )

    def copy(self, settings: str) -> Clusters:
        """The same clusters in another store, with other settings."""
        other = copy(self)
        other._configure(self.config.store.parent, "b", settings)
        copyfile(self.config.store, other.config.store)
        return other

    @contextmanager
    def attributed(self) -> Iterator[Clusters]:
        pipeline.attribute(self.config, self.store)
        assert not unpaid(self.store)
        with self.store.read():  # while it is open, opening it again costs nothing
            yield self

    def view(self, by: str, *clusters: str, period: Period | None = None) -> ReportView:
        keys = tuple(by.split(","))
        query = Query(
            period or days(10, 12), "", keys, clusters=clusters, with_sections=False, may_be_absent=True
        )
        return reading.report(self.config, self.store, query)

    def rows(self, name: str, by: str) -> list[Row]:
        """Rows of one cluster; the report of all clusters is made once."""
        if by not in self._rows:
            self._rows[by] = self.view(f"cluster,{by}", period=days(10, 20)).rows  # type: ignore[assignment]
        return [row for row in self._rows[by] if row.keys["cluster"] == self.names[name]]

    def held(self, name: str, by: str) -> dict[str | None, float]:
        """GPU-seconds by a dimension."""
        rows = [row for row in self.rows(name, by) if row.kind == "allocated"]
        return {row.keys[by]: row.measures.allocated_gpu_hours * H for row in rows}

    def sql(self, name: str, statement: str) -> list[tuple[Any, ...]]:
        """Rows of a statement whose parameter $1 is the cluster."""
        with self.store.read() as con:
            return con.execute(statement, [self.names[name]]).fetchall()

    def warnings(self, name: str) -> dict[str, str]:
        """Message and fix by code, with the cluster named hpc."""
        found = self.sql(
            name, "SELECT code, message || '; ' || coalesce(fix, '') FROM warnings WHERE cluster = $1"
        )
        return {
            code: message_text.replace(self.names[name], "hpc")
            for code, message_text in found
            if code in WARNINGS
        }

    def sums(self, name: str) -> dict[str, float]:
        """Total GPU-hours and costs, by the names of `Figures`."""
        figures = total(self.store, T * 1000, (T + 10 * DAY) * 1000, self.names[name])
        return {what: float(getattr(figures, what)) for what in Figures.__dataclass_fields__}

    def measured(self, name: str) -> dict[str | None, Measured]:
        found = {row.keys["pod"]: row.measures for row in self.rows(name, "pod") if row.kind == "allocated"}
        return {
            pod: (
                round(m.active_gpu_hours, 2),
                round(m.idle_gpu_hours, 2),
                round(m.unmeasured_gpu_hours, 2),
                m.avg_utilization and round(m.avg_utilization, 6),
            )
            for pod, m in found.items()
        }

    def wasted(self, name: str) -> dict[str, float]:
        """GPU-hours by bucket of waste."""
        query = Query(days(10, 12), "", ("node",), clusters=(self.names[name],), with_sections=False)
        return {
            one.bucket: one.gpu_hours
            for one in waste_report(self.config, self.store, query, query)[1].buckets
        }
