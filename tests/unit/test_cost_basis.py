"""How a node's price is split into GPU, cores and memory: known shares, what happens where facts are missing, and the page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import inventory, pipeline
from gpucost.catalog import load_catalog, load_components
from gpucost.config.model import Config, Prices
from gpucost.engine import run_stages
from gpucost.periods import Period
from gpucost.price import load_price_list
from gpucost.store.connection import Store
from tests.replay.cases.words import busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series

BASES = ("opencost", "scad", "residual", "sku")
PAGE = Path(__file__).parents[2] / "docs" / "cost-basis.md"
REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}

# What the GPUs of an instance are of its price: OpenCost's defaults, AWS' 9 : 1 weights, the list price less a host at Google's
# list price (worked out apart from gpucost, in July 2026), and Google's own unit prices with local SSD beside the GPUs.
KNOWN = [
    ("aws", "p5.48xlarge", 0.3401, 0.1601, 0.7321, None),
    ("aws", "p4d.24xlarge", 0.4898, 0.2632, 0.6395, None),
    ("aws", "g5.xlarge", 0.8302, 0.6338, 0.8069, None),
    ("aws", "g6.xlarge", 0.8302, 0.6338, 0.7587, None),
    ("aws", "g5.16xlarge", 0.2341, 0.0976, 0.2413, None),
    ("gcp", "a2-highgpu-1g", 0.5623, 0.3180, 0.7987, 0.7987),
    ("gcp", "a2-ultragpu-1g", 0.4635, 0.2446, 0.7831, 0.7831),
    ("gcp", "a3-highgpu-8g", 0.3438, 0.1613, 0.8361, 0.8931),
    ("gcp", "g2-standard-4", 0.8302, 0.6338, 0.7252, 0.7923),
    ("gcp", "g2-standard-32", 0.3794, 0.1779, 0.1041, 0.3229),
    ("azure", "Standard_ND96amsr_A100_v4", 0.4067, 0.2067, 0.6617, None),
    ("azure", "Standard_NC24ads_A100_v4", 0.3597, 0.1711, 0.5397, None),
]
Splits = dict[str, tuple[str, float, float]]


def splits(folder: Path, basis: str, types: list[tuple[str, str]]) -> tuple[Splits, list[tuple[Any, ...]]]:
    """By instance type: the basis that applied, and the parts of GPU and cores; and the warnings."""
    config = Config(prices=Prices(cost_basis=basis))  # type: ignore[arg-type]
    with Store(folder / f"{basis}.duckdb").write() as con:
        inventory.stage(con, config)
        load_components(con)
        load_price_list(con)
        for number, (provider, instance_type) in enumerate(types):
            con.execute(
                """INSERT INTO nodes BY NAME SELECT $1 AS node_id, 'c' AS cluster, $2 AS node,
                    1790812800000 AS up_from_ms, 1790816400000 AS up_to_ms, -- October 2026
                    $3 AS provider, $4 AS region, $2 AS instance_type, 'on_demand' AS capacity_type, 1 AS gpu_count""",
                [number, instance_type, provider, REGIONS.get(provider, "here")],
            )
            con.execute("INSERT INTO node_hosts VALUES ($1, 'cpu', 7), ($1, 'memory', 8e9)", [number])
        run_stages(con, "gpucost.attribute.basis")
        found = con.execute(
            "SELECT node, basis, gpu_fraction, cpu_fraction FROM node_splits JOIN nodes USING (node_id)"
        ).fetchall()
        warnings = con.execute("SELECT code, subject FROM warnings WHERE code = 'basis_fallback' ORDER BY ALL").fetchall()
    return {name: (applied, gpu, cpu) for name, applied, gpu, cpu in found}, warnings


@pytest.mark.parametrize("basis", BASES)
def test_shares_are_those_that_are_known(basis: str, tmp_path: Path) -> None:
    found, warnings = splits(tmp_path, basis, [(row[0], row[1]) for row in KNOWN])
    for provider, name, *shares in KNOWN:
        share = shares[BASES.index(basis)]
        expected = share if share is not None else shares[BASES.index("residual")]
        applied, gpu, _ = found[name]
        assert gpu == pytest.approx(expected, abs=5e-5), name
        assert applied == ("residual" if basis == "sku" and provider != "gcp" else basis)
    fallen = sorted(name for provider, name, *_ in KNOWN if provider != "gcp") if basis == "sku" else []
    assert warnings == [("basis_fallback", name) for name in fallen]


def test_a_kind_of_node_without_list_price_is_not_split_by_it(tmp_path: Path) -> None:
    assert splits(tmp_path, "residual", [("", "our-own-box")]) == ({}, [("basis_fallback", "our-own-box")])
    found, warnings = splits(tmp_path, "scad", [("", "our-own-box")])
    assert found["our-own-box"][1] == pytest.approx(90 / (90 + 9 * 7 + 8e9 / 2**30)) and not warnings


FLEET = fleet(
    4,
    [node("n", "g5.xlarge", 0, 4, vcpus=4, memory_gib=16)],
    [pod("a", "n", [0], 0, 4, cpu=2, memory_gib=8), pod("b", "n", [], 0, 4, "labs", cpu=1, memory_gib=4)],
    busy("n", [0], 0, 2),
    cost_basis="scad",
)
PERIOD = Period(*(datetime.fromtimestamp(FLEET[edge], UTC) for edge in ("start", "end")))


def attributed(folder: Path, series: list[Series], described: dict[str, Any] = FLEET) -> tuple[dict[str, float], list[str]]:
    """Cost by pod ('' is unallocated), of a node at $1.42, and the codes of the warnings."""
    folder.mkdir(exist_ok=True)
    prices = folder / "prices.csv"
    prices.write_text(
        "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start\n,,,g5.xlarge,on_demand,1.42,USD,\n"
    )
    config = write_config(described, folder, prices)
    store = load(described, series, config, 1)
    pipeline.attribute(config, store, PERIOD)
    with store.read() as con:
        costs = con.execute(
            """SELECT coalesce(pod, ''), sum(cost + unallocated_cost)::DOUBLE
            FROM cost_hourly LEFT JOIN allocations USING (allocation_id)
            GROUP BY ALL"""
        ).fetchall()
        codes = con.execute("SELECT DISTINCT code FROM warnings ORDER BY 1").fetchall()
    return dict(costs), [code for (code,) in codes]


def is_host(one: Series) -> bool:
    return one.labels.get("resource") in ("cpu", "memory")


def test_time_whose_requests_were_not_collected_is_paid_for_by_gpus_alone(tmp_path: Path) -> None:
    """Two hours were collected with the basis `node`: no capacity and no request of cores and memory in them."""
    series = scrape(FLEET, lean=True)
    split_at = (FLEET["start"] + 2 * 3600) * 1000
    late = [replace(s, times=s.times[s.times >= split_at], values=s.values[s.times >= split_at]) for s in series if is_host(s)]
    late += [s for s in series if not is_host(s)]
    costs, codes = attributed(tmp_path / "late", late)
    gpu, half_host, quarter_host = 0.90, (0.36 + 0.16) / 2, (0.36 + 0.16) / 4
    assert costs == pytest.approx({"a": 2 * 1.42 + 2 * (gpu + half_host), "b": 2 * quarter_host, "": 2 * quarter_host})
    assert codes == ["basis_needs_requests"]
    costs, codes = attributed(tmp_path / "never", [s for s in series if not is_host(s)])
    assert costs == pytest.approx({"a": 4 * 1.42})
    assert codes == ["basis_needs_requests"]
    costs, codes = attributed(tmp_path / "always", series)
    assert costs == pytest.approx({"a": 4 * (gpu + half_host), "b": 4 * quarter_host, "": 4 * quarter_host})
    assert codes == []


def test_basis_node_ignores_requests_that_were_collected(tmp_path: Path) -> None:
    costs, codes = attributed(tmp_path / "node", scrape(FLEET, lean=True), {**FLEET, "cost_basis": "node"})
    assert costs == pytest.approx({"a": 4 * 1.42})
    assert codes == []


def listed(folder: Path, types: list[tuple[str, str]]) -> dict[str, tuple[Decimal, int]]:
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


def test_the_page_shows_what_each_basis_does(tmp_path: Path) -> None:
    types = [("gcp", "a2-highgpu-1g"), ("gcp", "a3-highgpu-8g"), ("gcp", "g2-standard-4"), ("aws", "p5.48xlarge")]
    found = {basis: splits(tmp_path, basis, types)[0] for basis in BASES}
    lines = []
    for name, (price, gpus) in sorted(listed(tmp_path, types).items()):
        lines.append(f"| `{name}` | `node` | 100.0 % | | | ${price / gpus:.4f} |")
        for basis in BASES:
            _, gpu, cpu = found[basis][name]
            parts = f"{100 * gpu:.1f} % | {100 * cpu:.1f} % | {100 * (1 - gpu - cpu):.1f} %"
            lines.append(f"| `{name}` | `{basis}` | {parts} | ${float(price) * gpu / gpus:.4f} |")
    written = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert written == lines
