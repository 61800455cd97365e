"""What the shipped catalog says of instance types and GPU names: which to ask for, and what to call them."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class KnownType:
    """One instance type of the catalog; `gpu_memory_mib` is of one GPU or part of one."""

    instance_type: str
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_mib: int | None
    vcpus: Decimal
    memory_gib: Decimal
    local_ssd_gib: Decimal


@cache
def known_types(provider: str) -> Mapping[str, KnownType]:
    """The catalog's instance types of a provider, by name."""
    return {
        row["instance_type"]: KnownType(
            instance_type=row["instance_type"],
            gpu_model=row["gpu_model"],
            gpu_count=Decimal(row["gpu_count"]),
            gpu_memory_mib=int(row["gpu_memory_mib"]) if row["gpu_memory_mib"] else None,
            vcpus=Decimal(row["vcpus"] or 0),
            memory_gib=Decimal(row["memory_gib"] or 0),
            local_ssd_gib=Decimal(row.get("local_ssd_gib") or 0),
        )
        for row in _rows("instances.csv")
        if row["provider"] == provider
    }


def gpu_model(*spellings: str) -> str:
    """The one name of a GPU model: that of the first of `spellings` the catalog knows, else the last one, hyphenated."""
    for spelling in spellings:
        if name := _aliases().get(_plain(spelling)):
            return name
    return re.sub(r"\s+", "-", spellings[-1].strip())


@cache
def gpu_memory_mib(model: str) -> int | None:
    """Memory of one whole GPU of that model; None where the catalog does not know it."""
    found = next((row["memory_mib"] for row in _rows("gpus.csv") if row["gpu_model"] == model), "")
    return int(found) if found else None


@cache
def _aliases() -> Mapping[str, str]:
    return {_plain(row["alias"]): row["gpu_model"] for row in _rows("gpu_aliases.csv")}


def _plain(spelling: str) -> str:
    """Spellings are compared as gpucost/catalog/gpu_aliases.sql compares them."""
    return re.sub(r"^(nvidia|tesla)+", "", re.sub(r"[^a-z0-9]", "", spelling.lower()))


def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
