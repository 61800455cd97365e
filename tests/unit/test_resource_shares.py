"""What units of resources are worth beside the described fleets: claims, what no table lists, families that cannot be split."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucost import pipeline
from gpucost.catalog import accelerators, claim_metrics, devices, other_resources
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.render.view import ReportView
from gpucost.report import Query
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, unpaid
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.side_by_side import Scene, Scenes

HOURS = 6
OWN_BOOK = [*BOOK, ",,,box.large,on_demand,2.00,USD,"]


Answer = tuple[dict[str, float], ReportView]
scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Scene, Answer]]]:
    with scene.start(tmp_path_factory.mktemp("scenes"), answer, OWN_BOOK, HOURS) as answers:
        yield answers


def scraped(described: dict[str, Any], more: list[Series] | None = None, drop: str = "$^") -> tuple[dict[str, Any], list[Series]]:
    """What is scraped of a fleet, but the series whose metric `drop` matches, and more."""
    series = [s for s in scrape(described, lean=True) if not re.fullmatch(drop, s.labels["__name__"])]
    return described, [*series, *(more or [])]


def answer(config: Config, store: Store, cluster: str) -> Answer:
    """GPU-hours by pod, and the report."""
    period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, HOURS)))
    view = pipeline.report(config, store, Query(period=period, period_name="the day", clusters=(cluster,)))
    assert not unpaid(store)
    figures = by_pod(store, at(0) * 1000, at(HOURS) * 1000, cluster)
    return {key[2]: float(f.allocated_gpu_hours) for key, f in figures.items() if f.allocated_gpu_hours}, view


def messages(view: ReportView, code: str) -> list[str]:
    return [notice.message for notice in view.coverage.warnings if notice.code == code]


def state(metric: str, labels: dict[str, str], start: float = 0, end: float = HOURS) -> Series:
    """A kube-state-metrics series that is 1 from hour `start` to hour `end`."""
    times = np.arange(at(start), at(end), 60, dtype=np.int64) * 1000
    base = {"__name__": metric, "job": "kube-state-metrics", "instance": "10.4.0.30:8080"}
    return Series({**base, **labels}, times, np.ones(len(times)))


def allocated(claim: str, device: str, driver: str = "gpu.nvidia.com", pool: str = "n") -> Series:
    labels = {"namespace": "train", "resourceclaim": claim, "request": "gpu", "driver": driver, "pool": pool, "device": device}
    return state("kube_resourceclaim_allocation_device_info", labels)


def claiming(name: str, start: float, end: float, claim: str = "shared", **more: Any) -> dict[str, Any]:
    return pod(name, "n", [], start, end, count=0, claims=[claim], **more)


# A claim of six hours that a second pod joins for the first three: 1.5 + 3 and 1.5.
SHARED = [claiming("long", 0, 6), claiming("short", 0, 3)]


@scene()
def test_a_claim_is_split_among_those_that_run_at_each_moment() -> Scene:
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], SHARED, busy("n", [0], 0, HOURS))
    hours, view = yield scraped(described, [allocated("shared", "gpu-0")])
    assert hours == pytest.approx({"long": 4.5, "short": 1.5}, abs=0.02)
    assert not messages(view, "unplaced_claim")


@scene()
def test_what_the_exporter_says_of_a_claim_holds_for_all_its_pods() -> Scene:
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], SHARED, busy("n", [0], 0, HOURS))
    labels = {
        "__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm-exporter", "instance": "n:9400", "UUID": "GPU-n-0", "Hostname": "n",
    }  # fmt: skip
    claim = {"namespace": "train", "pod": "long", "dra_claim_name": "shared", "dra_claim_namespace": "train"}
    times = np.arange(at(0), at(HOURS), 60, dtype=np.int64) * 1000
    hours, view = yield scraped(described, [Series({**labels, **claim}, times, np.full(len(times), 70.0))], drop="DCGM_.*")
    assert hours == pytest.approx({"long": 4.5, "short": 1.5}, abs=0.02) and not messages(view, "unknown_claim_pods")


@scene()
def test_a_claim_that_the_exporter_alone_knows_is_said_to_have_other_pods() -> Scene:
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], SHARED, busy("n", [0], 0, HOURS))
    labels = {
        "__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm-exporter", "instance": "n:9400", "UUID": "GPU-n-0", "Hostname": "n",
    }  # fmt: skip
    claim = {"namespace": "train", "pod": "long", "dra_claim_name": "shared", "dra_claim_namespace": "train"}
    times = np.arange(at(0), at(HOURS), 60, dtype=np.int64) * 1000
    named = Series({**labels, **claim}, times, np.full(len(times), 70.0))
    hours, view = yield scraped(described, [named], drop="DCGM_.*|kube_pod_resourceclaim_info")
    assert hours == pytest.approx({"long": 6}, abs=0.02)
    said = messages(view, "unknown_claim_pods")
    assert len(said) == 1
    assert "namespace train are known from dcgm-exporter alone" in said[0] and "(6.0 GPU-hours of 1 pod" in said[0]


@scene()
def test_slices_of_claims() -> Scene:
    described = fleet(HOURS, [node("n", "p5.48xlarge", 0, HOURS)], [claiming("slice", 0, 6, "a"), claiming("two", 0, 3, "b")], {})
    devices_of = [allocated("a", "gpu-1-mig-1g10gb-19-0"), allocated("b", "gpu-2"), allocated("b", "gpu-3")]
    hours, _ = yield scraped(described, devices_of)
    assert hours == pytest.approx({"slice": 6 / 7, "two": 6}, abs=0.02)


@scene()
def test_a_claim_that_nothing_ties_to_a_device_is_said() -> Scene:
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], [claiming("lost", 1, 5), claiming("net", 0, 6, "nic")], {})
    hours, view = yield scraped(described, [allocated("nic", "eth-1", "dra.net")])
    assert not hours
    assert [message for message in messages(view, "unplaced_claim") if "4.0 GPU-hours of 1 pod" in message and "train" in message]


@scene(("g6.12xlarge", "7.20 USD"), ("box.large", "3.00 USD"), ("strange", "no price"))
def test_what_no_table_lists_is_named_with_hours_and_dollars(instance_type: str, worth: str) -> Scene:
    where = {**node("n", "g6.12xlarge", 0, HOURS), "instance_type": instance_type}
    if instance_type != "g6.12xlarge":
        where |= {"gpus": [], "gfd": False, "dcgm": False}
    held = pod("odd", "n", [], 0, 3, resource="example_com_npu", count=4)
    other = node("g", "g5.xlarge", 0, HOURS)
    described = fleet(HOURS, [{**where, "offers": {"example_com_npu": 8}}, other], [held], {})
    hours, view = yield scraped(described)
    assert not hours
    (message,) = messages(view, "unsupported_resource")
    assert (
        message.startswith("example_com_npu ")
        and "12.0 hours of it held by 1 pod of train on 1 node" in message
        and worth in message
    )


@scene()
def test_reservations_whose_pods_are_hidden_are_said() -> Scene:
    reservation = pod("gpu-reservation-a", "n", [0], 0, 4, "kai-resource-reservation")
    sharing = pod("half", "n", [], 0, 4, count=0, annotations={"gpu_fraction": "0.5"})
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], [reservation, sharing], {})
    hours, view = yield scraped(described, drop="kube_pod_annotations")
    assert hours == pytest.approx({"gpu-reservation-a": 4})
    (message,) = messages(view, "hidden_fractions")
    assert "kai-resource-reservation" in message and "4.0 GPU-hours of 1 pod" in message
    assert any("--metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory" in (n.fix or "") for n in view.coverage.warnings)


@scene((True,), (False,))
def test_a_reservation_whose_pod_is_hidden_holds_though_others_are_known(labeled: bool) -> Scene:
    """Half of GPU 0 is asked for by an exported fraction, GPU 1 by an annotation of memory that is not exported."""

    def group(number: int) -> dict[str, str]:
        return {"runai_gpu_group": f"group-{number}"} if labeled else {}

    pods = [
        *(pod(f"gpu-reservation-{n}", "n", [n], 0, 4, "kai-resource-reservation", labels=group(n)) for n in range(2)),
        pod("half", "n", [], 0, 4, count=0, annotations={"gpu_fraction": "0.5"}, labels=group(0)),
        pod("memory", "n", [], 0, 4, count=0, labels=group(1)),
    ]
    hours, view = yield scraped(fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], pods, {}))
    assert hours == pytest.approx({"half": 2, "gpu-reservation-1": 4})
    named = ["namespace kai-resource-reservation hold"] + ["namespace train share"] * labeled
    told = messages(view, "hidden_fractions")
    assert all("(4.0 GPU-hours of 1 pod" in text and name in text for name, text in zip(named, told, strict=True))


@scene(
    ("2", "0.5", 1),
    ("nan", "0.5", 0.5),
    ("inf", "0.5", 0.5),
    ("-3", "0.5", 0.5),
    ("1e300", "0.5", 0.5),
    ("1000", "1", 4),
    ("1", "7", 1),
    ("2", "nan", 0),
)
def test_annotations_that_no_pod_can_hold_are_cut_and_said(devices: str, fraction: str, gpus: float) -> Scene:
    described = {"gpu_fraction": fraction, "gpu_fraction_num_devices": devices}
    odd = pod("odd", "n", [], 0, 4, count=0, annotations=described)
    hours, view = yield scraped(fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], [odd, pod("whole", "n", [0], 0, 4)], {}))
    assert hours == pytest.approx({"whole": 4} | ({"odd": 4 * gpus} if gpus else {}), abs=0.02)
    assert [f"({4 * gpus:.1f} GPU-hours of 1 pod" in message for message in messages(view, "guessed_share")] == (
        [] if (devices, fraction) == ("2", "0.5") else [True]
    )


@scene()
def test_a_family_that_cannot_be_split_counts_whole_and_is_said() -> Scene:
    where = {
        **node("n", "g6.12xlarge", 0, HOURS, dcgm=False, gfd=False, shared_resource="huawei_com_Ascend310P"),
        "instance_type": "box.large",
    }
    held = [
        pod("template", "n", [], 0, 3, resource="huawei_com_Ascend310P_4c", count=1),
        pod("memory", "n", [], 0, 3, resource="huawei_com_Ascend310P", count=1, asks={"huawei_com_Ascend310P_memory": 3072}),
    ]
    hours, view = yield scraped(fleet(HOURS, [where], held, {}))
    assert hours == pytest.approx({"template": 3, "memory": 3})
    assert sorted(message.split(" ")[0] for message in messages(view, "unsplit_resource")) == [
        "huawei_com_ascend310p_4c",
        "huawei_com_ascend310p_memory",
    ]
    assert all("3.0 GPU-hours" in message for message in messages(view, "unsplit_resource"))


def test_hami_gives_bare_pods_its_default_memory(tmp_path: Path) -> None:
    held = [pod("bare", "n", [0], 0, 6), pod("cores", "n", [1], 0, 6, asks={"nvidia_com_gpucores": 50})]
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS, offers={"nvidia_com_gpu": 40})], held, {})
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *OWN_BOOK]) + "\n")
    path = write_config(described, tmp_path, tmp_path / "prices.csv").path
    assert path is not None
    path.write_text(path.read_text() + "[hami]\ndefault_mem = 6144\n")
    config = load_config(path, environ={}, cwd=tmp_path)
    hours, _ = answer(config, load(described, scrape(described, lean=True), config), "main")
    assert hours == pytest.approx({"bare": 1.5, "cores": 3})


@scene()
def test_virtual_devices_that_nothing_else_counts() -> Scene:
    held = [pod("part", "n", [], 0, 6, count=1, asks={"nvidia_com_gpucores": 50, "nvidia_com_gpumem_percentage": 25})]
    where = {
        **node("n", "g6.12xlarge", 0, HOURS, gfd=False, dcgm=False, offers={"nvidia_com_gpu": 40}),
        "instance_type": "box.large",
    }
    hours, view = yield scraped(fleet(HOURS, [where], held, {}))
    assert hours == pytest.approx({"part": 3})
    assert float(view.totals.cost) == pytest.approx(1.5, abs=0.01)


@scene(
    (16, {}, 0.25, False),
    (40, {}, 1, True),
    (40, {"label_nvidia_com_gpu_sharing_strategy": "time-slicing"}, 0.1, False),
    (20, {}, 1, True),
    (4, {}, 1, False),
)
def test_a_pod_of_hami_makes_no_slots_of_other_nodes_whole_gpus(
    units: int, labels: dict[str, str], gpus: float, guessed: bool
) -> Scene:
    """HAMi offers five virtual GPUs for each on node n; of node b its units alone may tell."""
    part = pod("part", "n", [0], 0, 6, asks={"nvidia_com_gpucores": 30, "nvidia_com_gpumem_percentage": 20})
    nodes = [
        node("n", "g6.12xlarge", 0, HOURS, offers={"nvidia_com_gpu": 20}),
        node("b", "g6.12xlarge", 0, HOURS, offers={"nvidia_com_gpu": units}, labels=labels),
    ]
    hours, view = yield scraped(fleet(HOURS, nodes, [part, pod("other", "b", [0], 0, 6)], {}))
    assert hours == pytest.approx({"part": 1.8, "other": 6 * gpus}, abs=0.02)
    assert bool(messages(view, "guessed_share")) is guessed


@scene()
def test_intel_slots_and_gaudi() -> Scene:
    held = [pod("slot", "n", [], 0, 6, resource="gpu_intel_com_i915", count=1)]
    labels = {"label_gpu_intel_com_device_count": 2}
    where = {
        **node("n", "g6.12xlarge", 0, HOURS, gfd=False, dcgm=False, labels=labels, shared_resource="gpu_intel_com_i915"),
        "instance_type": "box.large",
    }
    where["offers"] = {"gpu_intel_com_i915": 8, "gpu_intel_com_i915_monitoring": 1, "gpu_intel_com_memory_max": 48_000_000_000}
    hours, view = yield scraped(fleet(HOURS, [where], held, {}))
    assert hours == pytest.approx({"slot": 1.5})
    assert not messages(view, "unsupported_resource")


KINDS = {
    "nvidia_com_gpu": "device", "nvidia_com_gpu_shared": "slot", "nvidia_com_mig_1g_5gb": "slice",
    "nvidia_com_mig_2g_10gb_shared": "slice", "nvidia_com_gpumem": "memory", "nvidia_com_gpumem_percentage": "percentage",
    "nvidia_com_gpucores": "cores", "nvidia_com_priority": "none", "volcano_sh_vgpu_number": "virtual",
    "volcano_sh_vgpu_memory": "memory", "aliyun_com_gpu_mem": "total_memory", "aliyun_com_gpu_count": "device",
    "amd_com_gpu": "device", "amd_com_cpx_nps4": "partition", "amd_com_spx_nps1": "partition", "habana_ai_gaudi": "device",
    "aws_amazon_com_neuron": "device", "aws_amazon_com_neurondevice": "device", "aws_amazon_com_neuroncore": "core",
    "google_com_tpu": "device", "huawei_com_Ascend910": "device", "huawei_com_Ascend910B4_1": "device",
    "huawei_com_Ascend310P": "device", "huawei_com_Ascend310P_2c_1cpu": "unsplit",
    "huawei_com_Ascend910B_memory": "unsplit_part", "gpu_intel_com_i915": "device", "gpu_intel_com_xe": "device",
    "gpu_intel_com_xe_monitoring": "none", "gpu_intel_com_millicores": "unsplit_part", "cambricon_com_vmlu": "unsplit",
    "cambricon_com_mlu_smlu_vmemory": "unsplit_part", "hygon_com_dcunum": "unsplit", "hygon_com_dcumem": "unsplit_part",
    "cpu": "none", "memory": "none", "ephemeral_storage": "none", "hugepages_2Mi": "none", "pods": "none",
    "attachable_volumes_aws_ebs": "none", "vpc_amazonaws_com_pod_eni": "none", "rdma_hca_shared_devices_a": "none",
    "devices_kubevirt_io_kvm": "none",
}  # fmt: skip


@pytest.mark.parametrize("resource", KINDS)
def test_a_resource_is_of_one_kind(resource: str) -> None:
    with (pricing_dir() / "resources.csv").open(encoding="utf-8", newline="") as file:
        kinds = {row["kind"] for row in csv.DictReader(file) if re.fullmatch(row["resource"], resource)}
    assert kinds == {KINDS[resource]}
    is_none = KINDS[resource] == "none"
    assert bool(re.fullmatch(other_resources(), resource)) == is_none and bool(re.fullmatch(accelerators(), resource)) != is_none
    assert bool(re.fullmatch(devices(), resource)) == (
        KINDS[resource] in {"device", "slot", "slice", "virtual", "partition", "core", "unsplit"}
    )


def test_the_metrics_of_claims_are_those_of_the_versions_named() -> None:
    with (pricing_dir() / "claim_series.csv").open(encoding="utf-8", newline="") as file:
        versions = {row["metric"]: row["exporter"] for row in csv.DictReader(file)}
    assert versions == {
        "kube_pod_resourceclaim_info": "kube-state-metrics 2.20",
        "kube_resourceclaim_status_reserved_for": "kube-state-metrics after 2.20",
        "kube_resourceclaim_allocation_device_info": "kube-state-metrics after 2.20",
    }
    assert sorted(claim_metrics("pod") + claim_metrics("device")) == sorted(versions)
