"""Which workloads suit spot nodes, and why."""

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpucost.whatif.fleet import Workload
from gpucost.whatif.spot.moves import SpotQuery

_NOTEBOOK = re.compile(r"jupyter|notebook|workspace|codespace|(^|[-_/])(nb|ide|lab)([-_]|$)", re.IGNORECASE)
# names of jobs whose runs can be repeated
_BATCH = re.compile(
    r"sweep|hpo|tune|tuning|ablation|trial|experiment|grid"
    r"|preproc|etl|feature|embed|tokeni|encoding|transcod|ingest|convert"
    r"|batch|infer|eval|quanti|score|scoring|test|bench",
    re.IGNORECASE,
)
# kinds of workloads
SERVING = re.compile(
    r"(deployment|replicaset|statefulset|daemonset|rollout"
    r"|inferenceservice|llminferenceservice|rayservice)/",
    re.IGNORECASE,
)
_TRAINING_KIND = re.compile(
    r"(pytorchjob|tfjob|mpijob|xgboostjob|paddlejob|jaxjob|trainjob|rayjob|jobset)/", re.IGNORECASE
)
_BATCH_KIND = re.compile(
    r"(job|cronjob|workflow|cronworkflow|pipelinerun|taskrun"
    r"|sparkapplication|trial|experiment|vcjob|appwrapper)/",
    re.IGNORECASE,
)

SAFE, NEEDS_WORK, NOT = "safe", "needs_work", "not"
FREE = "unallocated GPUs: better not there at all"
COSTLY = "interrupted so often that it would cost at least as much as on demand"
RERUN = (
    "batch work: repeating interrupted runs would cost more than spot saves; with checkpoints it could move"
)


class Advice(NamedTuple):
    """`suits` is SAFE, NEEDS_WORK or NOT. `starts_over`: without known checkpoints, an interruption costs a whole run."""

    suits: str
    why: str
    starts_over: bool = False


def advise(workload: str, namespace: str, workload_type: str, checkpoints: str = "") -> Advice:
    """Whether a workload `Kind/name` suits spot.

    `workload_type` is the type that inventory assigns. `checkpoints` states why the workload continues after an interruption,
    if it does.
    """
    kind, _, name = workload.partition("/")
    is_notebook = kind.lower() == "notebook" or _NOTEBOOK.search(name) or _NOTEBOOK.search(namespace)
    if workload_type == "development" or is_notebook:
        return Advice(NOT, "a notebook: an interruption loses its state")
    if workload_type == "inference" or SERVING.match(workload):
        return Advice(NOT, "serving: requests fail while a replica is replaced")
    is_batch = _BATCH_KIND.match(workload)
    if is_batch or _TRAINING_KIND.match(workload):
        if checkpoints:
            return Advice(SAFE, f"it continues from its checkpoints: {checkpoints}")
        if is_batch and (workload_type == "batch" or _BATCH.search(name)):
            return Advice(SAFE, "batch work: an interrupted run is repeated", starts_over=True)
        return Advice(NEEDS_WORK, "training without known checkpoints: it would start over")
    return Advice(NEEDS_WORK, f"{kind or 'a workload'}: unknown whether an interrupted run is started again")


def suitability(question: SpotQuery) -> dict[Workload, Advice]:
    """The advice for each workload. All work that options describe is safe."""
    pods, config = question.usage.fleet.pods, question.config
    resumed = {pod.owner for pod in pods if pod.resumes}
    explicit = (
        "--checkpoint-minutes is given" if "checkpoint_minutes" in question.options.explicit_options else ""
    )
    advices = {}
    for owner, pod in {pod.owner: pod for pod in pods}.items():
        names = (pod.workload, pod.workload.partition("/")[2])
        if question.usage.is_described:
            advices[owner] = Advice(SAFE, "")
        elif any(fnmatchcase(name, glob) for glob in config.spot.interruptible for name in names):
            advices[owner] = Advice(SAFE, "listed under [spot] interruptible")
        else:
            checkpoints = "a run resumed from one" if owner in resumed else explicit
            advices[owner] = advise(pod.workload, pod.namespace, pod.workload_type, checkpoints)
    return advices
