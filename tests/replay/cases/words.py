"""Helpers that describe fleets. Hours count from 2026-03-10, 00:00 UTC."""

from __future__ import annotations

from typing import Any

from tests.text_tables import text_rows

MORNING = 1_773_100_800  # 2026-03-10T00:00:00Z

HEADER = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start"

BOOK = """,,,p4de.24xlarge,on_demand,40.00,USD,
,,,p4de.24xlarge,spot,16.00,USD,
,,,g6.12xlarge,on_demand,4.80,USD,
,,,g6.12xlarge,spot,1.80,USD,
,,,g5.xlarge,on_demand,1.20,USD,
,,,g5.xlarge,spot,0.48,USD,
,,,p5.48xlarge,on_demand,64.00,USD,
,,,p5.48xlarge,spot,24.00,USD,
gcp,,,a2-highgpu-2g,on_demand,8.40,USD,
gcp,,,a2-highgpu-2g,spot,2.80,USD,
azure,,,Standard_NC24ads_A100_v4,on_demand,3.60,USD,
azure,,,Standard_NC24ads_A100_v4,spot,1.44,USD,""".splitlines()

#: By instance type: GPU model, GPU count, and the provider.
SHAPES = {
    kind: (model, int(count), provider)
    for kind, model, count, provider in text_rows("""
p4de.24xlarge              | NVIDIA A100-SXM4-80GB  |  8 | karpenter
p4d.24xlarge               | NVIDIA A100-SXM4-40GB  |  8 | karpenter
p5.48xlarge                | NVIDIA H100 80GB HBM3  |  8 | karpenter
g6.12xlarge                | NVIDIA L4              |  4 | karpenter
g5.xlarge                  | NVIDIA A10G            |  1 | karpenter
a2-highgpu-2g              | NVIDIA A100-SXM4-40GB  |  2 | gke
Standard_NC24ads_A100_v4   | NVIDIA A100 80GB PCIe  |  1 | aks
trn3.48xlarge              | Trainium3              | 16 | karpenter
metal-mi300x               | AMD Instinct MI300X    |  8 | aks
Standard_ND96isr_MI300X_v5 | AMD Instinct MI300X    |  8 | aks
""")
}
PLACES = {
    "karpenter": ("us-west-2", "us-west-2b"),
    "gke": ("europe-west4", "europe-west4-a"),
    "aks": ("westeurope", "westeurope-1"),
}


def at(hours: float) -> int:
    """Return the Unix second this many hours after the start."""
    return MORNING + round(hours * 3600)


def node(
    name: str, instance_type: str, start: float, end: float, capacity_type: str = "on_demand", **more: Any
) -> dict[str, Any]:
    """Return a node that is up from hour `start` to hour `end`."""
    model, count, provider = SHAPES[instance_type]
    provider = more.get("provider", provider)
    region, zone = PLACES.get(provider, PLACES["karpenter"])
    facts = {
        "cluster": "main",
        "name": name,
        "instance_type": instance_type,
        "region": region,
        "zone": zone,
        "capacity_type": capacity_type,
        "provider": provider,
        "gpu_model": model,
        "gpus": [f"GPU-{name}-{i}" for i in range(count)],
        "from": at(start),
        "to": at(end),
    }
    return {**facts, **more}


def pod(
    name: str,
    where: str | None,
    numbers: list[Any],
    start: float,
    end: float,
    namespace: str = "train",
    **more: Any,
) -> dict[str, Any]:
    """Return a pod that holds devices of a node (numbers, or (number, MIG instance)) from hour `start` to hour `end`."""
    listed = [
        {"uuid": f"GPU-{where}-{d[0]}", "gi": d[1]} if isinstance(d, tuple) else {"uuid": f"GPU-{where}-{d}"}
        for d in numbers
    ]
    facts = {
        "cluster": "main",
        "namespace": namespace,
        "name": name,
        "uid": f"{namespace}-{name}-{at(start)}",
        "container": "worker",
        "node": where,
        "resource": "nvidia_com_gpu",
        "count": len(numbers),
        "devices": listed,
        "scheduled": at(start),
        "from": at(start),
        "to": at(end),
        "keep_until": at(end) + 420,
    }
    return {**facts, **more}


def busy(
    where: str, devices: list[Any], start: float, end: float, percent: float = 77
) -> dict[str, list[list[float]]]:
    """Return the utilization of some devices of a node over one span."""
    keys = [f"GPU-{where}-{d[0]}/{d[1]}" if isinstance(d, tuple) else f"GPU-{where}-{d}" for d in devices]
    return {key: [[at(start), at(end), percent]] for key in keys}


def fleet(
    end: float, nodes: list[Any], pods: list[Any], util: dict[str, Any] | str, **more: Any
) -> dict[str, Any]:
    """Return a fleet from hour 0 to hour `end`, scraped every minute.

    Nodes and pods may be rows of text: name, type, from hour, to hour and capacity type; name, node, numbers of its devices, from
    hour, to hour and namespace. Utilization may be a table: node, numbers of devices, from hour, to hour and percent.
    """
    if isinstance(util, str):
        rows, util = text_rows(util), {}
        for where, numbers, *span in rows:
            util |= busy(where, numbers.split(), *map(float, span))
    facts = {
        "start": at(0),
        "end": at(end),
        "scrape": 60,
        "nodes": list(map(_node, nodes)),
        "pods": list(map(_pod, pods)),
    }
    return {**facts, "util": util, **more}


def _node(one: Any) -> dict[str, Any]:
    if isinstance(one, dict):
        return one
    ((name, kind, start, end, *bought),) = text_rows(one)
    return node(name, kind, float(start), float(end), *bought)


def _pod(one: Any) -> dict[str, Any]:
    if isinstance(one, dict):
        return one
    ((name, where, numbers, start, end, *namespace),) = text_rows(one)
    return pod(name, where, numbers.split(), float(start), float(end), *namespace)
