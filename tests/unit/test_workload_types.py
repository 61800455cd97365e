"""What a workload is for: rules of the configuration, labels, owners, names and images, in that order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost.config.load import load_config
from gpucost.config.model import Config, WorkloadTypeRule
from gpucost.errors import ConfigError
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from tests.replay.cases.words import BOOK, HEADER, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

WEB = ["ReplicaSet", "web-5d8"]
PODS: dict[str, tuple[str, dict[str, Any]]] = {
    "bare": ("other", {}),
    "stateful": ("other", {"owner": ["StatefulSet", "db"]}),
    "daemon": ("other", {"owner": ["DaemonSet", "agent"]}),
    "web": ("inference", {"owner": WEB}),
    "rollout": ("inference", {"owner": ["Rollout", "web"]}),
    "torch": ("training", {"owner": ["PyTorchJob", "bert"]}),
    "jobset": ("training", {"owner": ["JobSet", "bert"]}),
    "job": ("training", {"owner": ["Job", "bert-large"]}),
    "job-of-batch": ("batch", {"owner": ["Job", "embed-catalog"]}),
    "job-that-trains": ("training", {"owner": ["Job", "train-batch-512"]}),
    "cron": ("batch", {"owner": ["CronJob", "nightly"]}),
    "cron-that-trains": ("training", {"owner": ["CronJob", "retrain-weekly"]}),
    "workflow": ("batch", {"owner": ["Workflow", "pipeline-x"]}),
    "workflow-that-trains": ("training", {"owner": ["Workflow", "finetune-7b"]}),
    "user-notebook": ("development", {}),
    "jupyter-ann": ("development", {"owner": ["StatefulSet", "jupyter-ann"]}),
    "ide": ("development", {"owner": ["ReplicaSet", "code-server-7f"]}),
    "by-image": (
        "development",
        {"owner": ["StatefulSet", "ann"], "image": "quay.io/jupyter/pytorch-notebook:cuda12"},
    ),
    "by-kind": ("development", {"owner": ["Notebook", "ann"]}),
    "papermill": ("batch", {"owner": ["CronJob", "nightly-notebook"]}),
    "by-app": ("inference", {"owner": ["StatefulSet", "llm"], "labels": {"app_kubernetes_io_name": "vllm"}}),
    "by-lws": (
        "inference",
        {"owner": ["StatefulSet", "llm-0"], "labels": {"leaderworkerset_sigs_k8s_io_name": "llm"}},
    ),
    "by-kserve": (
        "inference",
        {"owner": ["StatefulSet", "x"], "labels": {"serving_kserve_io_inferenceservice": "x"}},
    ),
    "by-kubeflow": (
        "training",
        {"owner": ["StatefulSet", "x"], "labels": {"training_kubeflow_org_job_name": "x"}},
    ),
    "by-trainer": (
        "training",
        {"owner": ["StatefulSet", "x"], "labels": {"trainer_kubeflow_org_trainjob_ancestor_step": "trainer"}},
    ),
    "by-jobset": (
        "training",
        {"owner": ["Job", "embed-0"], "labels": {"jobset_sigs_k8s_io_jobset_name": "x"}},
    ),
    "ray": ("training", {"owner": ["RayCluster", "r"], "labels": {"ray_io_cluster": "r"}}),
    "ray-serves": (
        "inference",
        {"owner": ["RayCluster", "r"], "labels": {"ray_io_cluster": "r", "ray_io_serve": "true"}},
    ),
    "ray-of-service": (
        "inference",
        {
            "owner": ["RayCluster", "r"],
            "labels": {"ray_io_cluster": "r", "ray_io_originated_from_crd": "RayService"},
        },
    ),
    "by-own-label": ("batch", {"owner": WEB, "labels": {"gpucost_io_workload_type": "Batch"}}),
    "label-of-no-type": ("inference", {"owner": WEB, "labels": {"gpucost_io_workload_type": "web"}}),
    "ruled-by-name": (
        "batch",
        {"owner": ["ReplicaSet", "scorer-1"], "labels": {"gpucost_io_workload_type": "training"}},
    ),
    "ruled-by-label": ("other", {"owner": WEB, "labels": {"tier": "test"}}),
    "not-ruled": ("inference", {"owner": WEB, "labels": {"tier": "prod"}}),
}
RULES = [
    WorkloadTypeRule(type="batch", names=["scorer-*"], kinds=["ReplicaSet", "Deployment"]),
    WorkloadTypeRule(type="training", names=["scorer-*"]),
    WorkloadTypeRule(type="other", labels={"tier": ["test", "dev"]}, namespaces=["n-*"]),
]


@pytest.fixture(scope="module")
def types_of(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Any]:
    folder = tmp_path_factory.mktemp("types")
    pods = [pod(name, "a", [0], 0, 1, f"n-{name}", **more) for name, (_, more) in PODS.items()]
    described = fleet(1, [node("a", "g5.xlarge", 0, 1, replicas=50)], pods, {})
    prices = folder / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    config: Config = write_config(described, folder, prices).model_copy(update={"workload_types": RULES})
    store = load(described, scrape(described, lean=True), config)
    period = Period(*(datetime.fromtimestamp(described[key], UTC) for key in ("start", "end")))
    view = reading.report(config, store, Query(period, "an hour", by=("workload_type",)))
    with store.read() as con:
        types = dict(
            con.execute(
                "SELECT pod, workload_type FROM allocations JOIN allocation_traits USING (allocation_id)"
            ).fetchall()
        )
        kinds = dict(con.execute("SELECT pod, workload_kind FROM allocations").fetchall())
    assert kinds["torch"] == "PyTorchJob" and kinds["bare"] == "Pod"
    return types, view


@pytest.mark.parametrize("name", PODS)
def test_each_kind_of_workload(types_of: tuple[dict[str, str], Any], name: str) -> None:
    types, _ = types_of
    assert types[name] == PODS[name][0]


def test_reports_by_workload_type_are_by_what_workloads_are_for(types_of: tuple[dict[str, str], Any]) -> None:
    _, view = types_of
    result = {row.keys["workload_type"] for row in view.rows if row.kind == "allocated"}
    assert result == {"training", "inference", "development", "batch", "other"}


def test_a_rule_has_to_match_something(tmp_path: Path) -> None:
    file = tmp_path / "gpucost.toml"
    file.write_text('[[workload_types]]\ntype = "batch"\n')
    with pytest.raises(ConfigError, match="needs one of namespaces, names, kinds and labels"):
        load_config(file, environ={})
    file.write_text('[waste]\nforgotten_after = "soon"\n')
    with pytest.raises(ConfigError, match="forgotten_after"):
        load_config(file, environ={})
