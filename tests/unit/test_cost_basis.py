"""How a node's price is split into GPU, cores and memory: known shares, and the page; pods pay in tests/fleets/settings.py."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import inventory
from gpucost.catalog import load_catalog, load_components
from gpucost.config.model import Config, Prices
from gpucost.engine import run_stages
from gpucost.price import load_price_list
from gpucost.store.connection import Store
from tests.text_tables import text_rows

BASES = ("opencost", "scad", "sku")
PAGE = Path(__file__).parents[2] / "docs" / "cost-basis.md"
REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}

# The share of GPUs in an instance's price: by OpenCost's defaults, by AWS' 9 : 1 weights, and by the list price less the host at
# Google's prices of the family, or of A2 for other clouds (worked out apart from gpucost, in July 2026).
SHARES = """
aws    p5.48xlarge                 0.3401  0.1601  0.7321
aws    p4d.24xlarge                0.4898  0.2632  0.6395
aws    g5.xlarge                   0.8302  0.6338  0.8069
aws    g6.xlarge                   0.8302  0.6338  0.7587
aws    g5.16xlarge                 0.2341  0.0976  0.2413
gcp    a2-highgpu-1g               0.5623  0.3180  0.7987
gcp    a2-ultragpu-1g              0.4635  0.2446  0.7831
gcp    a3-highgpu-8g               0.3438  0.1613  0.8931
gcp    g2-standard-4               0.8302  0.6338  0.7923
gcp    g2-standard-32              0.3794  0.1779  0.3229
azure  Standard_ND96amsr_A100_v4   0.4067  0.2067  0.6617
azure  Standard_NC24ads_A100_v4    0.3597  0.1711  0.5397"""
KNOWN = [
    (provider, name, [*map(float, shares)])
    for provider, name, *shares in map(str.split, SHARES.strip().splitlines())
]
OWN = "our-own-box"
Splits = dict[str, tuple[dict[str, tuple[bool, float, float]], list[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def splits(module_path: Path) -> Splits:
    """By basis: by instance type whether it falls back to A2's host, and the parts of GPU and cores; and the warnings."""
    results = {}
    with Store(module_path / "splits.duckdb").write() as con:
        inventory.stage(con, Config(prices=Prices(cost_basis="sku")))
        load_components(con)
        load_price_list(con)
        for number, (provider, instance_type) in enumerate([("", OWN), *(row[:2] for row in KNOWN)]):
            con.execute(
                """INSERT INTO nodes BY NAME SELECT $1 AS node_id, 'c' AS cluster, $2 AS node,
                    1790812800000 AS up_from_ms, 1790816400000 AS up_to_ms, -- October 2026
                    $3 AS provider, $4 AS region, $2 AS instance_type, 'on_demand' AS capacity_type, 1 AS gpu_count""",
                [number, instance_type, provider, REGIONS.get(provider, "here")],
            )
            con.execute("INSERT INTO node_hosts VALUES ($1, 'cpu', 7), ($1, 'memory', 8e9)", [number])
        for basis in BASES:
            con.execute("DELETE FROM warnings")
            con.execute("SET VARIABLE cost_basis = $basis", {"basis": basis})
            run_stages(con, "gpucost.attribute.basis")
            rows = con.execute(
                "SELECT node, is_fallback, gpu_fraction, cpu_fraction FROM node_splits JOIN nodes USING (node_id)"
            ).fetchall()
            warnings = con.execute(
                "SELECT code, subject FROM warnings WHERE code = 'basis_fallback' ORDER BY ALL"
            ).fetchall()
            results[basis] = {name: (is_fallback, gpu, cpu) for name, is_fallback, gpu, cpu in rows}, warnings
    return results


@pytest.mark.parametrize("basis", BASES)
def test_shares_are_those_that_are_known(basis: str, splits: Splits) -> None:
    shares_of, warnings = splits[basis]
    for provider, name, shares in KNOWN:
        is_fallback, gpu, _ = shares_of[name]
        assert gpu == pytest.approx(shares[BASES.index(basis)], abs=5e-5), name
        assert is_fallback == (basis == "sku" and provider != "gcp")
    fallen = set()
    if basis == "sku":  # our own box has no list price, so list prices do not split it
        fallen = {OWN, *(name for provider, name, _ in KNOWN if provider != "gcp")}
        assert OWN not in shares_of
    assert warnings == [("basis_fallback", name) for name in sorted(fallen)]


def test_a_kind_of_node_without_list_price_is_split_by_weights(splits: Splits) -> None:
    assert splits["scad"][0][OWN][1] == pytest.approx(90 / (90 + 9 * 7 + 8e9 / 2**30))


def listed(folder: Path, types: list[tuple[str, ...]]) -> dict[str, tuple[Decimal, int]]:
    """On-demand list price per hour, and GPUs, of instance types."""
    with Store(folder / "catalog.duckdb").write() as con:
        load_catalog(con)
        rows = con.execute(
            """SELECT p.provider, p.region, p.instance_type, p.price_per_hour, i.gpu_count::INTEGER
            FROM catalog_prices AS p JOIN catalog_instances AS i USING (provider, instance_type)
            WHERE purchase_option = 'on_demand' ORDER BY p.price_as_of"""
        ).fetchall()
    return {
        kind: (price, count)
        for provider, region, kind, price, count in rows
        if (provider, kind) in types and region == REGIONS[provider]
    }


def test_the_page_shows_what_each_basis_does(tmp_path: Path, splits: Splits) -> None:
    types = text_rows("gcp | a2-highgpu-1g\ngcp | a3-highgpu-8g\ngcp | g2-standard-4\naws | p5.48xlarge")
    lines = []
    for name, (price, gpus) in sorted(listed(tmp_path, types).items()):
        lines.append(f"| `{name}` | `node` | 100.0 % | | | ${price / gpus:.4f} |")
        for basis in BASES:
            _, gpu, cpu = splits[basis][0][name]
            parts = f"{100 * gpu:.1f} % | {100 * cpu:.1f} % | {100 * (1 - gpu - cpu):.1f} %"
            lines.append(f"| `{name}` | `{basis}` | {parts} | ${float(price) * gpu / gpus:.4f} |")
    written = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert written == lines
