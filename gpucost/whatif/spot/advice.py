"""Which workloads suit spot nodes, and why."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpucost.whatif.fleet import Workload
from gpucost.whatif.spot.moves import SpotQuery

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
_AGAIN = "batch work: an interrupted run is done again"
# what a job's name says of it, the first that fits
_BATCH = {
    r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid": "a sweep: one trial starts over, the others go on",
    r"preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert": "preprocessing: an interrupted run is done again",
    r"batch|infer|eval|quanti|score|scoring|test|bench": _AGAIN,
}
_SERVING_KINDS = {
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "inferenceservice",
    "rayservice",
    "rollout",
    "llminferenceservice",
}
_TRAINING_KINDS = {
    "pytorchjob",
    "tfjob",
    "mpijob",
    "xgboostjob",
    "paddlejob",
    "jaxjob",
    "trainjob",
    "rayjob",
    "jobset",
}
_BATCH_KINDS = {
    "job",
    "cronjob",
    "workflow",
    "cronworkflow",
    "sparkapplication",
    "trial",
    "experiment",
    "pipelinerun",
    "taskrun",
    "vcjob",
    "appwrapper",
}

SAFE, NEEDS_WORK, NOT = "safe", "needs_work", "not"
FREE = "GPUs that nobody held: better not there at all"
DEAR = "interrupted so often, it would cost as much as on demand, or more"
RERUN = (
    "batch work: doing interrupted runs again would cost more than spot saves; with checkpoints it could move"
)


class Advice(NamedTuple):
    """`suits` is SAFE, NEEDS_WORK or NOT; `starts_over`: no checkpoint of it is known, an interruption costs a whole run."""

    suits: str
    why: str
    starts_over: bool = False


def advise(workload: str, namespace: str = "", workload_type: str = "", checkpoints: str = "") -> Advice:
    """What a workload called `Kind/name`, of the type that inventory takes it for, should do about spot.

    `checkpoints` says how it is known to go on after an interruption, if it is.
    """
    kind, _, name = workload.partition("/")
    kind = kind.lower()
    if (
        workload_type == "development"
        or kind == "notebook"
        or _NOTEBOOK.search(name)
        or _NOTEBOOK.search(namespace)
    ):
        return Advice(NOT, "a notebook: its state is lost when it is interrupted")
    if workload_type == "inference" or kind in _SERVING_KINDS:
        return Advice(NOT, "serving: requests fail while a replica is replaced")
    if kind in _BATCH_KINDS | _TRAINING_KINDS:
        if checkpoints:
            return Advice(SAFE, f"it goes on from its checkpoints: {checkpoints}")
        reasons = [why for pattern, why in _BATCH.items() if re.search(pattern, name, re.IGNORECASE)]
        if kind in _BATCH_KINDS and (reasons or workload_type == "batch"):
            return Advice(SAFE, [*reasons, _AGAIN][0], starts_over=True)
        return Advice(NEEDS_WORK, "training without known checkpoints: it would start over")
    if kind == "pod":
        return Advice(NEEDS_WORK, "a bare pod: nothing starts it again")
    return Advice(
        NEEDS_WORK, f"gpucost does not know what a {kind or 'workload'} does when it is interrupted"
    )


def suitability(question: SpotQuery) -> dict[Workload, Advice]:
    """What each workload should do. All of what options describe moves."""
    fleet = question.usage.fleet
    resumed = {pod.owner for pod in fleet.pods if pod.resumes}
    given = "--checkpoint-minutes says so" if "checkpoint_minutes" in question.options.given else ""
    advices = {}
    for owner, pod in {pod.owner: pod for pod in fleet.pods}.items():
        names = (pod.workload, pod.workload.partition("/")[2])
        if question.usage.is_described:
            advices[owner] = Advice(SAFE, "")
        elif any(fnmatchcase(name, glob) for glob in question.config.spot.interruptible for name in names):
            advices[owner] = Advice(SAFE, "goes on after an interruption, as [spot] interruptible says")
        else:
            checkpoints = "it went on from one before" if owner in resumed else given
            advices[owner] = advise(pod.workload, pod.namespace, pod.workload_type, checkpoints)
    return advices
