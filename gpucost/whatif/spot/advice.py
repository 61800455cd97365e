"""Which workloads suit spot, by what they are: a rule of thumb on the workload's kind and name."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
_SWEEP = re.compile(r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid", re.IGNORECASE)
_PREPROCESSING = re.compile(r"preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert", re.IGNORECASE)
_BATCH = re.compile(r"batch|infer|eval|quanti|score|scoring|test|bench", re.IGNORECASE)
_SERVING_KINDS = {
    "deployment", "replicaset", "statefulset", "daemonset", "inferenceservice", "rayservice", "rollout", "llminferenceservice",
}  # fmt: skip
_BATCH_KINDS = {
    "job", "cronjob", "jobset", "pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob", "trainjob", "rayjob",
    "workflow", "cronworkflow", "sparkapplication", "trial", "experiment", "pipelinerun", "taskrun", "vcjob", "appwrapper",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Advice:
    """`suits` is `yes`, `no` or `risky`."""

    suits: str
    why: str


def advise(workload: str, namespace: str = "") -> Advice:
    """What a workload called `Kind/name` should do about spot."""
    kind, _, name = workload.partition("/")
    kind = kind.lower()
    if kind == "notebook" or _NOTEBOOK.search(name) or _NOTEBOOK.search(namespace):
        return Advice("risky", "a notebook: its state is lost when it is interrupted")
    if kind in _SERVING_KINDS:
        return Advice("no", "serving: requests fail while a replica is replaced")
    if kind in _BATCH_KINDS:
        if _SWEEP.search(name):
            return Advice("yes", "a sweep: one trial starts over, the others go on")
        if _PREPROCESSING.search(name):
            return Advice("yes", "preprocessing: only the piece at hand is done again")
        if _BATCH.search(name):
            return Advice("yes", "batch work: it is done again where it stopped")
        return Advice("yes", "a job: yes if it writes checkpoints and goes on from them")
    if kind == "pod":
        return Advice("risky", "a bare pod: nothing starts it again")
    return Advice("risky", f"gpucost does not know what a {kind or 'workload'} does when it is interrupted")
