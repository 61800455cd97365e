"""GPU shares of resource units: claims, unlisted resources, indivisible families, fractions. Six hours."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fleets.case import Case, Edit, alone, case, drop
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.series import Series
from tests.text_tables import text_rows, words

L4 = "g6.12xlarge"
BARE = {"dcgm": False, "gfd": False, "instance_type": "box.large"}
TIMES = np.arange(at(0), at(6), 60, dtype=np.int64) * 1000


def allocated(claim: str, device: str, driver: str = "gpu.nvidia.com", pool: str = "w") -> Series:
    """Return kube-state-metrics' series of a device allocated to a claim of namespace train."""
    labels = words(f"""
        __name__=kube_resourceclaim_allocation_device_info job=kube-state-metrics instance=10.4.0.30:8080 namespace=train
        resourceclaim={claim} request=gpu driver={driver} pool={pool} device={device}""")
    return Series(labels, TIMES, np.ones(len(TIMES)))


def given(claim: str, *devices: str, driver: str = "gpu.nvidia.com") -> Edit:
    return lambda series: [*series, *(allocated(claim, device, driver) for device in devices)]


def claiming(name: str, start: float, end: float, claim: str = "shared") -> dict[str, Any]:
    return pod(name, "w", [], start, end, count=0, claims=[claim])


def exported(series: list[Series]) -> list[Series]:
    """Add activity whose labels name one of a claim's pods, and the claim."""
    labels = words("""
        __name__=DCGM_FI_DEV_GPU_UTIL job=dcgm-exporter instance=w:9400 UUID=GPU-w-0 Hostname=w namespace=train pod=long
        dra_claim_name=shared dra_claim_namespace=train""")
    return [*series, Series(labels, TIMES, np.full(len(TIMES), 70.0))]


def fraction(
    name: str, numbers: str = "0.5", labels: dict[str, str] | None = None, **more: str
) -> dict[str, Any]:
    """Return a pod that shares a GPU by an annotation."""
    return pod(
        name, "w", [], 0, 4, count=0, annotations={"gpu_fraction": numbers, **more}, labels=labels or {}
    )


def held(name: str, described: Fleet, figures: str, *changes: Edit, **more: Any) -> Case:
    """Return a case with only the GPU-hours of pods."""
    rows = [f"{pod} | {hours}" for pod, hours in words(figures).items()]
    return case(name, described, "\n".join(["pod | held", *rows]), *changes, **more)


# a second pod joins a claim of six hours for the first three: 1.5 + 3 and 1.5
SHARED = alone(6, L4, claiming("long", 0, 6), claiming("short", 0, 3), util="w | 0 | 0 | 6")
SPLIT = "long=4.5 short=1.5"


def odd(name: str, resource: str, count: int, end: float, **more: Any) -> dict[str, Any]:
    return pod(name, "w", [], 0, end, resource=resource, count=count, **more)


def unlisted(instance_type: str, worth: str) -> Case:
    where = {"instance_type": instance_type, "offers": {"example_com_npu": 8}}
    if instance_type != L4:
        where |= {"gpus": [], "gfd": False, "dcgm": False}
    nodes = [node("w", L4, 0, 6) | where, "g | g5.xlarge | 0 | 6"]
    expected = f"unsupported_resource example_com_npu … 12.0 hours held by 1 pod of train on 1 node … {worth}"
    return held(
        f"an unlisted resource on {instance_type}", fleet(6, nodes, [odd("odd", "example_com_npu", 4, 3)], {}), "",
        warnings=expected,
    )  # fmt: skip


def reserved(labeled: bool) -> Case:
    """Return a case with an exported fraction of half of GPU 0 and a memory annotation for GPU 1 that is not exported."""
    groups = [{"runai_gpu_group": f"group-{n}"} if labeled else {} for n in range(2)]
    pods = [
        *(pod(f"reservation-{n}", "w", [n], 0, 4, "kai-resource-reservation", labels=groups[n]) for n in range(2)),
        fraction("half", labels=groups[0]), pod("memory", "w", [], 0, 4, count=0, labels=groups[1]),
    ]  # fmt: skip
    texts = [
        f"(4.0 GPU-hours of 1 pod … namespace {name}"
        for name in ("kai-resource-reservation reserve", "train share")[: 1 + labeled]
    ]
    return held(
        f"a reservation whose pod is hidden holds {'with' if labeled else 'without'} groups", alone(6, L4, *pods),
        "half=2 reservation-1=4", warnings={"hidden_fractions": tuple(texts)},
    )  # fmt: skip


def hami(units: int, labels: dict[str, str], gpus: str, guessed: bool) -> Case:
    """Return a case with five virtual GPUs of HAMi per GPU on node w; only the units of node b can show its count."""
    part = pod("part", "w", [0], 0, 6, asks={"nvidia_com_gpucores": 30, "nvidia_com_gpumem_percentage": 20})
    nodes = [
        node("w", L4, 0, 6, offers={"nvidia_com_gpu": 20}), node("b", L4, 0, 6, offers={"nvidia_com_gpu": units}, labels=labels)
    ]  # fmt: skip
    name = f"a pod of HAMi next to {units} units{' with a label' if labels else ''}"
    return held(
        name, fleet(6, nodes, [part, "other | b | 0 | 0 | 6"], {}), f"part=1.8 other={gpus}",
        warnings="guessed_share" if guessed else "",
    )  # fmt: skip


