"""A small price catalog with values known to tests, next to the GPU facts shipped with gpucost."""

from __future__ import annotations

import csv
import shutil
from functools import cache
from pathlib import Path

import pytest

from gpucost import catalog
from gpucost.resources import pricing_dir
from gpucost.store import connection
from tests.text_tables import text_rows

PRICES = text_rows("""
aws    | us-east-1   |          | p5.48xlarge              | on_demand |   |            | 55.04  | USD | 2026-11-01
aws    | us-west-2   |          | p5.48xlarge              | on_demand |   |            | 60     | USD | 2026-11-01
aws    | us-east-1   | use1-az1 | p5.48xlarge              | spot      |   |            | 55.04  | USD | 2025-11-30
aws    | us-east-1   | use1-az2 | p5.48xlarge              | spot      |   |            | 13.76  | USD | 2025-11-30
aws    | us-west-2   | usw2-az1 | p5.48xlarge              | spot      |   |            | 15     | USD | 2025-11-30
aws    | cn-north-1  |          | p5.48xlarge              | on_demand |   |            | 400    | CNY | 2026-11-01
aws    | us-east-1   |          | g6f.large                | on_demand |   |            | 0.202  | USD | 2026-11-01
azure  | eastus      |          | Standard_ND96isr_H100_v5 | on_demand |   |            | 98.32  | USD | 2026-11-01
gcp    | us-central1 |          | a3-highgpu-8g            | on_demand |   |            | 88.49  | USD | 2026-11-01
gcp    | us-central1 |          | a3-highgpu-8g            | cud       | 3 | no_upfront | 38.864 | USD | 2026-11-01
gcp    | us-central1 |          | a3-highgpu-8g            | on_demand |   |            | 90     | USD | 2026-06-01
lambda |             |          | gpu_1x_h100_pcie         | on_demand |   |            | 3.29   | USD | 2025-06-30
""")
_COLUMNS = """
    provider region zone instance_type purchase_option term_years payment_option price_per_hour currency price_as_of"""


def write(directory: Path) -> Path:
    """Make a copy of pricing/ in `directory` with PRICES in prices.csv."""
    shutil.copytree(pricing_dir(), directory)
    with (directory / "prices.csv").open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    with (directory / "prices.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        for row in PRICES:
            writer.writerow({**dict(zip(_COLUMNS.split(), row, strict=True)), "source_id": "test"})
    return directory


def use(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Make gpucost read its facts from another directory than the shipped one."""
    for module in (catalog, connection):
        patch.setattr(module, "pricing_dir", lambda: directory)
    # the first connection of this process fixed the folders that connections may see
    patch.setattr(connection, "_template", cache(connection._template.__wrapped__))
