"""Rules of single SQL stages of how a node's price is split, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000
_HOST_PRICES = (
    "host_prices: provider VARCHAR, region VARCHAR, family VARCHAR, gpu_model VARCHAR, currency VARCHAR, core DOUBLE,"
    " gib DOUBLE, gpu DOUBLE"
)


def test_the_newest_price_of_a_core_counts_of_the_catalog_and_what_was_collected(tables: Tables) -> None:
    tables.make(
        "catalog_components: provider VARCHAR, region VARCHAR, family VARCHAR, component VARCHAR, gpu_model VARCHAR,"
        " price_per_hour DOUBLE, currency VARCHAR, price_as_of DATE, purchase_option VARCHAR",
        "'gcp', 'r', 'A2', 'vcpu', NULL, 2, 'USD', '2026-10-01', 'on_demand'",
        "'gcp', 'r', 'A2', 'memory_gib', NULL, 5, 'USD', '2026-10-03', 'on_demand'",
        "'gcp', 'r', 'A2', 'vcpu', NULL, 1, 'USD', '2026-10-04', 'spot'",
    )
    tables.add(
        "component_prices: provider, region, component, price_per_hour, currency, price_as_of, purchase_option",
        "'gcp', 'r', 'a2/vcpu', 3, 'USD', '2026-10-02', 'on_demand'",
        "'gcp', 'r', 'a2/memory_gib', 4, 'USD', '2026-10-02', 'on_demand'",
        "'gcp', 'r', 'gpu/L4', 7, 'USD', '2026-10-02', 'on_demand'",
        "'gcp', 'r', 'gpu/L4', 8, 'USD', '2026-10-03', 'on_demand'",
    )
    tables.run("attribute/basis/10_host_prices")
    assert tables.rows("SELECT family, gpu_model, core, gib, gpu FROM host_prices ORDER BY family") == [
        ("", "L4", None, None, 8),
        ("a2", "", 3, 5, None),
    ]


@pytest.mark.parametrize(
    ("core", "weights"),
    [(0.5, (False, 4, 2, 4)), (0, (True, 3, 4, 3))],
    ids=["its own", "its own of no price"],
)
def test_a_family_whose_cores_have_no_price_is_split_by_those_of_another(
    tables: Tables, core: float, weights: tuple[bool, float, float, float]
) -> None:
    tables.run("price/vocabulary")
    tables.know(cost_basis="sku")
    tables.add(
        "nodes: node_id, gpu_model, gpu_count, provider, instance_type, region, up_from_ms",
        "1, 'A100', 1, 'gcp', 'g2-standard-4', 'r', 0",
    )
    tables.make("catalog_instances: instance_type VARCHAR, gpu_count DOUBLE, vcpus DOUBLE, memory_gib DOUBLE")
    tables.make(
        "node_hosts: node_id INT, part VARCHAR, units DOUBLE", "1, 'cpu', 4", f"1, 'memory', {8 << 30}"
    )
    tables.make(
        "price_list: provider VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR, purchase_option VARCHAR,"
        " price_per_hour DOUBLE, currency VARCHAR, from_ms BIGINT, to_ms BIGINT",
        "'gcp', 'g2-standard-4', 'r', NULL, 'on_demand', 10, 'USD', 0, 10",
    )
    tables.make(
        _HOST_PRICES,
        f"'gcp', 'r', 'g2', '', 'USD', {core}, 0.5, NULL",
        "'gcp', 'us-central1', 'a2', '', 'USD', 1, 0.375, NULL",
    )
    tables.run("attribute/basis/20_node_weights")
    assert tables.rows("SELECT is_fallback, gpu, cpu, memory FROM node_weights") == [weights]


def test_requests_are_missing_where_nodes_were_seen_without_their_cores(inventory: Tables) -> None:
    inventory.add("nodes: node_id, cluster", "1, 'c'", "2, 'silent'")
    inventory.add(
        "state_intervals: cluster, metric, resource, first_ms, last_ms",
        "'c', 'kube_pod_container_resource_requests', 'cpu', 0, 10",
        f"'c', 'kube_node_status_capacity', 'cpu', {3 * HOUR}, {3 * HOUR + 1}",
        f"'c', 'kube_node_info', NULL, 0, {4 * HOUR}",
    )
    inventory.run("attribute/basis/40_request_gaps")
    assert inventory.rows("FROM request_gaps ORDER BY cluster, from_ms") == [
        ("c", HOUR, 3 * HOUR),
        ("c", 4 * HOUR, 5 * HOUR),
        ("silent", 0, 2**63 - 1),
    ]


def test_a_warning_tells_nodes_of_unknown_cores_from_those_without_a_list_price(inventory: Tables) -> None:
    inventory.add(
        "nodes: node_id, cluster, instance_type, up_from_ms, up_to_ms",
        "1, 'c', 'sized', 0, 10",
        "2, 'c', 'sized', 5, 20",
        "3, 'c', 'unsized', 0, 10",
        "4, 'c', 'split', 0, 10",
    )
    parts = (f"{node}, '{part}', 1" for node in (1, 2, 4) for part in ("cpu", "memory"))
    inventory.add("node_hosts: node_id, part, units", "3, 'cpu', 1", *parts)
    inventory.make(
        "node_splits: node_id INT, is_fallback BOOLEAN, gpu_fraction DOUBLE, cpu_fraction DOUBLE",
        "4, false, 0.5, 0.25",
    )
    inventory.make("request_gaps: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT")
    inventory.add("collected: cluster, from_ms, to_ms")
    inventory.add("warnings: code")
    inventory.run("attribute/basis/60_basis_warnings")
    warnings = inventory.rows(
        "SELECT subject, from_ms, to_ms, split_part(message, ':', 1) FROM warnings ORDER BY subject"
    )
    assert warnings == [
        ("sized", 0, 20, "no list price on demand is known for sized"),
        ("unsized", 0, 10, "the cores or the memory of unsized are not known"),
    ]
