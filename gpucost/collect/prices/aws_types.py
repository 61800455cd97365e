"""Reads what EC2 says of its instance types: which hold accelerators, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucost.collect.prices.known import gpu_memory_mib, gpu_model, known_types
from gpucost.store.list_prices import InstanceType

SOURCE = "aws ec2 describe_instance_types"

# Where EC2 keeps each kind of accelerator. Inferentia stands under two of them; the first is enough.
_PLACES = (
    ("GpuInfo", "Gpus"),
    ("NeuronInfo", "NeuronDevices"),
    ("InferenceAcceleratorInfo", "Accelerators"),
    ("MediaAcceleratorInfo", "Accelerators"),
)


def accelerated(said: Mapping[str, Any]) -> InstanceType | None:
    """One instance type of describe_instance_types; None where it holds no accelerator."""
    devices = next((said[info][kind] for info, kind in _PLACES if said.get(info, {}).get(kind)), None)
    if not devices:
        return None
    device, name = devices[0], said["InstanceType"]
    known = known_types("aws").get(name)
    memory = device.get("MemoryInfo", {}).get("SizeInMiB")
    # EC2 calls the A100 of 40 and of 80 GB the same
    spellings = [device["Name"]] if memory is None else [f"{device['Name']}-{round(memory / 1024)}GB", device["Name"]]
    model = known.gpu_model if known else gpu_model(*spellings)
    return InstanceType(
        instance_type=name,
        gpu_model=model,
        gpu_count=_count(name, devices, model),
        gpu_memory_mib=memory,
        vcpus=said.get("VCpuInfo", {}).get("DefaultVCpus"),
        memory_gib=said["MemoryInfo"]["SizeInMiB"] / 1024 if "MemoryInfo" in said else None,
        source=SOURCE,
    )


def _count(name: str, devices: list[Mapping[str, Any]], model: str) -> float:
    """How many GPUs, parts of one included. A part (g6f) is reported with a count of 0.

    Then the size of its partition says, else the catalog, else how much of a GPU's memory it has.
    """
    if count := sum(int(device.get("Count") or 0) for device in devices):
        return float(count)
    if parts := sum(float(d.get("LogicalGpuCount") or 0) * float(d.get("GpuPartitionSize") or 0) for d in devices):
        return parts
    if known := known_types("aws").get(name):
        return float(known.gpu_count)
    memory, whole = devices[0].get("MemoryInfo", {}).get("SizeInMiB"), gpu_memory_mib(model)
    # partitions are eighths: memory is a little short of its share
    return max(1, round(8 * memory / whole)) / 8 if memory and whole else 1.0
