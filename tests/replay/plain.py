"""Scrapes of nvidia_gpu_exporter or dcgm-exporter on machines without Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import numpy as np

from tests.replay.cases.words import HEADER, at
from tests.replay.series import Recorder, Series
from tests.text_tables import text_rows, words

MODEL = "NVIDIA A100-SXM4-80GB"
#: Activity in percent for either exporter; `as_ratios` gives it nvidia_gpu_exporter's name and unit.
UTIL = "DCGM_FI_DEV_GPU_UTIL"
RATIO = "nvidia_smi_utilization_gpu_ratio"
#: A machine with two GPUs costs $4 an hour, a Kubernetes node with one GPU $1.
BOOK = [",,,box-2,on_demand,4.00,USD,", ",,,g5.xlarge,on_demand,1.00,USD,"]
PRICES = "\n".join([HEADER, *BOOK]) + "\n"
#: GPU, from hour, to hour, and its utilization in percent or its user.
Busy = tuple[int, float, float, float]
Users = tuple[int, float, float, str]


def uuid(host: str, gpu: int) -> str:
    """Return a GPU's UUID in nvidia_gpu_exporter's format."""
    return str(uuid5(NAMESPACE_DNS, f"{host}-{gpu}"))


def smi(host: str, gpu: int) -> dict[str, object]:
    """Return the labels of nvidia_gpu_exporter."""
    return {**words(f"job=nvidia_gpu_exporter instance={host}:9835 uuid={uuid(host, gpu)}")}


def dcgm(host: str, gpu: int) -> dict[str, object]:
    """Return the labels of dcgm-exporter."""
    labels = f'job=dcgm-exporter instance={host}:9400 Hostname={host} modelName="{MODEL}" UUID=GPU-{uuid(host, gpu)}'
    return {**words(labels), "gpu": gpu}


def machine(
    gpus: Iterable[Mapping[str, object]],
    busy: Iterable[Busy] = (),
    users: Iterable[Users] = (),
    hours: float = 24,
    down: Iterable[tuple[float, float]] = (),
) -> list[Series]:
    """Return the scrapes of one machine's exporter, each minute, with a set of labels for each GPU."""
    out = Recorder()
    ticks = np.arange(at(0), at(hours), 60)
    for start, end in down:
        ticks = ticks[(ticks < at(start)) | (ticks >= at(end))]
    for number, labels in enumerate(gpus):
        if "uuid" in labels:
            info = {**labels, "name": MODEL, "driver_version": "595.71.05", "index": number}
            out.add("nvidia_smi_gpu_info", info, ticks * 1000, 1.0)
        values, names = np.zeros(len(ticks)), np.full(len(ticks), "", dtype=object)
        for gpu, start, end, value in busy:
            values[(gpu == number) & (ticks >= at(start)) & (ticks < at(end))] = value
        for gpu, start, end, name in users:
            names[(gpu == number) & (ticks >= at(start)) & (ticks < at(end))] = name
        for name in set(names):
            mine = names == name
            out.add(UTIL, {**labels, "user": name}, ticks[mine] * 1000, values[mine])
    return out.series()


#: Box 1: GPU 0 is busy for six hours, GPU 1 for one; box 2: GPU 1 all day.
BUSY_1: list[Busy] = [(0, 0, 6, 80), (1, 3, 4, 50)]
BUSY_2: list[Busy] = [(1, 0, 24, 50)]
#: Alice: 10 h and 2 h of GPU 0, 3 h and 1.5 h of GPU 1. Bob: 4 h.
_USERS = """
0 | 0  | 10  | alice
0 | 10 | 14  | bob
1 | 2  | 5   | alice
1 | 7  | 8.5 | alice
0 | 20 | 22  | alice
"""
USERS = [(int(gpu), float(start), float(end), name) for gpu, start, end, name in text_rows(_USERS)]


def boxes(users: Iterable[Users] = (), labels: Iterable[str] = ("box-1", "box-2")) -> list[Series]:
    """Return two machines with two GPUs each, and nvidia_gpu_exporter."""
    first, second = labels
    return [
        *machine([smi(first, 0), smi(first, 1)], BUSY_1, users),
        *machine([smi(second, 0), smi(second, 1)], BUSY_2),
    ]


def as_ratios(series: Iterable[Series]) -> list[Series]:
    """Return the same under nvidia_gpu_exporter's activity metric, from 0 to 1."""
    return [
        replace(one, labels={**one.labels, "__name__": RATIO}, values=one.values / 100)
        if one.labels["__name__"] == UTIL
        else one
        for one in series
    ]
