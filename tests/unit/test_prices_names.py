"""Every spelling of a GPU that the catalog knows leads to its prices."""

from __future__ import annotations

import csv
import re

import pytest

from gpucost.price.listing import gpu_models_called, nearest, spelled
from gpucost.resources import pricing_dir


def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


MODELS = [row["gpu_model"] for row in _rows("gpus.csv")]
ALIASES = {spelled(row["alias"]): row["gpu_model"] for row in _rows("gpu_aliases.csv")}


def called(name: str) -> tuple[str, ...]:
    return gpu_models_called(name, MODELS, ALIASES)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("H100", {"H100-80GB-HBM3", "H100-PCIe", "H100-NVL"}),
        ("NVIDIA H100 80GB HBM3", {"H100-80GB-HBM3"}),
        ("a100 80gb", {"A100-SXM4-80GB", "A100-80GB-PCIe"}),
        ("l40s", {"L40S"}),
        ("L4", {"L4"}),
        ("A10", {"A10"}),
        ("tesla t4", {"T4"}),
        ("H200", {"H200", "H200-NVL"}),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", {"A100-SXM4-40GB"}),
        ("Tesla-T4-SHARED", {"T4"}),
        ("nvidia-h100-mega-80gb", {"H100-80GB-HBM3"}),
        ("B200", {"B200"}),
        ("p5", set()),
        ("", set()),
        ("nvidia", set()),
    ],
)
def test_spellings(name: str, models: set[str]) -> None:
    assert set(called(name)) == models


def test_every_name_and_every_alias_is_understood() -> None:
    for model in MODELS:
        assert model in called(model), model
    for row in _rows("gpu_aliases.csv"):
        result = called(row["alias"])
        assert row["gpu_model"] in result or not re.search(r"[A-Za-z]", row["alias"]), row


def test_nearest_prefers_what_begins_so_and_knows_words() -> None:
    assert nearest("p5", ["p4d.24xlarge", "p5.48xlarge", "A10"], 1) == ["p5.48xlarge"]
    assert nearest("H101", ["A10", "H20", "H100-80GB-HBM3"], 1) == ["H100-80GB-HBM3"]
