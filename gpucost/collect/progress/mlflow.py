"""Collects runs of an MLflow tracking server: when they ran, what they belong to, and when they finished which epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from gpucost.collect.progress.levels import levels
from gpucost.collect.progress.mlflow_client import MlflowClient
from gpucost.collect.windows import OVERLAP_MS
from gpucost.model import Period, from_ms, to_ms
from gpucost.store import runs as log
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpucost.config import Mlflow
    from gpucost.store import Store

KIND = "progress"
_PLANNED = ("epochs", "max_epochs", "num_epochs", "num_train_epochs", "n_epochs", "total_epochs")
_PARENT = "mlflow.parentRunId"


@dataclass(frozen=True, slots=True)
class MlflowResult:
    """What a run of the collector brought: runs, how many of them say where they ran, and logged epochs."""

    source: str
    period: Period
    runs: int
    placed: int
    epochs: int


def collect_mlflow(
    settings: Mlflow,
    store: Store,
    period: Period | None,
    now: datetime | None = None,
    timezone: ZoneInfo | None = None,
    pause: float = 0.5,
) -> MlflowResult:
    """Collects the runs that were alive in `period`; without one since the last collection, or of the current month.

    A run that is collected again replaces what was known of it. Raises SourceError where the server does not answer.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    if period is None:
        with store.write() as con:
            loaded = log.loaded(con, KIND, settings.source)
        month = moment.astimezone(timezone or ZoneInfo("UTC")).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        start = max((end for _, end in loaded), default=to_ms(month) + OVERLAP_MS) - OVERLAP_MS
        period = Period(from_ms(min(start, to_ms(moment) - 1)), moment)
    client = MlflowClient(settings, pause)
    try:
        found, batch = _read(client, settings, period)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise client.not_mlflow() from None
    finally:
        client.close()
    span = (period.start_ms, period.end_ms)
    with store.write() as con:
        run_id = log.begin(con, KIND, settings.source, span)
        loaded_now = load_runs(con, settings.source, span, found, batch)
        log.log_load(con, run_id, KIND, settings.source, span, rows=len(found) + loaded_now.values, dropped=loaded_now.dropped)
        log.finish(con, run_id)
    placed = sum(1 for run in found if run.pod or run.workload)
    return MlflowResult(settings.source, period, len(found), placed, loaded_now.values)


def _read(client: MlflowClient, settings: Mlflow, period: Period) -> tuple[list[ProgressRun], ProgressBatch]:
    wanted = settings.experiments or ["*"]
    runs: dict[str, ProgressRun] = {}
    for experiment in client.experiments():
        name = str(experiment.get("name", ""))
        if any(fnmatchcase(name, pattern) for pattern in wanted):
            for item in client.runs(str(experiment["experiment_id"]), period.end_ms):
                run = _run(item, name, settings)
                if not run.ended_ms or run.ended_ms >= period.start_ms:
                    runs[run.run_id] = run
    runs = {run_id: _placed(run, runs) for run_id, run in runs.items()}
    batch = ProgressBatch()
    for run in runs.values():
        by_value = settings.epoch_metric in run.metrics
        metric = settings.epoch_metric if by_value else settings.step_metric
        if metric is None or metric not in run.metrics:
            continue
        times, reached = levels(_logged(client.history(run.run_id, metric), by_value=by_value), settings.marks)
        series = ProgressSeries(
            "mlflow", "epoch", "gauge", (("metric", metric),), run.cluster, run.namespace, run.pod, run.workload,
            run_id=run.run_id, marks=settings.marks,
        )  # fmt: skip
        if times:
            batch.add(series, np.array(times, dtype=np.int64), np.array(reached, dtype=np.float64))
    return list(runs.values()), batch


def _run(item: Mapping[str, Any], experiment: str, settings: Mlflow) -> ProgressRun:
    info, data = item["info"], item.get("data") or {}
    tags = {str(tag["key"]): str(tag.get("value", "")) for tag in data.get("tags") or []}
    params = {str(param["key"]): str(param.get("value", "")) for param in data.get("params") or []}

    def tag(names: list[str]) -> str:
        return next((tags[name] for name in names if tags.get(name)), "")

    metrics = {str(metric["key"]): _number(metric.get("value")) for metric in data.get("metrics") or []}
    return ProgressRun(
        run_id=str(info.get("run_id") or info.get("run_uuid")),
        parent_id=tags.get(_PARENT, ""),
        experiment=experiment,
        name=str(info.get("run_name") or tags.get("mlflow.runName") or info.get("run_id")),
        status=str(info.get("status") or "RUNNING"),
        started_ms=int(info.get("start_time") or 0),
        ended_ms=int(info.get("end_time") or 0),
        cluster=tag(settings.cluster_tags),
        namespace=tag(settings.namespace_tags),
        pod=tag(settings.pod_tags),
        workload=tag(settings.workload_tags),
        planned_epochs=next((n for name in _PLANNED if 0 < (n := _number(params.get(name))) < math.inf), 0.0),
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
    )


def _placed(run: ProgressRun, runs: Mapping[str, ProgressRun]) -> ProgressRun:
    """A trial that says nothing of where it ran, ran where its sweep says."""
    parent = runs.get(run.parent_id)
    seen = {run.run_id}
    while parent is not None and not (run.pod or run.workload) and parent.run_id not in seen:
        seen.add(parent.run_id)
        run = run._replace(
            cluster=run.cluster or parent.cluster,
            namespace=run.namespace or parent.namespace,
            pod=parent.pod,
            workload=parent.workload,
        )
        parent = runs.get(parent.parent_id)
    return run


def _logged(history: Iterable[Mapping[str, Any]], *, by_value: bool) -> Iterator[tuple[int, float, float]]:
    for item in history:
        step = float(item.get("step") or 0)
        yield int(item["timestamp"]), step, _number(item.get("value")) if by_value else step


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan
