"""Collect runs of an MLflow tracking server: their times, places, and completed epochs."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import numpy as np

from gpucost import http
from gpucost.collect.base import OVERLAP_MS, month_start_ms
from gpucost.collect.progress.mappings import levels
from gpucost.config.model import Mlflow
from gpucost.config.secrets import from_environment, secret
from gpucost.errors import SourceError
from gpucost.inputs import JsonObject
from gpucost.periods import Period, from_ms, to_ms
from gpucost.records import frozen_dataclass
from gpucost.store import runs as log
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs
from gpucost.texts import conceal

_PAGE = 1000
_LONGEST_SECONDS = 600.0
_LARGEST_BYTES = 64 << 20
_LATER = "collect again later: loaded data is kept"
_LOGIN = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
_ADDRESS = "set url in [mlflow] of gpucost.toml to the base URL, without /api/2.0"


def server_of(settings: Mlflow) -> http.JsonServer:
    """The server, with the login from the settings or the environment. Raises SourceError."""
    url = settings.url or ""
    session = http.session(url, _LONGEST_SECONDS, _LARGEST_BYTES, settings.tls, "mlflow")
    token = secret("mlflow", "token", settings.token_file, settings.token_env, SourceError)
    token = token or from_environment("MLFLOW_TRACKING_TOKEN")
    if user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        password = from_environment("MLFLOW_TRACKING_PASSWORD")
        conceal(f"{user}:{password}")  # as in the header
        session.auth = (user, password)
    elif token:
        session.headers["Authorization"] = f"Bearer {token}"
    return http.JsonServer(
        f"MLflow at {url}", session, _LOGIN, _ADDRESS, _LATER, seconds=settings.timeout_seconds
    )


def pages(
    server: http.JsonServer, settings: Mlflow, path: str, query: JsonObject, *, is_get: bool = False
) -> Iterator[JsonObject]:
    """The items of a path: for example, `runs` of `runs/search`."""
    url = f"{settings.url}/api/2.0/mlflow/{path}"
    page = {**query, "max_results": _PAGE}
    token = ""
    while True:
        if is_get:
            answer = server.ask("GET", url, params=page, is_whole=_is_text, allow_redirects=False)
        else:
            answer = server.ask("POST", url, json=page, is_whole=_is_text, allow_redirects=False)
        yield from answer.get(path.partition("/")[0]) or []
        before, token = token, str(answer.get("next_page_token") or "")
        if not token or token == before:
            return
        page["page_token"] = token


def _is_text(answer: object) -> bool:
    """Check that all names are text; half a surrogate pair is not. Raises ValueError."""
    return bool(json.dumps(answer, ensure_ascii=False).encode())


KIND = "progress"
_PLANNED = "epochs max_epochs num_epochs num_train_epochs n_epochs total_epochs"
_PARENT = "mlflow.parentRunId"


@frozen_dataclass
class MlflowResult:
    """The result of a run of the collector: MLflow runs, runs with a known place, and logged epochs."""

    source: str
    period: Period
    runs: int
    placed: int
    epochs: int


def collect_mlflow(settings: Mlflow, store: Store, period: Period | None, timezone: ZoneInfo) -> MlflowResult:
    """Collect the runs active in `period`; by default since the last collection, or in the current month.

    A run that is collected again replaces its earlier data. Raises SourceError if the server does not answer.
    """
    if period is None:
        moment = datetime.now(UTC)
        with store.write() as con:
            ends = [end - OVERLAP_MS for _, end in log.loaded(con, KIND, settings.source)]
        start = max(ends, default=month_start_ms(moment, timezone))
        period = Period(from_ms(min(start, to_ms(moment) - 1)), moment)
    server = server_of(settings)
    try:
        collected, batch = _read(server, settings, period)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise SourceError(f"{server.name} does not answer with MLflow's JSON", _ADDRESS) from None
    span = (period.start_ms, period.end_ms)
    with store.write() as con:
        load = load_runs(con, settings.source, span, collected, batch)
        log.log_run(con, KIND, settings.source, span, rows=len(collected) + load.values, dropped=load.dropped)
    placed = sum(1 for run in collected if run.pod or run.workload)
    return MlflowResult(settings.source, period, len(collected), placed, load.values)


def _read(
    server: http.JsonServer, settings: Mlflow, period: Period
) -> tuple[list[ProgressRun], ProgressBatch]:
    wanted = settings.experiments or ["*"]
    runs = {}
    for experiment in pages(server, settings, "experiments/search", {}):  # runs that are not deleted
        name = str(experiment.get("name", ""))
        if any(fnmatchcase(name, pattern) for pattern in wanted):
            query = {
                "experiment_ids": [str(experiment["experiment_id"])],
                "filter": f"attributes.start_time < {period.end_ms}",
                "run_view_type": "ACTIVE_ONLY",
            }
            for item in pages(server, settings, "runs/search", query):
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
        logged = []
        query = {"run_id": run.run_id, "metric_key": metric}
        for item in pages(server, settings, "metrics/get-history", query, is_get=True):
            step = float(item.get("step") or 0)
            number = _number(item.get("value")) if by_value else step
            logged.append((int(item["timestamp"]), step, number))
        times, reached = levels(logged, settings.marks)
        series = ProgressSeries(
            "mlflow", "epoch", "gauge", (("metric", metric),), run.cluster, run.namespace, run.pod, run.workload,
            run_id=run.run_id, marks=settings.marks,
        )  # fmt: skip
        if times:
            batch.add(series, np.array(times, dtype=np.int64), np.array(reached, dtype=np.float64))
    return list(runs.values()), batch


def _run(item: JsonObject, experiment: str, settings: Mlflow) -> ProgressRun:
    info, data = item["info"], item.get("data") or {}
    tags, params, metrics = (
        {str(entry["key"]): str(entry.get("value", "")) for entry in data.get(name) or []}
        for name in ("tags", "params", "metrics")
    )

    def tag(names: list[str]) -> str:
        return next((tags[name] for name in names if tags.get(name)), "")

    planned = (_number(params.get(name)) for name in _PLANNED.split())
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
        planned_epochs=next((number for number in planned if 0 < number < math.inf), 0.0),
        metrics={name: value for name, text in metrics.items() if math.isfinite(value := _number(text))},
    )


def _placed(run: ProgressRun, runs: Mapping[str, ProgressRun]) -> ProgressRun:
    """A trial without a place ran at its sweep's place."""
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


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan
