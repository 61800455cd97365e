"""One name per GPU model: every spelling that DCGM, device plugins, autoscalers and clouds use maps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pytest

from gpucost.catalog import load_catalog

SPELLINGS = {
    "T4": ["Tesla T4", "NVIDIA T4", "Tesla-T4", "Tesla-T4-SHARED", "nvidia-tesla-t4", "t4", "T4"],
    "T4G": ["NVIDIA T4G", "t4g"],
    "V100-SXM2-16GB": [
        "Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-16GB-SHARED", "nvidia-tesla-v100", "v100", "V100",
    ],
    "V100-SXM2-32GB": ["Tesla V100-SXM2-32GB", "Tesla V100-SXM3-32GB", "Tesla-V100-SXM2-32GB"],
    "V100-PCIE-16GB": ["Tesla V100-PCIE-16GB"],
    "P100-PCIE-16GB": ["Tesla P100-PCIE-16GB", "nvidia-tesla-p100"],
    "P4": ["Tesla P4", "nvidia-tesla-p4"],
    "K80": ["Tesla K80", "nvidia-tesla-k80", "K80"],
    "M60": ["Tesla M60", "M60"],
    "A10": ["NVIDIA A10", "NVIDIA A10-24Q", "NVIDIA A10-8Q", "nvidia-a10"],
    "A10G": ["NVIDIA A10G", "NVIDIA-A10G", "NVIDIA-A10G-SHARED", "a10g", "A10G", "nvidia-a10g"],
    "A30": ["NVIDIA A30", "NVIDIA-A30", "NVIDIA-A30-MIG-1g.6gb"],
    "A40": ["NVIDIA A40"],
    "RTX-A6000": ["NVIDIA RTX A6000", "A6000"],
    "A100-SXM4-40GB": [
        "NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED", "NVIDIA-A100-SXM4-40GB-SHARED", "nvidia-tesla-a100", "a100", "A100",
    ],
    "A100-PCIE-40GB": ["NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"],
    "A100-SXM4-80GB": [
        "NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia-a100-80gb",
        "a100-80gb", "A100-80GB",
    ],
    "A100-80GB-PCIe": ["NVIDIA A100 80GB PCIe", "NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-80GB-PCIe-MIG-2g.20gb"],
    "L4": ["NVIDIA L4", "NVIDIA-L4", "NVIDIA-L4-SHARED", "nvidia-l4", "l4", "L4"],
    "L40": ["NVIDIA L40"],
    "L40S": ["NVIDIA L40S", "NVIDIA-L40S", "l40s", "L40S"],
    "H100-80GB-HBM3": [
        "NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia-h100-80gb", "nvidia-h100-mega-80gb", "h100-80gb", "h100-80gb-mega", "h100",
        "H100",
    ],
    "H100-PCIe": ["NVIDIA H100 PCIe", "NVIDIA-H100-PCIe"],
    "H100-NVL": ["NVIDIA H100 NVL", "NVIDIA-H100-NVL", "NVIDIA-H100-NVL-MIG-1g.12gb"],
    "H200": ["NVIDIA H200", "NVIDIA-H200", "nvidia-h200-141gb", "h200", "H200"],
    "H200-NVL": ["NVIDIA H200 NVL"],
    "GH200-96GB": ["NVIDIA GH200 480GB"],
    "B200": ["NVIDIA B200", "NVIDIA-B200", "nvidia-b200", "b200", "B200"],
    "GB200": ["NVIDIA GB200", "nvidia-gb200"],
    "B300": ["NVIDIA B300 SXM6 AC", "b300"],
    "GB300": ["NVIDIA GB300", "nvidia-gb300"],
    "RTX-PRO-6000": [
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb", "nvidia-rtx-pro-6000", "rtx6000",
    ],
    "GeForce-RTX-4090": ["NVIDIA GeForce RTX 4090", "NVIDIA-GeForce-RTX-4090-SHARED"],
    "MI210": ["AMD Instinct MI210"],
    "MI250X": ["AMD Instinct MI250X / MI250", "AMD_Instinct_MI250X"],
    "MI300X": ["AMD Instinct MI300X", "AMD_Instinct_MI300X_OAM", "AMD_Instinct_MI300X_VF", "MI300X"],
    "MI325X": ["AMD Instinct MI325X", "AMD_Instinct_MI325X_OAM"],
    "Radeon-Pro-V520": ["AMD Radeon Pro V520", "radeon-pro-v520"],
    "Gaudi": ["Gaudi HL-205"],
    "Gaudi2": ["Gaudi2", "HL-225"],
    "Inferentia2": ["Inferentia2"],
    "Trainium": ["Trainium"],
    "Trainium2": ["Trainium2"],
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        load_catalog(connection)
        yield connection


def test_an_alias_means_one_model(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute("SELECT alias FROM gpu_aliases GROUP BY alias HAVING count(*) > 1").fetchall() == []


def test_a_models_own_name_is_one_of_its_spellings(con: duckdb.DuckDBPyConnection) -> None:
    named = {model for spellings in (con.execute("SELECT gpu_model FROM gpu_models").fetchall(),) for (model,) in spellings}
    assert {model for model in named if _model(con, model) != model} == set()


@pytest.mark.parametrize(("model", "spelling"), [(model, name) for model, names in SPELLINGS.items() for name in names])
def test_spellings_that_are_met(con: duckdb.DuckDBPyConnection, model: str, spelling: str) -> None:
    assert _model(con, spelling) == model


def _model(con: duckdb.DuckDBPyConnection, spelling: str) -> str | None:
    # as inventory cleans a name: without what says how a GPU is cut or shared, then letters and digits only
    whole = re.sub(r"(-MIG-.*|-SHARED)$", "", spelling)
    alias = re.sub("^(nvidia|tesla)+", "", re.sub("[^a-z0-9]", "", whole.lower()))
    rows = con.execute("SELECT gpu_model FROM gpu_aliases WHERE alias = ?", [alias]).fetchone()
    return rows[0] if rows else None
