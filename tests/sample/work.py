"""The work of the sample fleet: epochs of training jobs, requests and tokens of a chat model, and a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpucost.collect.progress.mappings import ready_made, series_of
from gpucost.store import runs
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs, load_values

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tests.sample.fleet import DemoFleet, DemoPod

_HOUR, _LOOK = 3600, 900
_SWEEP, _TRAINER, _MODEL = "tokenizer-sweep", "llama-sft", "llama-3-8b-instruct"
_EPOCH_HOURS, _WARM_UP_HOURS, _CRASH, _PLANNED = 1.6, 0.4, 8, 20
#: share of requests with this end, and prompt and generated tokens per request
_REASONS = (("stop", 0.91), ("length", 0.07), ("abort", 0.02))
_TOKENS = (("vllm-prompt-tokens", 780.0), ("vllm-generation-tokens", 214.0))


@dataclass
class Work:
    """Counters of servers, runs of the tracker, and their logged epochs."""

    counted: ProgressBatch
    runs: list[ProgressRun]
    epochs: ProgressBatch


def work_of(fleet: DemoFleet, cluster: str) -> Work:
    """Return the fleet's work."""
    dice = np.random.default_rng([fleet.start, 6])
    batch = ProgressBatch()
    jobs = [pod for pod in fleet.pods if pod.owner[0] == "Job"]
    for pod in jobs:
        if pod.owner[1].startswith("long-context"):
            _counted(batch, pod, cluster)
    for pod in fleet.pods:
        if pod.parent == ("Deployment", "chat-api"):
            _tokens(batch, pod, cluster, dice)
    trained, epochs = _trained([pod for pod in jobs if pod.owner[1].startswith(_TRAINER)], dice)
    swept = _sweep([pod for pod in jobs if pod.owner[1].startswith(_SWEEP)], dice)
    return Work(batch, [*trained, *swept], epochs)


def load_work(con: DuckDBPyConnection, fleet: DemoFleet, source: str, cluster: str) -> None:
    """Load the fleet's work like `gpucost collect progress`."""
    work = work_of(fleet, cluster)
    span = (fleet.start * 1000, fleet.end * 1000)
    run = runs.begin(con, "progress", source, span)
    loaded = load_values(con, source, span, work.counted)
    load_runs(con, "mlflow", span, work.runs, work.epochs)
    runs.log_load(con, run, "progress", source, span, rows=loaded.values)
    runs.finish(con, run)


def _epochs(pod: DemoPod, dice: np.random.Generator) -> tuple[list[int], list[float]]:
    """Return times (Unix seconds) and finished epochs. A long run crashes once and repeats its last two epochs."""
    moment, done, crashed = pod.start + int(_WARM_UP_HOURS * _HOUR), 0, False
    times, values = [moment], [0.0]
    while (moment := moment + int(dice.normal(_EPOCH_HOURS, 0.08) * _HOUR)) < pod.end - 60:
        done += 1
        times.append(moment)
        values.append(done)
        if done == _CRASH and not crashed:
            crashed, done, moment = True, done - 2, moment + int(0.6 * _HOUR)
            times.append(moment)
            values.append(done)
    return times, values


def _counted(batch: ProgressBatch, pod: DemoPod, cluster: str) -> None:
    """Add a counter of finished epochs."""
    unit = next(unit for unit in ready_made() if unit.name == "training-epochs")
    labels = {"namespace": pod.namespace, "pod": pod.name, "instance": f"{pod.name}:9100"}
    moments = np.arange(pod.start + int(_WARM_UP_HOURS * _HOUR), pod.end, int(2.3 * _HOUR), dtype=np.int64)
    if len(moments):
        batch.add(series_of(unit, labels, cluster), moments * 1000, np.arange(len(moments), dtype=np.float64))


def _tokens(batch: ProgressBatch, pod: DemoPod, cluster: str, dice: np.random.Generator) -> None:
    """Add counters of vLLM with a daily rhythm and few requests at night."""
    times = np.arange(pod.start + 300, pod.end, _LOOK, dtype=np.int64)
    hour = times % 86_400 / _HOUR
    load = np.clip(38 + 34 * np.sin((hour - 9) / 24 * 2 * np.pi) + dice.normal(0, 3, len(times)), 1, None)
    load[(hour > 0) & (hour < 6.5)] *= 0.1
    done = np.floor(np.cumsum(load * 12))
    done[0] = 0
    units = {unit.name: unit for unit in ready_made()}
    labels = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "instance": f"{pod.name}:8000",
        "engine": "0",
        "model_name": _MODEL,
    }
    for reason, share in _REASONS:
        one = series_of(units["vllm-requests"], {**labels, "finished_reason": reason}, cluster)
        batch.add(one, times * 1000, np.floor(done * share))
    for name, each in _TOKENS:
        batch.add(series_of(units[name], labels, cluster), times * 1000, np.floor(done * each))


def _trained(pods: list[DemoPod], dice: np.random.Generator) -> tuple[list[ProgressRun], ProgressBatch]:
    """Return a run of the tracker per job, with its logged epochs."""
    batch = ProgressBatch()
    tracked = []
    for number, pod in enumerate(pods, start=1):
        run_id, job = f"{0xF000 + number:032x}", f"Job/{pod.owner[1]}"
        status = "FAILED" if pod.phase == "Failed" else "FINISHED"
        tracked.append(
            ProgressRun(
                run_id, "", "llama", pod.owner[1], status, pod.start * 1000, pod.end * 1000, cluster="", namespace=pod.namespace,
                pod="", workload=job, planned_epochs=_PLANNED, metrics={},
            )
        )  # fmt: skip
        times, values = _epochs(pod, dice)
        series = ProgressSeries("mlflow", "epoch", "gauge", (), "", pod.namespace, "", job, run_id=run_id)
        batch.add(series, np.array(times, dtype=np.int64) * 1000, np.array(values, dtype=np.float64))
    return tracked, batch


def _sweep(pods: list[DemoPod], dice: np.random.Generator) -> list[ProgressRun]:
    """Return one run per job of the sweep, and their parent run."""
    if not pods:
        return []
    start, end = min(pod.start for pod in pods) * 1000, max(pod.end for pod in pods) * 1000
    parent = "0" * 32
    tracked = [ProgressRun(parent, "", "tokenizers", _SWEEP, "FINISHED", start, end, "", "", "", "", 0.0, {})]
    for number, pod in enumerate(sorted(pods, key=lambda pod: pod.start), start=1):
        failed = pod.phase == "Failed"
        metrics = {} if failed else {"val_loss": round(float(2.9 - 0.5 * dice.random()), 4)}
        tracked.append(
            ProgressRun(
                f"{number:032x}", parent, "tokenizers", f"vocab-{8 * number}k", "FAILED" if failed else "FINISHED",
                pod.start * 1000, pod.end * 1000, "", pod.namespace, "", f"Job/{pod.owner[1]}", 0.0, metrics,
            )
        )  # fmt: skip
    return tracked
