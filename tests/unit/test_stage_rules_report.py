"""Rules of single SQL stages of reports, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000
_MONEY = "DECIMAL(38, 9)"
_WORK = (
    "unit_work: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, model VARCHAR, tenant VARCHAR, day DATE,"
    " unit VARCHAR, amount DOUBLE, weight DOUBLE, failed DOUBLE"
)


def test_models_of_a_workload_share_its_cost_and_gpu_time_by_their_work(tables: Tables) -> None:
    tables.make(
        f"unit_cells: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, day DATE, team VARCHAR, cost {_MONEY},"
        f" idle_cost {_MONEY}, allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE, is_selected BOOLEAN",
        "'c', 'ns', 'w', '2026-10-01', 'red', 8, 4, 400, 40, true",
    )
    tables.make(
        _WORK,
        "'c', 'ns', 'w', 'a', NULL, '2026-10-01', 'generation_token', 10, 1, 0",
        "'c', 'ns', 'w', 'b', NULL, '2026-10-01', 'generation_token', 30, 3, 0",
    )
    tables.run("questions/units/60_serving")
    assert tables.rows(
        "SELECT model, cost, idle_cost, allocated_gpu_ms, active_gpu_ms FROM unit_serving ORDER BY model"
    ) == [("a", 2, 1, 100, 10), ("b", 6, 3, 300, 30)]


def test_tenants_share_each_cost_of_a_model_by_the_tokens_that_it_is_of(tables: Tables) -> None:
    tables.make(
        "unit_tokens: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, team VARCHAR, model VARCHAR, day DATE,"
        f" amounts MAP(VARCHAR, DOUBLE), prompt_cost {_MONEY}, generation_cost {_MONEY}, unserved_cost {_MONEY},"
        f" idle_cost {_MONEY}, cache_saved_cost {_MONEY}, request_time_prompt_cost {_MONEY},"
        f" request_time_generation_cost {_MONEY}, prompt_workloads VARCHAR[], generation_workloads VARCHAR[],"
        " weight DOUBLE, prompt_weight DOUBLE, allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE",
        "'c', 'ns', 'w', 'red', 'm', '2026-10-01', MAP {'prompt_token': 20, 'generation_token': 40}, 4, 4, 0, 2, NULL, 10, 8,"
        " ['w'], ['w'], 2, 1, 800, 80",
    )
    tables.make(
        _WORK,
        "'c', 'ns', 'w', 'm', 'a', '2026-10-01', 'prompt_token', 10, 1, 0",
        "'c', 'ns', 'w', 'm', 'b', '2026-10-01', 'prompt_token', 10, 1, 0",
        "'c', 'ns', 'w', 'm', 'a', '2026-10-01', 'generation_token', 10, 1, 0",
        "'c', 'ns', 'w', 'm', 'b', '2026-10-01', 'generation_token', 30, 3, 0",
    )
    tables.run("questions/units/67_tenants", keeps_idle=False)
    assert tables.rows(
        "SELECT tenant, prompt_cost, generation_cost, cost, request_time_prompt_cost, request_time_generation_cost,"
        " allocated_gpu_ms, active_gpu_ms FROM unit_tenants ORDER BY tenant"
    ) == [("a", 2, 1, 3, 5, 2, 300, 30), ("b", 2, 3, 5, 5, 6, 500, 50)]


def test_a_failed_run_has_saved_what_its_own_workload_tells(tables: Tables) -> None:
    tables.add(
        "allocations: allocation_id, cluster, namespace, workload, pod, uid, node_id, gpus, held_from_ms, held_to_ms",
        "1, 'c', 'ns', 'Job/a', 'a-0', 'ua', 7, 8, 0, 100",
        "2, 'c', 'ns', 'Job/b', 'b-0', 'ub', 7, 8, 0, 100",
    )
    tables.add(
        "allocation_traits: allocation_id, workload_type, failed",
        "1, 'training', true",
        "2, 'training', true",
    )
    tables.add(
        "progress_series: series_id, cluster, namespace, workload, pod, unit, is_failure, kind",
        "1, 'c', 'ns', NULL, 'a-0', 'epoch', false, 'event'",
    )
    tables.add("progress_values: series_id, at_ms, value", "1, 60, 1")
    tables.know(report_from_ms=0, report_to_ms=100)
    tables.run("questions/waste/20_pods", forgotten_after_ms=10)
    assert tables.rows("SELECT workload, lost_from_ms FROM waste_pods ORDER BY workload") == [
        ("Job/a", 60),
        ("Job/b", 0),
    ]


def test_time_before_a_pod_ran_takes_its_part_of_the_idle_cost(tables: Tables) -> None:
    tables.make(
        "waste_held_cells: node_id INT, allocation_id INT, team VARCHAR, time_bucket BIGINT, from_ms BIGINT, to_ms BIGINT,"
        " allocated_gpu_ms DOUBLE, idle_gpu_ms DOUBLE, active_gpu_ms DOUBLE, unmeasured_gpu_ms DOUBLE,"
        f" cost {_MONEY}, idle_cost {_MONEY}",
        "1, 5, 'red', 0, 0, 100, 100, 40, 60, 0, 50, 20",
    )
    tables.make(
        "waste_pods: allocation_id INT, cluster VARCHAR, namespace VARCHAR, workload VARCHAR, workload_type VARCHAR,"
        " gpus DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT, started_ms BIGINT, lost_from_ms BIGINT,"
        " forgotten_from_ms BIGINT",
        "5, 'c', 'ns', 'w', 'training', 1, 0, 100, 10, NULL, NULL",
    )
    tables.make(
        "waste_serving: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, from_ms BIGINT, idle_part DOUBLE,"
        " active_part DOUBLE"
    )
    tables.know(waste_by_gpus=False)
    tables.run("questions/waste/30_held")
    assert tables.rows(
        "SELECT starting_gpu_ms, starting_cost, idle_gpu_ms, idle_cost, work_gpu_ms, work_cost FROM waste_held"
    ) == [(10, 5, 30, 15, 60, 30)]


def test_a_machine_that_is_billed_where_nothing_was_collected_is_named_all_the_same(tables: Tables) -> None:
    tables.add("bills: bill_id, format", "1, 'focus'")
    tables.add(
        "billed_hours: bill_id, instance_key, provider, billing_period, from_ms, to_ms, instance_hours, effective_cost,"
        " discount_cost, currency, rate, price_per_hour, pool",
        f"1, 'i-1', 'aws', '2026-10', 0, {HOUR}, 1, 4, 0, 'USD', 1, 4, 1",
        f"1, 'i-1', 'aws', '2026-10', {HOUR}, {2 * HOUR}, 1, 4, 0, 'USD', 1, 4, 2",
    )
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1")
    tables.add("nodes: node_id, cluster, node, up_from_ms, up_to_ms", f"1, 'c', 'n', 0, {2 * HOUR}")
    tables.add("collected: cluster, from_ms, to_ms", f"'c', 60000, {HOUR}")
    tables.run("questions/reconcile/10_machine_hours", month="2026-10")
    assert tables.rows("SELECT from_ms, node, cluster, seen_ms FROM machine_hours ORDER BY from_ms") == [
        (0, "n", "c", HOUR - 60000),
        (HOUR, "n", "c", 0),
    ]


def test_hours_of_unbilled_nodes_are_those_at_an_estimate(tables: Tables) -> None:
    tables.add("nodes: node_id, cluster, node, instance_type, gpu_count", "1, 'c', 'n', 'p5', 8")
    tables.hours(
        "node_id INT, allocated_gpu_ms DOUBLE, unallocated_gpu_ms DOUBLE, not_collected_gpu_ms DOUBLE,"
        f" estimated_cost {_MONEY}",
        f"1, {8 * HOUR}, {4 * HOUR}, {4 * HOUR}, 10",
        f"1, {8 * HOUR}, 0, 0, 0",
    )
    rows = tables.answers("questions/reconcile/51_unbilled_nodes", from_ms=0, to_ms=1)
    assert rows == [{"name": "n", "instance_type": "p5", "hours": 2, "cost": 10}]


def test_names_beyond_those_that_stand_alone_are_in_one_layer_without_a_name(tables: Tables) -> None:
    tables.make(
        f"series_rows: moment INT, kind VARCHAR, team VARCHAR, namespace VARCHAR, workload VARCHAR, cluster VARCHAR,"
        f" gpu_model VARCHAR, capacity_type VARCHAR, cost {_MONEY}, unallocated_cost {_MONEY}, not_collected_cost {_MONEY}",
        *(f"1, 'allocated', '{team}', NULL, NULL, NULL, NULL, NULL, {cost}, 0, 0" for team, cost in
          (("a", 8), ("b", 4), ("c", 2), ("d", 1))),
        "1, 'unallocated', NULL, NULL, NULL, NULL, NULL, NULL, 0, 16, 0",
    )  # fmt: skip
    rows = tables.answers("questions/report/series/30_stack", by="team", apart=True, most=1, each_team=False)
    assert [(row["kind"], row["rank"], row["name"], row["names"], row["cost"]) for row in rows] == [
        ("named", 1, "a", 3, 8),
        ("others", None, None, 3, 7),
        ("unallocated", None, None, 3, 16),
    ]


def test_a_gauge_of_an_unknown_scrape_interval_holds_for_a_minute_after_its_last_sample(
    tables: Tables,
) -> None:
    tables.run("store/sql/filters")
    series = "series: series_id, source, cluster, metric, labels"
    labels = "MAP {'cluster_queue': 'q', 'job': 'kueue', 'instance': 'i'}"
    tables.add(series, f"1, 's', 'c', 'kueue_pending_workloads', {labels}")
    tables.add(series, f"2, 's', 'known', 'kueue_pending_workloads', {labels}")
    tables.add("states: series_id, value, first_ms, last_ms", "1, 2, 0, 1000", "2, 2, 0, 1000")
    tables.add("scrape_gaps: source, cluster, job, instance, gap_ms", "'s', 'known', 'kueue', 'i', 15000")
    tables.run("questions/queue/10_runs", from_ms=0, to_ms=HOUR, clusters=[], queues=[])
    assert tables.rows("SELECT cluster, from_ms, to_ms FROM queue_runs ORDER BY cluster") == [
        ("c", 0, 61000),
        ("known", 0, 16000),
    ]


def test_the_most_that_a_queue_used_is_of_the_period_alone(tables: Tables) -> None:
    tables.make(
        "queue_parts: cluster VARCHAR, cluster_queue VARCHAR, resource VARCHAR, from_ms BIGINT, to_ms BIGINT, quota DOUBLE,"
        " used DOUBLE, pending DOUBLE",
        "'c', 'q', 'gpu', 0, 100, 8, 9, 5",
        "'c', 'q', 'gpu', 100, 200, 6, 4, 4",
        "'c', 'q', 'gpu', 200, 400, 6, 7, 1",
    )
    tables.run("questions/queue/50_sums", from_ms=100, to_ms=400, since_ms=100, half_life_ms=100)
    assert tables.rows(
        "SELECT quota, used_average, used_p95, used_max, borrowed_max, pending_average, pending_max FROM queue_sums"
    ) == [(6, 6, 7, 7, 1, 2, 4)]


def test_a_job_of_slurm_is_counted_by_partition_qos_and_account(tables: Tables) -> None:
    tables.run("store/sql/filters")
    runs = (
        "7, 105000, 115000, 125000, 'PREEMPTED', 'a'",
        "8, 100000, NULL, 100000, 'COMPLETED', 'b'",
        # it began before the period; the next one after it; the last two were preempted, one before it held anything
        "9, 50000, NULL, 90000, 'RUNNING', 'c'",
        "10, 150000, NULL, 200000, 'RUNNING', 'a'",
        "11, 120000, NULL, 130000, 'PREEMPTED', 'a'",
        "12, 100000, NULL, 110000, 'PREEMPTED', 'd'",
    )
    tables.add(
        "slurm_runs: job_id, submit_ms, eligible_ms, start_ms, state, account, cluster, partition, qos, alloc_tres",
        *(f"{run}, 'c', 'p', 'q', 'gres/gpu=1'" for run in runs),
        "13, 100000, NULL, 110000, 'COMPLETED', 'a', 'c', 'p', 'q', 'cpu=1'",
    )
    tables.add(
        "allocations: allocation_id, cluster, uid, account",
        "1, 'c', '7@105000/x', 'a'",
        "2, 'c', '9@50000/y', 'c'",
        "3, 'c', '12@100000/y', 'd'",
    )
    tables.hours(
        f"allocation_id INT, allocated_gpu_ms DOUBLE, cost {_MONEY}",
        *(f"{allocation}, {HOUR}, {cost}" for allocation, cost in ((1, 3), (1, 1), (2, 5), (3, 2))),
    )
    rows = tables.run("questions/queue/70_slurm_waits", from_ms=100000, to_ms=200000, clusters=[])
    assert [tuple(round(one, 6) if isinstance(one, float) else one for one in row[1:]) for row in rows] == [
        ("account", "c", 0, None, None, None, None, 1, 5, 0, 0),
        ("account", "a", 2, 15, 19.5, 10, 10, 2, 4, 1, 4),
        ("account", "d", 1, 10, 10, 10, 10, 1, 2, 1, 2),
        ("account", "b", 1, 0, 0, 0, 0, 0, 0, 0, 0),
        ("partition", "p", 4, 10, 18.5, 10, 10, 4, 11, 2, 6),
        ("qos", "q", 4, 10, 18.5, 10, 10, 4, 11, 2, 6),
    ]


def test_nodes_on_which_those_asked_for_held_nothing_are_not_explained(tables: Tables) -> None:
    tables.add("nodes: node_id, cluster, node", "1, 'c', 'a'", "2, 'c', 'b'")
    tables.make(
        f"cost_rows: node_id INT, kind VARCHAR, allocated_gpu_ms DOUBLE, cost {_MONEY}, estimated_cost {_MONEY}",
        "1, 'allocated', 10, 3, 1",
        "1, 'unallocated', 0, 0, 2",
        "2, 'unallocated', 0, 0, 2",
    )
    tables.make(
        f"report_cost_cells: node_id INT, cost {_MONEY}, unallocated_cost {_MONEY}, not_collected_cost {_MONEY}",
        "1, 5, 0, 0",
        "1, 0, 2, 1",
        "2, 0, 2, 0",
    )
    tables.make(
        f"report_node_cells: node_id INT, price_source VARCHAR, node_cost {_MONEY}",
        "1, 'book', 8",
        "2, 'book', 2",
    )
    rows = tables.answers("questions/explain/20_nodes")
    shown = (
        "node",
        "cost",
        "estimated_cost",
        "others_cost",
        "unallocated_cost",
        "not_collected_cost",
        "node_cost",
    )
    assert [tuple(row[name] for name in shown) for row in rows] == [("a", 3, 1, 2, 2, 1, 8)]


def test_a_machine_that_no_discount_touches_costs_what_its_rows_say(tables: Tables) -> None:
    tables.make(
        f"explained_bill_rows: instance_key VARCHAR, number INT, machine VARCHAR, instance_hours DOUBLE, cost {_MONEY}",
        "'i-1', 1, 'i-1', 1, 4",
        "'i-1', 2, 'i-1', 2, 5",
        "'i-2', 1, 'i-2', 1, 4",
    )
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1", "'i-2', 2")
    tables.add(
        "billed_hours: instance_key, from_ms, to_ms, instance_hours, price_per_hour, rate, discount_cost, discount_rates",
        f"'i-2', 0, {HOUR}, 1, 3, 1, -1, [7]",
    )
    tables.add("discount_rates: rate_id, rows, first_rows", "7, 2, ['f:1', 'f:2']")
    tables.make(
        "machine_riders: instance_key VARCHAR, source_file VARCHAR, source_row INT, charge_period_start TIMESTAMP,"
        f" charge_period_end TIMESTAMP, kind VARCHAR, effective_cost {_MONEY}"
    )
    rows = tables.answers("questions/explain/50_billed_machines", from_ms=0, to_ms=HOUR, most=1)
    shown = (
        "instance_key",
        "rows",
        "more_rows",
        "more_cost",
        "instance_hours",
        "cost",
        "pooled_cost",
        "discount_rows",
    )
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("i-1", 2, 1, 5, 3, 9, 0, 0),
        ("i-2", 1, 0, 0, 1, 3, 3, 2),
    ]


def test_of_a_class_the_team_with_the_largest_cost_comes_first(tables: Tables) -> None:
    tables.make(
        f"machine_shares: line VARCHAR, team VARCHAR, rows INT, billed_cost {_MONEY}",
        "'held', 'a', 1, 3",
        "'held', 'b', 1, 8",
    )
    tables.make(
        f"machine_parts: line VARCHAR, team VARCHAR, cost {_MONEY}", "'held', 'a', 2", "'held', 'b', 9"
    )
    tables.make(f"machine_hours: discount_cost {_MONEY}", "-1")
    tables.make(
        f"row_classes: place INT, currency VARCHAR, billed_class VARCHAR, effective_class VARCHAR, rows INT,"
        f" billed_cost {_MONEY}, effective_cost {_MONEY}, discount_cost {_MONEY}, amortized_cost {_MONEY}",
        "NULL, 'EUR', 'tax', 'tax', 2, 4, 5, -1, 0",
        "1, 'USD', NULL, NULL, 1, 0, 0, 0, 6",
    )
    assert tables.run("questions/reconcile/42_classes", currency="USD") == [
        ("billed", "EUR", "tax", None, 2, 4),
        ("billed", "USD", "held", "b", 1, 8),
        ("billed", "USD", "held", "a", 1, 3),
        ("effective", "EUR", "discounts", None, 0, 1),
        ("effective", "EUR", "tax", None, 2, 4),
        ("effective", "USD", "discounts", None, 0, 7),
        ("effective", "USD", "held", "b", 1, 9),
        ("effective", "USD", "held", "a", 1, 2),
    ]


def test_all_of_an_amount_keeps_the_digits_that_a_part_may_lose(tables: Tables) -> None:
    tables.run("questions/report/api_cost/05_macros")
    amounts = tables.rows(
        "SELECT money_until(123456789.123456789::DECIMAL(38, 9), share)::VARCHAR"
        " FROM unnest([0, 1, 1.5]::DOUBLE[]) AS s(share)"
    )
    assert [amount for (amount,) in amounts] == ["0.000000000", "123456789.123456789", "123456789.123456789"]


def test_bought_tokens_of_a_team_are_the_sum_of_their_rows(tables: Tables) -> None:
    tables.run("store/sql/filters")
    tables.make(
        "api_rows: team VARCHAR, provider VARCHAR, model VARCHAR, source VARCHAR, api_cost INT, commitment_cost INT,"
        " prompt_tokens INT, cached_tokens INT, generation_tokens INT, month INT, day INT, hour INT",
        "'a', 'aws', 'm', 's', 2, 1, 20, 2, 10, 0, 0, 0",
        "'a', 'aws', 'm', 's', 3, 1, 30, 3, 15, 0, 0, 0",
        "'b', 'aws', 'm', 's', 7, 0, 1, 1, 1, 0, 0, 0",
    )
    rows = tables.answers("questions/report/api_cost/60_api_sums", by=["team"], each_team=False)
    shown = ("team", "api_cost", "commitment_cost", "prompt_tokens", "cached_tokens", "generation_tokens")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("b", 7, 0, 1, 1, 1),
        ("a", 5, 2, 50, 5, 25),
    ]


def test_a_part_that_costs_without_gpu_time_is_told_of_and_one_that_has_neither_is_not(
    tables: Tables,
) -> None:
    tables.run("store/sql/filters")
    parts = ("starting", "beyond", "idle", "unmeasured", "surplus", "lost", "work")
    tables.make(
        "waste_held: node_id INT, allocation_id INT, team VARCHAR, time_bucket BIGINT, "
        + ", ".join(f"{part}_gpu_ms DOUBLE, {part}_cost {_MONEY}" for part in parts)
        + f", host_cost {_MONEY}",
        # idle time that cost nothing, money of work whose time is a trace, a trace of surplus, and cores
        "1, 5, 'red', 0, 0, 0, 0, 0, 10, 0, 0, 0, 0.5, 0, 0, 0, 0.5, 2, 3",
    )
    free = ("unavailable", "fragmentation", "empty_node", "between_jobs")
    tables.make(
        "waste_free: node_id INT, time_bucket BIGINT, "
        + ", ".join(f"{part}_gpu_ms DOUBLE, {part}_cost {_MONEY}" for part in free)
        + f", host_cost {_MONEY}",
        "1, 0, 0, 0, 20, 4, 0, 0, 0, 0, 0",
    )
    tables.make(
        "waste_cells: node_id INT, time_bucket BIGINT, kind VARCHAR, allocation_id INT, unallocated_gpu_ms DOUBLE,"
        f" unallocated_cost {_MONEY}"
    )
    tables.make(
        "waste_pods: allocation_id INT, namespace VARCHAR, workload VARCHAR, workload_type VARCHAR, resource VARCHAR,"
        " pod VARCHAR, uid VARCHAR",
        "5, 'ns', 'Job/w', 'training', 'gpu', 'p', 'u'",
    )
    tables.add("allocations: allocation_id", "5")
    tables.add("nodes: node_id, cluster, node", "1, 'c', 'n'")
    tables.make(
        "time_buckets: from_ms BIGINT, month VARCHAR, day VARCHAR, hour VARCHAR", "0, NULL, NULL, NULL"
    )
    tables.run("questions/waste/50_waste_rows", teams=[], namespaces=[], clusters=[], workloads=[], users=[])
    assert tables.rows("SELECT bucket, gpu_ms, cost, team FROM waste_rows ORDER BY bucket") == [
        ("active", 0.5, 2, "red"),
        ("cpu_memory", 0, 3, "red"),
        ("data_stall", 10, 0, "red"),
        ("fragmentation", 20, 4, None),
    ]


def test_progress_is_of_the_pod_that_held_gpus_nearest_in_time(tables: Tables) -> None:
    """The pod of one name ran as two workloads; the value came two minutes after the first, a minute before the second."""
    at = 100 * 60_000
    series = (
        "progress_series: series_id, identity, source, mapping, unit, kind, marks, resumes, is_failure, pod"
    )
    tables.add(series, "1, 1, 's', 'm', 'epoch', 'gauge', 'end', false, false, 'p'")
    tables.add("progress_values: series_id, at_ms, value", f"1, {at}, 3")
    tables.add(
        "allocations: allocation_id, cluster, namespace, workload, pod, held_from_ms, held_to_ms",
        f"1, 'c', 'n', 'Job/a', 'p', 0, {at - 120_000}",
        f"2, 'c', 'n', 'Job/b', 'p', {at + 60_000}, {at + 600_000}",
    )
    for empty in ("allocation_traits: allocation_id", "collected: cluster", "loads: kind"):
        tables.add(empty)
    tables.make("unit_run_places: run_id VARCHAR, source VARCHAR, name VARCHAR, parent_id VARCHAR, planned_epochs DOUBLE,"
                " started_ms BIGINT, ended_ms BIGINT, status VARCHAR")  # fmt: skip
    tables.run("questions/units/30_candidates")
    (run,) = tables.answers("questions/units/70_runs", from_ms=0, to_ms=at + 600_000)
    assert (run["workload"], run["levels"]) == ("Job/b", [3])
