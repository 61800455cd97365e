"""What a workload is for: rules of the configuration, labels, owners, names and images, in that order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost.config.load import load_config
from gpucost.config.model import WorkloadTypeRule
from gpucost.errors import ConfigError
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from tests.replay.cases.words import BOOK, HEADER, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import table

PODS = {
    row["pod"]: row
    for row in table("""
    pod                  | type        | owner                     | labels and image
    bare                 | other       |                           |
    stateful             | other       | StatefulSet/db            |
    daemon               | other       | DaemonSet/agent           |
    web                  | inference   | ReplicaSet/web-5d8        |
    rollout              | inference   | Rollout/web               |
    torch                | training    | PyTorchJob/bert           |
    jobset               | training    | JobSet/bert               |
    job                  | training    | Job/bert-large            |
    job-of-batch         | batch       | Job/embed-catalog         |
    job-that-trains      | training    | Job/train-batch-512       |
    cron                 | batch       | CronJob/nightly           |
    cron-that-trains     | training    | CronJob/retrain-weekly    |
    workflow             | batch       | Workflow/pipeline-x       |
    workflow-that-trains | training    | Workflow/finetune-7b      |
    user-notebook        | development |                           |
    jupyter-ann          | development | StatefulSet/jupyter-ann   |
    ide                  | development | ReplicaSet/code-server-7f |
    by-image             | development | StatefulSet/ann           | image=quay.io/jupyter/pytorch-notebook:cuda12
    by-kind              | development | Notebook/ann              |
    papermill            | batch       | CronJob/nightly-notebook  |
    by-app               | inference   | StatefulSet/llm           | app_kubernetes_io_name=vllm
    by-lws               | inference   | StatefulSet/llm-0         | leaderworkerset_sigs_k8s_io_name=llm
    by-kserve            | inference   | StatefulSet/x             | serving_kserve_io_inferenceservice=x
    by-kubeflow          | training    | StatefulSet/x             | training_kubeflow_org_job_name=x
    by-trainer           | training    | StatefulSet/x             | trainer_kubeflow_org_trainjob_ancestor_step=trainer
    by-jobset            | training    | Job/embed-0               | jobset_sigs_k8s_io_jobset_name=x
    ray                  | training    | RayCluster/r              | ray_io_cluster=r
    ray-serves           | inference   | RayCluster/r              | ray_io_cluster=r; ray_io_serve=true
    ray-of-service       | inference   | RayCluster/r              | ray_io_cluster=r; ray_io_originated_from_crd=RayService
    by-own-label         | batch       | ReplicaSet/web-5d8        | gpucost_io_workload_type=Batch
    label-of-no-type     | inference   | ReplicaSet/web-5d8        | gpucost_io_workload_type=web
    ruled-by-name        | batch       | ReplicaSet/scorer-1       | gpucost_io_workload_type=training
    ruled-by-label       | other       | ReplicaSet/web-5d8        | tier=test
    not-ruled            | inference   | ReplicaSet/web-5d8        | tier=prod""")
}
RULES = [
    WorkloadTypeRule(type="batch", names=["scorer-*"], kinds=["ReplicaSet", "Deployment"]),
    WorkloadTypeRule(type="training", names=["scorer-*"]),
    WorkloadTypeRule(type="other", labels={"tier": ["test", "dev"]}, namespaces=["n-*"]),
]


def described(row: dict[str, str]) -> dict[str, Any]:
    more: dict[str, Any] = {"owner": row["owner"].split("/")} if "owner" in row else {}
    if "labels and image" in row:
        labels = dict(label.split("=") for label in row["labels and image"].split("; "))
        more |= {"image": labels.pop("image")} if "image" in labels else {"labels": labels}
    return pod(row["pod"], "a", [0], 0, 1, f"n-{row['pod']}", **more)


@pytest.fixture(scope="module")
def types_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("types")
    there = fleet(
        1, [node("a", "g5.xlarge", 0, 1, replicas=50)], [described(row) for row in PODS.values()], {}
    )
    prices = folder / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(there, folder, prices).model_copy(update={"workload_types": RULES})
    store = load(there, scrape(there, lean=True), config)
    period = Period(*(datetime.fromtimestamp(there[key], UTC) for key in ("start", "end")))
    view = reading.report(config, store, Query(period, "an hour", by=("workload_type",)))
    result = {row.keys["workload_type"] for row in view.rows if row.kind == "allocated"}
    assert result == {row["type"] for row in PODS.values()}
    with store.read() as con:
        found = con.execute(
            "SELECT pod, workload_kind, workload_type FROM allocations JOIN allocation_traits USING (allocation_id)"
        ).fetchall()
    kinds = {name: kind for name, kind, _ in found}
    assert kinds["torch"] == "PyTorchJob" and kinds["bare"] == "Pod"
    return {name: workload_type for name, _, workload_type in found}


@pytest.mark.parametrize("name", PODS)
def test_each_kind_of_workload(types_of: dict[str, str], name: str) -> None:
    assert types_of[name] == PODS[name]["type"]


def test_a_rule_has_to_match_something(tmp_path: Path) -> None:
    file = tmp_path / "gpucost.toml"
    for text, message in (
        ('[[workload_types]]\ntype = "batch"\n', "needs one of namespaces, names, kinds and labels"),
        ('[waste]\nforgotten_after = "soon"\n', "forgotten_after"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_config(file, environ={})
