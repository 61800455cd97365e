"""Collects runs of an MLflow tracking server: when they ran, what they belong to, and when they finished which epoch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import requests
from requests.auth import HTTPBasicAuth

from gpucost import http
from gpucost.collect.base import OVERLAP_MS, month_start_ms
from gpucost.collect.progress.mappings import levels
from gpucost.collect.prometheus.parse import Garbled, whole_json
from gpucost.config.model import Mlflow
from gpucost.config.secrets import from_environment, secret
from gpucost.errors import SourceError
from gpucost.inputs import JsonObject
from gpucost.periods import Period, from_ms, to_ms
from gpucost.records import record
from gpucost.store import runs as log
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs
from gpucost.texts import conceal

_PAGE = 1000
_LONGEST_SECONDS = 600.0
_LARGEST_BYTES = 64 << 20
_LATER = "collect again later: what was loaded is kept"
_LOGIN = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
_ADDRESS = "set url in [mlflow] of gpucost.toml to what stands before /api/2.0"


class MlflowClient:
    """Answers of one server. Raises SourceError, in words, where it gives none; `pause` is the first pause before another try."""

    def __init__(self, settings: Mlflow, pause: float = 0.5) -> None:
        self._url = settings.url
        self._pause = pause
        self._seconds = settings.timeout_seconds
        self._session = http.session(
            settings.url or "", _LONGEST_SECONDS, _LARGEST_BYTES, settings.tls, "mlflow"
        )
        token = secret("mlflow", "token", settings.token_file, settings.token_env, SourceError)
        self._session.auth = partial(_log_in, token or from_environment("MLFLOW_TRACKING_TOKEN"))

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def not_mlflow(self) -> SourceError:
        """What an answer means that MLflow does not give."""
        return SourceError(f"{self._url} answers with something that is not MLflow's JSON", _ADDRESS)

    def pages(self, path: str, query: JsonObject, *, is_get: bool = False) -> Iterator[JsonObject]:
        """The items that the server has under a path such as `runs/search`: `runs`."""
        page = {**query, "max_results": _PAGE}
        token = ""
        while True:
            try:
                ask = partial(self._page, "GET" if is_get else "POST", path, page)
                answer = http.retry(ask, attempts=5, initial=self._pause, longest_wait=60.0)
            except http.TransientError as error:
                raise SourceError(error.message, _LATER) from None
            yield from answer.get(path.partition("/")[0]) or []
            before, token = token, str(answer.get("next_page_token") or "")
            if not token or token == before:
                return
            page["page_token"] = token

    def _page(self, method: str, path: str, page: JsonObject) -> JsonObject:
        url, timeout = f"{self._url}/api/2.0/mlflow/{path}", (min(10.0, self._seconds), self._seconds)
        query = {"params": page} if method == "GET" else {"json": page}
        try:
            response = self._session.request(method, url, timeout=timeout, allow_redirects=False, **query)  # type: ignore[arg-type]
            if response.status_code != 200:
                raise http.refused(f"MLflow at {self._url}", response, _LOGIN, _ADDRESS)
            answer = whole_json(response.content)
        except Garbled:
            raise self.not_mlflow() from None
        except requests.RequestException as error:
            raise http.undelivered("MLflow", f"MLflow at {self._url}", error) from None
        if not isinstance(answer, dict):
            raise self.not_mlflow()
        return answer


def _log_in(token: str, request: requests.PreparedRequest) -> requests.PreparedRequest:
    if user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        password = from_environment("MLFLOW_TRACKING_PASSWORD")
        conceal(f"{user}:{password}")  # as the header has it
        HTTPBasicAuth(user, password)(request)
    elif token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


KIND = "progress"
_PLANNED = "epochs max_epochs num_epochs num_train_epochs n_epochs total_epochs"
_PARENT = "mlflow.parentRunId"


@record
class MlflowResult:
    """What a run of the collector brought: runs, how many of them say where they ran, and logged epochs."""

    source: str
    period: Period
    runs: int
    placed: int
    epochs: int


def collect_mlflow(
    settings: Mlflow, store: Store, period: Period | None, timezone: ZoneInfo, pause: float = 0.5
) -> MlflowResult:
    """Collects the runs that were alive in `period`; without one since the last collection, or of the current month.

    A run that is collected again replaces what was known of it. Raises SourceError where the server does not answer.
    """
    if period is None:
        moment = datetime.now(UTC)
        with store.write() as con:
            ends = [end - OVERLAP_MS for _, end in log.loaded(con, KIND, settings.source)]
        start = max(ends, default=month_start_ms(moment, timezone))
        period = Period(from_ms(min(start, to_ms(moment) - 1)), moment)
    with closing(MlflowClient(settings, pause)) as client:
        try:
            collected, batch = _read(client, settings, period)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise client.not_mlflow() from None
    span = (period.start_ms, period.end_ms)
    with store.write() as con:
        load = load_runs(con, settings.source, span, collected, batch)
        log.log_run(con, KIND, settings.source, span, rows=len(collected) + load.values, dropped=load.dropped)
    placed = sum(1 for run in collected if run.pod or run.workload)
    return MlflowResult(settings.source, period, len(collected), placed, load.values)


def _read(client: MlflowClient, settings: Mlflow, period: Period) -> tuple[list[ProgressRun], ProgressBatch]:
    wanted = settings.experiments or ["*"]
    runs: dict[str, ProgressRun] = {}
    for experiment in client.pages("experiments/search", {}):  # those that are not deleted
        name = str(experiment.get("name", ""))
        if any(fnmatchcase(name, pattern) for pattern in wanted):
            query = {
                "experiment_ids": [str(experiment["experiment_id"])],
                "filter": f"attributes.start_time < {period.end_ms}",
                "run_view_type": "ACTIVE_ONLY",
            }
            for item in client.pages("runs/search", query):
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
        for item in client.pages("metrics/get-history", query, is_get=True):
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


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan
