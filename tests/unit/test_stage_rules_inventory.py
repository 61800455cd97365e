"""Rules of single SQL stages of who held what, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000


def test_a_pod_ran_on_the_first_of_two_nodes_of_a_name(tables: Tables) -> None:
    tables.make(
        "pods: cluster VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT",
        "'c', 'u', 'n', 10, 90",
    )
    tables.make(
        "node_facts: node_id INT, cluster VARCHAR, node VARCHAR, created_ms BIGINT, up_from_ms BIGINT, up_to_ms BIGINT",
        "1, 'c', 'n', NULL, 0, 50",
        "2, 'c', 'n', NULL, 60, 100",
    )
    tables.run("inventory/33_pod_nodes")
    assert tables.rows("FROM pod_nodes") == [("c", "u", 1, 10, 50)]


def test_a_node_that_began_when_a_pod_ended_held_nothing_of_it(inventory: Tables) -> None:
    inventory.make(
        "pods: cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT",
        "'c', 'ns', 'u', 'n', 10, 50",
    )
    inventory.make(
        "pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE", "'c', 'u', 'x_org_y', 2"
    )
    inventory.make(
        "node_traits: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, created_ms BIGINT, up_from_ms BIGINT,"
        " up_to_ms BIGINT, provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, capacity_type VARCHAR,"
        " gpu_model VARCHAR, gpu_count DOUBLE, labels MAP(VARCHAR, VARCHAR)",
        *(
            f"{node}, 'c', 'n', NULL, NULL, {up}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
            for node, up in ((1, "0, 50"), (2, "50, 90"))
        ),
    )
    inventory.add("state_intervals: cluster, node, metric, resource, value, first_ms, last_ms",
                  "'c', 'n', 'kube_node_status_capacity', 'x_org_y', 8, 0, 40")  # fmt: skip
    inventory.add("collected: cluster, from_ms, to_ms", "'c', 0, 100")
    inventory.run("inventory/38_unlisted_holdings")
    assert inventory.rows("SELECT node_id, units, part, from_ms, to_ms FROM unlisted_holdings") == [
        (1, 2, 0.25, 10, 50)
    ]
    assert inventory.rows("SELECT node_id FROM unlisted_nodes") == [(1,)]
