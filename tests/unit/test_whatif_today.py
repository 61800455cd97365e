"""Each what-if starts from the cost that the report shows, to the last digit."""

from __future__ import annotations

import pytest

from gpucost.config.model import Config
from gpucost.store.usage import read_cost, read_usage
from tests.unit.command import answer
from tests.unit.stage_tables import Tables


def test_today_of_a_fleet_or_cluster_has_what_no_pod_held(demo: Config) -> None:
    parts = ("cost", "unallocated_cost", "not_collected_cost")
    for where in ("", "--cluster hpc"):
        scope = f"--month 2026-10 --config {demo.path} {where}"
        totals = answer(f"report {scope}")["totals"]
        assert totals["unallocated_cost"] > 0
        today = answer(f"whatif schedule --idle-minutes 30 {scope}")["today"]
        assert today["cost"] == pytest.approx(sum(totals[part] or 0 for part in parts), abs=1e-9)


PRICES = "--input-price-per-million 1 --output-price-per-million 1"


TEAM = "--team research"


@pytest.mark.parametrize(
    ("what_if", "scope"),
    [
        *((name, TEAM) for name in ("spot", "schedule", "share", "rightsize", "move --wait-minutes 0")),
        (f"tokens {PRICES}", "--workload Deployment/chat-api"),
    ],
)
def test_today_of_a_team_or_workload_is_the_cost_of_its_pods(demo: Config, what_if: str, scope: str) -> None:
    scope = f"{scope} --month 2026-10 --config {demo.path}"
    cost = answer(f"report {scope}")["totals"]["cost"]
    assert answer(f"whatif {what_if} {scope}")["today"]["cost"] == cost


def test_usage_has_the_parts_of_a_node_between_its_stops(tables: Tables) -> None:
    tables.add("nodes: node_id, cluster, node, gpu_count, up_from_ms, up_to_ms", "1, 'c', 'n', 8, 0, 100")
    tables.add("collected: cluster, from_ms, to_ms", "'c', 10, 90")
    tables.add("node_stops: node_id, from_ms, to_ms", "1, 20, 30", "1, 50, 60")
    nodes = read_usage(tables.con, 0, 80, clusters=["c"]).nodes
    assert [(node["from_ms"], node["to_ms"]) for node in nodes] == [(10, 20), (30, 50), (60, 80)]
    assert read_usage(tables.con, 0, 80, clusters=["other"]).nodes == []
    assert read_usage(tables.con, 0, 80, teams=["other"]).nodes == []


def test_the_cost_of_a_period_counts_the_cells_of_a_run_that_lie_in_it(tables: Tables) -> None:
    hour = 3_600_000
    tables.add("nodes: node_id, cluster, node", "1, 'c', 'n'")
    tables.add("allocations: allocation_id, node_id, namespace, workload", "5, 1, 'ns', 'Job/a'")
    tables.add(
        "cost_runs: kind, from_ms, to_ms, hours, node_id, allocation_id, team, cost",
        f"'allocated', 0, {hour}, 10, 1, 5, 't', 2",
        f"'unallocated', 0, {hour}, 10, 1, NULL, NULL, 1",
        f"'not_collected', {20 * hour}, {21 * hour}, 1, 1, NULL, NULL, 7",
    )
    assert read_cost(tables.con, 0, 30 * hour) == (20, 37)
    assert read_cost(tables.con, 2 * hour, 5 * hour) == (6, 9)
    assert read_cost(tables.con, 2 * hour, 5 * hour, teams=["t"], workloads=["a"]) == (6, 6)
    assert read_cost(tables.con, 2 * hour, 5 * hour, workloads=["b*"]) == (0, 0)
