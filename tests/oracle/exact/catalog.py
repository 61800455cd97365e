"""Facts shipped with gpucost about instance types, GPU models and MIG profiles."""

from __future__ import annotations

import csv
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

PRICING = Path(__file__).parents[3] / "pricing"
#: GPUs without seven compute slices (NVIDIA MIG user guide, supported profiles).
OTHER_SLICES = re.compile(r"(A30|RTX[- ]?PRO[- ]?6000)")


@cache
def _rows(name: str) -> list[dict[str, str]]:
    with (PRICING / name).open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def gpus_of(instance_type: str) -> Fraction | None:
    """Return the GPU count of an instance type, as its cloud sells it."""
    counts = [
        Fraction(row["gpu_count"])
        for row in _rows("instances.csv")
        if row["instance_type"].lower() == instance_type.lower()
    ]
    return max(counts, default=None)


@cache
def memory_of(product: str) -> Fraction | None:
    """Return the MiB of a GPU."""
    models = {_spelled(row["alias"]): row["gpu_model"] for row in _rows("gpu_aliases.csv")}
    memory = {row["gpu_model"]: row["memory_mib"] for row in _rows("gpus.csv")}
    known = memory.get(models.get(_spelled(product), product))
    return Fraction(known) if known else None


def _spelled(name: str) -> str:
    whole = re.sub(r"(-MIG-.*|-SHARED)$", "", name)
    return re.sub(r"^(nvidia|tesla)+", "", re.sub(r"[^a-z0-9]", "", whole.lower()))


def slices_of(product: str) -> int:
    """Return the compute slices of a GPU that supports MIG."""
    return 4 if OTHER_SLICES.search(product.removeprefix("NVIDIA").strip(" -")) else 7