#: Devices and fraction of an annotation, and its value in GPUs.
CUT = """
2     | 0.5 | 1
nan   | 0.5 | 0.5
inf   | 0.5 | 0.5
-3    | 0.5 | 0.5
1e300 | 0.5 | 0.5
1000  | 1   | 4
1     | 7   | 1
2     | nan | 0
"""


def cut(devices: str, numbers: str, gpus: float) -> Case:
    """Return a case with an annotation beyond a pod's limit, next to a pod with a GPU."""
    pods = [fraction("odd", numbers, gpu_fraction_num_devices=devices), "whole | w | 0 | 0 | 4"]
    expected = (
        {} if (devices, numbers) == ("2", "0.5") else {"guessed_share": f"({4 * gpus:.1f} GPU-hours of 1 pod"}
    )
    if gpus == 4:
        expected["over_allocated"] = ""  # with the other pod
    figures = "whole=4" + (f" odd={4 * gpus}" if gpus else "")
    return held(f"{numbers} of {devices} devices", alone(6, L4, *pods), figures, warnings=expected)


CASES = [
    held("a claim is split among the running pods", SHARED, SPLIT, given("shared", "gpu-0")),
    held("the exporter's claim holds for all its pods", SHARED, SPLIT, drop("DCGM_.*"), exported),
    held(
        "a claim known to the exporter only may have other pods", SHARED, "long=6",
        drop("DCGM_.*|kube_pod_resourceclaim_info"), exported,
        warnings="unknown_claim_pods namespace train are known from dcgm-exporter only … (6.0 GPU-hours of 1 pod",
    ),
    held(
        "slices of claims", alone(6, "p5.48xlarge", claiming("slice", 0, 6, "a"), claiming("two", 0, 3, "b")),
        "slice=6/7 two=6", given("a", "gpu-1-mig-1g10gb-19-0"), given("b", "gpu-2", "gpu-3"),
    ),
    held(
        "a claim without a known device", alone(6, L4, claiming("lost", 1, 5), claiming("net", 0, 6, "nic")), "",
        given("nic", "eth-1", driver="dra.net"), warnings="unplaced_claim train … 4.0 GPU-hours of 1 pod",
    ),
    unlisted(L4, "7.20 USD"), unlisted("box.large", "3.00 USD"), unlisted("strange", "without a price"),
    held(
        "reservations whose pods are hidden",
        alone(6, L4, "reservation-0 | w | 0 | 0 | 4 | kai-resource-reservation", fraction("half")), "reservation-0=4",
        drop("kube_pod_annotations"),
        warnings="hidden_fractions kai-resource-reservation … 4.0 GPU-hours of 1 pod … pods=[gpu-fraction,gpu-memory",
    ),
    reserved(True), reserved(False),
    *(cut(devices, numbers, float(gpus)) for devices, numbers, gpus in text_rows(CUT)),
    held(
        "a family that cannot be split counts whole",
        alone(
            6, L4, odd("template", "huawei_com_Ascend310P_4c", 1, 3),
            odd("memory", "huawei_com_Ascend310P", 1, 3, asks={"huawei_com_Ascend310P_memory": 3072}),
            of={**BARE, "shared_resource": "huawei_com_Ascend310P"},
        ),
        "template=3 memory=3",
        warnings={"unsplit_resource": tuple(f"huawei_com_ascend310p_{part} … 3.0 GPU-hours" for part in ("4c", "memory"))},
    ),
    case(
        "virtual devices without another count",
        alone(
            6, L4, pod("part", "w", [], 0, 6, count=1, asks={"nvidia_com_gpucores": 50, "nvidia_com_gpumem_percentage": 25}),
            of={**BARE, "offers": {"nvidia_com_gpu": 40}},
        ), """
        pod  | held cost
        part |    3  1.5""",
    ),
    hami(16, {}, "1.5", False), hami(40, {}, "6", True),
    hami(40, {"label_nvidia_com_gpu_sharing_strategy": "time-slicing"}, "0.6", False),
    hami(20, {}, "6", True), hami(4, {}, "6", False),
    held(
        "slots of Intel",
        alone(6, L4, odd("slot", "gpu_intel_com_i915", 1, 6), of={
            **BARE, "labels": {"label_gpu_intel_com_device_count": 2}, "shared_resource": "gpu_intel_com_i915",
            "offers": {"gpu_intel_com_i915": 8, "gpu_intel_com_i915_monitoring": 1, "gpu_intel_com_memory_max": 48_000_000_000},
        }),
        "slot=1.5",
    ),
]  # fmt: skip
