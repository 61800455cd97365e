"""Slurm next to Kubernetes and inside it: nodes in both count once; a matching name alone is not a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gpucost.render.view import NodeTotals, ReportView
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.edits import move, relabel
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.unit.slurm_words import Clusters, Job, down, jobs, rows, text

BOOK = ",,,p4d.24xlarge,on_demand,32,USD,,,node\n,,,,on_demand,2,USD,,partition=metal,gpu"

#: A Slurm node, the owner and name of its pod if it runs in one, and the proof. N is the scene's number.
INSIDE = rows("""
    scene                         node     owner              pod                proof
    slinky                        gpuN-0   NodeSet/gpu        hpc-worker-gpuN-0  -
    soperator_by_setting          workerN-0 StatefulSet/worker workerN-0         setting
    soperator_by_hpc_job          workerN-0 StatefulSet/worker workerN-0         hpc_job
    beside_the_kubelet_by_setting kN-0     -                  -                  setting
    beside_the_kubelet_by_hpc_job kN-0     -                  -                  hpc_job
    beside_the_kubelet_by_gpus    kN-0     -                  -                  gpus""")
SETTINGS = '[slurm]\nin_kubernetes = ["worker1-?", "k3-?"]\n'


@dataclass
class Scene:
    """The metrics of a Kubernetes cluster, and the files of a Slurm cluster."""

    series: list[Series]
    jobs: list[Job]
    facts: list[str]


def dcgm(series: list[Series]) -> list[Series]:
    return [one for one in series if one.labels["__name__"].startswith("DCGM_")]


def inside(number: int, node_name: str, owner: str, worker: str, proof: str) -> Scene:
    """A Kubernetes node of 8 GPUs for two hours: a pod has two, a Slurm node four, its jobs three for an hour."""
    place = f"k{number}-0"
    pods = [pod("p", place, [4, 5], 0, 2, "web")]
    if worker:
        pods.append(pod(worker, place, [0, 1, 2, 3], 0, 2, "slurm", owner=owner.split("/")))
    series = scrape(fleet(2, [node(place, "p4d.24xlarge", 0, 2)], pods, {}))
    if proof == "hpc_job":
        series = relabel(series, "DCGM_.*", {"hpc_job": "1"}, {"UUID": f"GPU-{place}-0"})
    series = move(series, f"kube{number}x")
    if proof == "gpus":
        series += relabel(dcgm(series), ".*", {"cluster": f"hpc{number}x"})
    told_jobs = jobs(f"""
        job start  end nodes  gpus   Account
        1     900 4500 {node_name} a100:2 nlp
        2    1800 5400 {node_name} a100:1 cv""")
    facts = [
        f"NodeName={node_name} Gres=gpu:a100:4 Partitions=gpu State=IDLE\n",
        down((node_name, 6300, 7200, "DRAIN")),
    ]
    return Scene(series, told_jobs, facts)


def alone(
    number: int,
    called: str,
    devices: list[int],
    namespace: str,
    node_name: str,
    gpus: int,
    *,
    other: bool = False,
) -> Scene:
    """A Kubernetes node of 8 GPUs with a pod and a Slurm node with a job, for two hours; `other`: both have exporters."""
    place = f"k{number}-0"
    busy = {f"GPU-{place}-0": [[at(0), at(2), 70]]} if called == "1" else {}
    series = scrape(
        fleet(2, [node(place, "p4d.24xlarge", 0, 2)], [pod(called, place, devices, 0, 2, namespace)], busy)
    )
    moved = [*move(series, f"kube{number}x"), *(move(dcgm(series), f"hpc{number}x") if other else [])]
    return Scene(
        moved, jobs(f"1 0 7200 {node_name} 1"), [f"NodeName={node_name} Gres=gpu:{gpus} Partitions=metal\n"]
    )


SCENES = {
    **{row["scene"]: inside(number, *(row[name].replace("N-", f"{number}-") for name in ("node", "owner", "pod", "proof")))
       for number, row in enumerate(INSIDE)},
    "one name": alone(6, "1", [0], "nlp", "k6-0", 8),
    "one name, other GPUs": alone(7, "1", [0], "nlp", "k7-0", 8, other=True),
    "a pod of that name": alone(8, "gpu8-0", [0, 1], "web", "gpu8-0", 4),
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(SCENES)}


@pytest.fixture(
    scope="module", params=["Kubernetes first", pytest.param("Slurm first", marks=pytest.mark.ci)]
)
def clusters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    clusters = Clusters(tmp_path_factory.mktemp("both"), {}, BOOK, SETTINGS)

    def slurm() -> None:
        with clusters.at_once():
            for name, one in SCENES.items():
                clusters.load(f"hpc{NUMBERS[name]}x", [text(one.jobs), *one.facts])

    def kubernetes() -> None:
        described = fleet(2, [node("unused", "g5.xlarge", 0, 2)], [], {})
        load(described, [series for one in SCENES.values() for series in one.series], clusters.config)

    for part in (kubernetes, slurm) if request.param == "Kubernetes first" else (slurm, kubernetes):
        part()
    with clusters.attributed():
        yield clusters


def answer(clusters: Clusters, name: str, by: str) -> tuple[ReportView, NodeTotals]:
    view = clusters.view(by, f"kube{NUMBERS[name]}x", f"hpc{NUMBERS[name]}x")
    assert view.node_totals is not None
    return view, view.node_totals


@pytest.mark.parametrize("name", [row["scene"] for row in INSIDE])
def test_slurm_inside_kubernetes_counts_once(name: str, clusters: Clusters) -> None:
    view, totals = answer(clusters, name, "namespace,workload")
    rows = [row for row in view.rows if row.kind == "allocated"]
    held = {tuple(row.keys.values()): row.measures.allocated_gpu_hours for row in rows}
    assert held == pytest.approx({("web", "Pod/p"): 4, ("nlp", "Job/job-1"): 2, ("cv", "Job/job-2"): 1})
    assert totals.capacity_gpu_hours == pytest.approx(16)
    assert totals.node_cost == view.totals.cost + totals.unallocated_cost == 64
    assert totals.over_allocated_gpu_hours == 0
    assert totals.unavailable_gpu_hours == pytest.approx(1)


@pytest.mark.parametrize(("name", "warned"), [("one name", True), ("one name, other GPUs", False)])
def test_same_name_alone_does_not_merge_slurm_and_kubernetes_nodes(
    name: str, warned: bool, clusters: Clusters
) -> None:
    """Both have 8 GPUs: 2 h of $32 + $16. Exporters that measure different GPUs prove two machines."""
    view, totals = answer(clusters, name, "cluster,pod")
    rows = {str(row.keys["cluster"])[:3]: row.measures for row in view.rows if row.kind == "allocated"}
    assert {cluster: measures.cost for cluster, measures in rows.items()} == {"kub": 8, "hpc": 4}
    # the pod and the job are both named 1, in namespace nlp: metrics of the pod do not count for the job
    assert rows["kub"].measured_ratio == 1 and (not warned or rows["hpc"].measured_ratio == 0)
    assert totals.node_cost == 96
    warnings = [one for one in view.coverage.warnings if one.code == "unproven_machine"]
    assert ["32.00 USD" in one.message and "in_kubernetes" in str(one.fix) for one in warnings] == [
        True
    ] * warned


def test_pod_named_like_a_slurm_node_is_charged(clusters: Clusters) -> None:
    """A pod with the name of a Slurm node holds 2 of 8 GPUs for 2 h at $32: it pays $16."""
    view, totals = answer(clusters, "a pod of that name", "namespace")
    costs = {row.keys["namespace"]: row.measures.cost for row in view.rows if row.kind == "allocated"}
    assert costs == {"web": 16, "nlp": 4}
    assert totals.node_cost == 64 + 16
    assert "unproven_machine" in {one.code for one in view.coverage.warnings}
