"""Rules of single SQL stages of nodes and of Slurm's jobs on them, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

_ALLOCATED = (
    "allocated: allocation_id UBIGINT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, uid VARCHAR, node_id UBIGINT,"
    " resource VARCHAR, units DOUBLE, gpus DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT, workload_kind VARCHAR,"
    " workload VARCHAR"
)


def test_a_name_is_one_machine_at_a_time(inventory: Tables) -> None:
    seen = (
        "'dated', 'kube_node_created', 0.1, NULL, 120, 190, 200",
        "'dated', 'kube_node_created', 0.1, NULL, 110, 112, 115",
        "'dated', 'kube_node_created', 0.18, NULL, 190, 290, 300",
        "'dated', 'kube_node_info', 1, MAP {'provider_id': 'i-0'}, 105, 110, 112",
        "'dated', 'kube_node_info', 1, MAP {'provider_id': 'i-1'}, 120, 175, 179",
        "'dated', 'kube_node_info', 1, MAP {'provider_id': '', 'system_uuid': 'i-2'}, 185, 295, 300",
        "'of no machine', 'kube_node_created', 0.2, NULL, 200, 250, 260",
        "'undated', 'kube_node_info', 1, MAP {'system_uuid': 'u-1'}, 10, 45, 50",
        "'undated', 'kube_node_info', 1, MAP {'system_uuid': 'u-2'}, 60, 85, 90",
        "'undated', 'kube_node_status_capacity', 8, NULL, 5, 30, 35",
        "'undated', 'kube_node_status_capacity', 8, NULL, 40, 90, 95",
        "'unnamed', 'kube_node_status_capacity', 8, NULL, 5, 90, 95",
        "'no node', 'kube_pod_info', 1, NULL, 5, 90, 95",
        "NULL, 'kube_node_created', 0.1, NULL, 120, 190, 200",
        "NULL, 'kube_node_status_capacity', 8, NULL, 120, 190, 200",
    )
    inventory.add(
        "state_intervals: node, metric, value, labels, first_ms, last_ms, end_ms, cluster",
        *(f"{row}, 'c'" for row in seen),
        "'dated', 'kube_node_status_capacity', 8, NULL, 5, 90, 95, 'other'",
    )
    inventory.run("inventory/20_node_lifetimes")
    assert inventory.rows(
        "SELECT cluster, node, machine_id, created_ms, up_from_ms, up_to_ms FROM node_lifetimes ORDER BY ALL"
    ) == [
        ("c", "dated", "i-1", 100, 100, 180),
        ("c", "dated", "i-2", 180, 180, 300),
        ("c", "of no machine", None, 200, 200, 260),
        ("c", "undated", "u-1", None, 10, 50),
        ("c", "undated", "u-2", None, 60, 90),
        ("c", "unnamed", None, None, 5, 95),
        ("other", "dated", None, None, 5, 95),
    ]
    assert inventory.rows("SELECT count(DISTINCT node_id) FROM node_lifetimes") == [(7,)]


def test_a_node_stood_still_from_the_beginning_of_a_gap_to_its_last_boot_in_it(inventory: Tables) -> None:
    facts = "node_facts: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT"
    lives = (
        "1, 'c', 'n', 'i-1', 0, 1000",
        "4, 'c', 'n', 'i-4', 1000, 2000",
        "5, 'c', 'm', NULL, 0, 350",
        "2, 'c', 'm', NULL, 400, 1000",
    )
    inventory.make(facts, *lives, "3, 'd', 'n', 'i-3', 0, 1000")
    of_n = [("'10.0.0.1:9100'", value) for value in (0.4, 0.5, 0.95)]
    boots = (*of_n, ("'m'", 0.6), ("'m'", 0.3), ("'10.0.0.9:9100'", 0.7))
    inventory.add(
        "state_intervals: cluster, metric, node, value, labels",
        "'c', 'kube_node_info', 'n', 0.7, MAP {'internal_ip': '10.0.0.1'}",
        *(
            f"'c', 'node_boot_time_seconds', NULL, {value}, MAP {{'instance': {name}}}"
            for name, value in boots
        ),
    )
    inventory.add(
        "coverage_gaps: cluster, from_ms, to_ms, kind",
        "'c', 200, 900, 'bridged'",
        "'c', 0, 1000, 'not_collected'",
        "'c', 500, 900, 'bridged'",
    )
    inventory.make(
        "twofold_nodes: cluster VARCHAR, node VARCHAR, from_ms BIGINT, end_ms BIGINT",
        *(f"'c', 'n', {span}" for span in ("950, 1100", "700, 800", "2000, 2100")),
        "'c', 'm', 950, 990",
    )
    inventory.add("node_stops: node_id", "9")
    inventory.run("inventory/29_node_stops")
    assert inventory.rows("SELECT node_id, from_ms, to_ms, reason FROM node_stops ORDER BY ALL") == [
        (1, 200, 500, "boot"),
        (1, 700, 800, "mixed"),
        (1, 950, 1000, "mixed"),
        (2, 400, 600, "boot"),
        (2, 500, 600, "boot"),
        (4, 1000, 1100, "mixed"),
        (5, 200, 300, "boot"),
    ]


def test_a_node_of_slurm_has_the_gpus_that_it_offers_or_else_that_jobs_held(inventory: Tables) -> None:
    inventory.add("loads: kind, source, from_ms, to_ms", "'slurm', 'c', 0, 60", "'slurm', 'c', 60, 100")
    inventory.add("settings: mig_share", "'compute'")
    inventory.add(
        "slurm_nodes: cluster, node, seen_ms, gres",
        "'c', 'a', 1, 'gpu:8'",
        "'c', 'a', 2, 'gpu:a100:4(S:0-1),gpu:h100:2,shard:16'",
        "'c', 'm', 1, 'gpu:1g.5gb:10'",
        "'c', 'x', 1, 'gpu:a100:2,gpu:a100_1g.5gb:14'",
        "'c', 'cores', 1, ''",
    )
    inventory.make(
        "slurm_holdings: cluster VARCHAR, node VARCHAR, kind VARCHAR, type VARCHAR, units DOUBLE, from_ms BIGINT, to_ms BIGINT",
        "'c', 'b', 'gpu', NULL, 2, 0, 10",
        "'c', 'b', 'gpu', NULL, 3, 5, 20",
        "'c', 'b', 'gpu', NULL, 4, 20, 30",
        "'c', 'a', 'gpu', NULL, 1, 0, 10",
        "'c', 'm', 'gpu', NULL, 1, 0, 10",
    )
    inventory.make("gpu_aliases: alias VARCHAR, gpu_model VARCHAR", "'a100', 'A100'")
    inventory.make("gpu_models: gpu_model VARCHAR, mig_slices DOUBLE")
    inventory.make(
        "mig_profiles: gpu_model VARCHAR, profile VARCHAR, memory_slices INT, memory_slices_total INT"
    )
    inventory.add(
        "slurm_events: cluster, node, state, from_ms, to_ms",
        "'c', 'a', 'IDLE+POWERED_DOWN', 30, 50",
        "'c', 'b', 'DOWN', 30, 50",
    )
    inventory.make("node_lifetimes: node_id UBIGINT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, created_ms BIGINT,"
                   " up_from_ms BIGINT, up_to_ms BIGINT")  # fmt: skip
    inventory.run("inventory/20_slurm_machines")
    assert inventory.rows(
        "SELECT node, kind, type, gpu_model, units, round(share, 6) FROM slurm_units ORDER BY ALL"
    ) == [
        ("a", "gpu", "a100", "A100", 4, 1),
        ("a", "gpu", "h100", "h100", 2, 1),
        ("a", "gpu", None, "A100", 0, 1),
        ("a", "shard", None, "A100", 16, 0.375),
        ("b", "gpu", None, None, 5, 1),
        ("m", "gpu", "1g.5gb", None, 10, 0.142857),
        ("m", "gpu", None, None, 0, 0.142857),
        ("x", "gpu", "a100", "A100", 2, 1),
        ("x", "gpu", "a100_1g.5gb", "A100", 14, 0.142857),
    ]
    assert inventory.rows(
        "SELECT node, created_ms, gpu_model, up_from_ms, up_to_ms, gpu_count, machine_gpus FROM slurm_machines ORDER BY ALL"
    ) == [
        ("a", 50, "A100", 50, 100, 4, 6),
        ("a", 50, "h100", 50, 100, 2, 6),
        ("a", None, "A100", 0, 30, 4, 6),
        ("a", None, "h100", 0, 30, 2, 6),
        ("b", None, None, 0, 100, 5, 5),
        ("m", None, None, 0, 100, 2, 2),
        ("x", None, "A100", 0, 100, 4, 4),
    ]


@pytest.mark.parametrize("charged", [True, False])
def test_accounts_of_a_reservation_share_what_it_keeps_free(inventory: Tables, charged: bool) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.add("settings: charge_reservations", str(charged))
    inventory.add(
        "slurm_reservations: cluster, name, from_ms, to_ms, nodes, accounts, flags",
        "'c', 'r', 10, 90, ['n', 'elsewhere'], ['b', 'a', '-x', ''], []",
        "'c', 'q', 80, NULL, ['n'], ['z'], []",
        "'c', 'repair', 0, 200, ['n'], ['z'], ['MAINT']",
        "'c', 's', 0, 10, ['o'], [], []",
    )
    inventory.make(
        "slurm_machines: node_id UBIGINT, cluster VARCHAR, node VARCHAR, gpu_count DOUBLE, up_from_ms BIGINT, up_to_ms BIGINT",
        "1, 'c', 'n', 8, 0, 100",
        "2, 'c', 'o', 4, 0, 100",
    )
    inventory.make(_ALLOCATED)
    inventory.add(
        "allocated: node_id, gpus, held_from_ms, held_to_ms", "1, 3, 20, 40", "1, 8, 70, 80", "2, 4, 10, 100"
    )
    closed = ("'c', 'n', 50, 60", "'c', 'n', 50, 65", "'c', 'o', 20, 30")
    inventory.add("closed_nodes: cluster, node, from_ms, to_ms", *closed)
    inventory.run("inventory/42_slurm_reserved")
    kept = [(0, 10, "s", 4), (10, 20, "r", 8), (20, 40, "r", 5), (40, 50, "r", 8), (65, 70, "r", 8), (80, 90, "q", 8),
            (90, 100, "q", 8)]  # fmt: skip
    payers = {"r": ["a", "b"], "q": ["z"], "s": [""]} if charged else {name: [""] for name in "rqs"}
    assert inventory.rows("SELECT from_ms, to_ms, name, account, gpus FROM slurm_reserved ORDER BY ALL") == [
        (first, last, name, account, gpus / len(payers[name]))
        for first, last, name, gpus in kept
        for account in payers[name]
    ]
    assert inventory.rows(
        "SELECT sum(gpus * (held_to_ms - held_from_ms)), count(DISTINCT allocation_id) FROM allocated"
        " WHERE resource = 'reservation'"
    ) == [(40 + 80 + 100 + 80 + 40 + 80 + 80, 11 if charged else 7)]


def test_a_job_is_of_the_account_below_the_root(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.make(
        _ALLOCATED,
        *(
            f"{number}, 'c', '{account}', NULL, '{uid}', NULL, '{resource}', NULL, NULL, NULL, NULL, NULL, NULL"
            for number, account, uid, resource in (
                (1, "leaf", "7@0/n", "gpu"),
                (2, "", "reservation/r//1@0", "reservation"),
                (3, "sub", "reservation/r/sub/1@0", "reservation"),
                (4, "", "8@0/n", "gpu"),
                (5, "leaf", "a-pod", "gpu"),
                (6, "unknown", "7@0/m", "gpu"),
            )
        ),
    )
    inventory.add(
        'slurm_runs: cluster, job_id, submit_ms, job, "user", partition, qos',
        "'c', 7, 0, '7', 'u', 'p', 'q'",
        "'c', 8, 0, '8', 'v', 'p', 'q'",
    )
    inventory.add(
        "slurm_accounts: cluster, account, parent",
        "'c', 'root', NULL",
        "'c', 'team', 'root'",
        "'c', 'sub', 'team'",
        "'c', 'leaf', 'sub'",
    )
    inventory.run("inventory/42_slurm_users")
    assert inventory.rows("FROM slurm_users ORDER BY allocation_id") == [
        (1, "team", "u", "p", "q"),
        (2, None, None, None, None),
        (3, "team", None, None, None),
        (4, "", "v", "p", "q"),
        (6, "unknown", "u", "p", "q"),
    ]
