"""pricing/resources.csv and pricing/claim_series.csv as selectors have them: regular expressions, and names of metrics."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING

from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

# Kinds of rows by which nobody holds a device: no accelerator, drivers of claims, and memory and cores, which are parts of one.
_NONE = "none"
_CLAIM = "claim"
_PARTS = ("memory", "percentage", "cores", "total_memory", "total_cores", "unsplit_part")


def accelerators() -> str:
    """The resources that are accelerators or parts of them, as kube-state-metrics spells them."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] not in (_NONE, _CLAIM))


def devices() -> str:
    """The resources that count devices, slices, slots and the like, but not their memory and cores."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] not in (_NONE, _CLAIM, *_PARTS))


def other_resources() -> str:
    """The resources that are known to be no accelerators."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] == _NONE)


def claim_metrics(kind: str) -> list[str]:
    """The metrics that tell which pods ('pod') or devices ('device') belong to a resource claim."""
    return [row["metric"] for row in _rows("claim_series.csv") if row["kind"] == kind]


def _joined(patterns: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(patterns))


@cache
def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))
