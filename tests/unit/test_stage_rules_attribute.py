"""Rules of single SQL stages of attribution, over tables of a few rows."""

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


def test_a_node_s_life_is_cut_where_its_price_or_the_split_of_it_changes(tables: Tables) -> None:
    tables.know(span_from_ms=0, span_to_ms=100)
    tables.add("nodes: node_id, up_from_ms, up_to_ms", "1, 0, 100", "2, 20, 40")
    tables.add(
        "node_prices: node_id, from_ms, to_ms, price_per_hour, price_source",
        "1, 0, 10, 1, 'book'",
        "1, 10, 50, 2, 'book'",
        "1, 60, 100, 3, 'bill'",
    )
    tables.make(
        "basis_spans: node_id INT, from_ms BIGINT, to_ms BIGINT, gpu_fraction DOUBLE, cpu_fraction DOUBLE",
        "1, 30, 70, 0.5, 0.25",
    )
    tables.run("attribute/10_price_spans")
    assert tables.rows(
        "SELECT node_id, from_ms, to_ms, price_per_hour, price_source, gpu_fraction, cpu_fraction FROM price_spans ORDER BY ALL"
    ) == [
        (1, 0, 10, 1, "book", None, None),
        (1, 10, 30, 2, "book", None, None),
        (1, 30, 50, 2, "book", 0.5, 0.25),
        (1, 50, 60, None, "none", 0.5, 0.25),
        (1, 60, 70, 3, "bill", 0.5, 0.25),
        (1, 70, 100, 3, "bill", None, None),
        (2, 20, 40, None, "none", None, None),
    ]


def test_an_allocation_is_in_the_collected_segments_of_its_node_while_it_holds(tables: Tables) -> None:
    tables.know(span_from_ms=HOUR, span_to_ms=4 * HOUR)
    tables.add(
        "allocations: allocation_id, uid, node_id, gpus, held_from_ms, held_to_ms",
        f"5, 'u', 1, 2, {HOUR // 2}, {3 * HOUR // 2}",
        f"6, 'v', 1, 1, {2 * HOUR}, {3 * HOUR}",
        f"7, 'w', 1, 1, 0, {HOUR // 2}",
        f"8, 'x', 2, 1, {3 * HOUR + 1}, {6 * HOUR}",
        f"9, 'y', 1, 1, {HOUR + HOUR // 2}, {2 * HOUR}",
    )
    tables.make(
        "node_segments: node_id INT, hour INT, hours DOUBLE, from_ms BIGINT, to_ms BIGINT, is_collected BOOLEAN",
        *(f"1, {hour}, 0.5, {hour * HOUR}, {hour * HOUR + HOUR // 2}, true" for hour in range(4)),
        *(
            f"1, {hour}, 0.5, {hour * HOUR + HOUR // 2}, {hour * HOUR + HOUR}, {hour != 2}"
            for hour in range(4)
        ),
        *(f"2, {hour}, 1, {hour * HOUR}, {hour * HOUR + HOUR}, true" for hour in range(6)),
    )
    tables.run("attribute/20_allocation_segments")
    assert tables.rows(
        "SELECT allocation_id, gpus, hour, segment_from_ms, from_ms, to_ms FROM allocation_segments ORDER BY ALL"
    ) == [
        (5, 2, 1, HOUR, HOUR, HOUR + HOUR // 2),
        (6, 1, 2, 2 * HOUR, 2 * HOUR, 2 * HOUR + HOUR // 2),
        (8, 1, 3, 3 * HOUR, 3 * HOUR + 1, 4 * HOUR),
        (9, 1, 1, HOUR + HOUR // 2, HOUR + HOUR // 2, 2 * HOUR),
    ]


def test_more_than_a_node_has_is_requested_while_its_pods_ask_for_it_together(inventory: Tables) -> None:
    inventory.know(span_from_ms=10, span_to_ms=100)
    inventory.add("nodes: node_id, gpu_count", "1, 4", "2, 4")
    inventory.add("node_hosts: node_id, part, units", "1, 'cpu', 8")
    inventory.add(
        "allocations: allocation_id, node_id, gpus, held_from_ms, held_to_ms",
        "5, 1, 3, 0, 60",
        "6, 1, 2, 40, 80",
        "11, 1, 0.5, 40, 60",
        "7, 2, 4, 0, 100",
        "10, 2, 0.0000001, 20, 30",
    )
    inventory.add("allocation_hosts: allocation_id, part, units", "5, 'cpu', 8", "6, 'cpu', 1")
    inventory.run("attribute/21_over_requested")
    assert inventory.rows("FROM over_requested ORDER BY ALL") == [
        (1, "cpu", 40, 60, 9, 8),
        (1, "gpu", 40, 60, 5.5, 4),
    ]


def test_a_price_is_not_split_while_requests_were_not_collected(tables: Tables) -> None:
    tables.add(
        "nodes: node_id, cluster, up_from_ms, up_to_ms", "1, 'c', 10, 90", "2, 'c', 35, 50", "3, 'd', 10, 90"
    )
    tables.make(
        "node_splits: node_id INT, is_fallback BOOLEAN, gpu_fraction DOUBLE, cpu_fraction DOUBLE",
        "1, false, 0.5, 0.25",
        "2, false, 0.5, 0.25",
    )
    tables.make(
        "request_gaps: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT",
        "'c', 0, 20",
        "'c', 30, 40",
        "'c', 80, 95",
        "'d', 40, 50",
    )
    tables.run("attribute/basis/50_basis_spans")
    assert tables.rows("SELECT node_id, from_ms, to_ms, gpu_fraction FROM basis_spans ORDER BY ALL") == [
        (1, 20, 30, 0.5),
        (1, 40, 80, 0.5),
        (2, 40, 50, 0.5),
    ]
