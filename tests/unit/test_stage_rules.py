"""Rules of single SQL stages of stored samples, prices and tokens, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables


HOUR = 3_600_000


def test_a_window_takes_the_place_of_what_it_covers_and_no_moment_more(tables: Tables) -> None:
    run = "series_id INT, value DOUBLE, first_ms BIGINT, last_ms BIGINT"
    tables.make(f"window_runs: {run}", "1, 5, 100, 200")
    tables.make(f"touched: {run}, from_ms BIGINT, to_ms BIGINT", "1, 7, 50, 300, 100, 200")
    tables.run("store/sql/states_merged", silence=1000)
    assert tables.rows("SELECT value, first_ms, last_ms FROM merged ORDER BY first_ms") == [
        (7, 50, 99),
        (5, 100, 200),
        (7, 201, 300),
    ]


def test_the_list_price_of_a_type_is_of_the_purchase_that_is_preferred(tables: Tables) -> None:
    tables.make(
        "price_offers: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, purchase_option VARCHAR,"
        " price_per_hour DECIMAL(38, 9), is_of_region BOOLEAN, term_years INT",
        "'aws', 'P5', 'p5', 'r', 'a', 3, true, 0",
        "'aws', 'P5', 'p5', 'r', 'b', 8, true, 0",
    )
    tables.make(
        "purchase_fits: purchase_option VARCHAR, is_list BOOLEAN, capacity_type VARCHAR, preference INT",
        "'a', true, 'on_demand', 1",
        "'b', true, 'on_demand', 2",
    )
    tables.make("catalog_instances: instance_type VARCHAR, gpu_count INT", "'P5', 8")
    assert [row["per_hour"] for row in tables.answers("publish/listed_prices")] == [8]


def test_a_current_price_is_the_last_that_is_known(tables: Tables) -> None:
    tables.add(
        "nodes: node_id, node, instance_type, region, capacity_type, up_to_ms",
        "1, 'n', 'p5', 'r', 'spot', 100",
    )
    tables.add(
        "node_prices: node_id, from_ms, price_per_hour, price_source", "1, 0, 4, 'bill'", "1, 50, 0, 'none'"
    )
    assert [row["per_hour"] for row in tables.answers("publish/current_prices")] == [4]


def test_bought_tokens_of_a_model_are_the_sum_of_their_rows(tables: Tables) -> None:
    tables.make(
        "api_rows: team VARCHAR, provider VARCHAR, model VARCHAR, source VARCHAR, api_cost INT, commitment_cost INT,"
        " prompt_cost INT, generation_cost INT, prompt_tokens INT, cached_tokens INT, generation_tokens INT",
        "'a', 'aws', 'm', 's', 2, 0, 2, 2, 20, 2, 10",
        "'a', 'aws', 'm', 's', 3, 0, 3, 3, 30, 3, 15",
    )
    rows = tables.answers("questions/report/api_cost/70_api_models", each_team=False)
    assert [(row["prompt_tokens"], row["cached_tokens"], row["generation_tokens"]) for row in rows] == [
        (50, 5, 25)
    ]


def test_activity_whose_unit_is_not_proven_is_left_out(tables: Tables) -> None:
    tables.add(
        "allocations: allocation_id, cluster, namespace, pod, node_id, gpus, held_from_ms, held_to_ms",
        "5, 'c', 'ns', 'p', 1, 1, 0, 100",
    )
    tables.add("nodes: node_id, node, gpu_count", "1, 'n', 8")
    tables.make(
        "activity_series: series_id INT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, host VARCHAR, uuid VARCHAR,"
        " gpu_instance_id VARCHAR, part VARCHAR, scale DOUBLE, first_ms BIGINT",
        "1, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'whole', 100, 0",
        "2, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'whole', NULL, 0",
        "3, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'compared', 1, 0",
        "4, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'memory', 0.5, 0",
    )
    tables.run("store/sql/activity_devices", from_ms=10, to_ms=90)
    assert tables.rows("FROM activity_devices ORDER BY series_id") == [
        (5, 1, "GPU-1/", "activity", 1, 10, 90, None),
        (5, 4, "GPU-1/", "memory", 0.5, 10, 90, 1024),
    ]


def test_memory_of_an_unheld_gpu_is_its_baseline(tables: Tables) -> None:
    """GPU-1 is named with its pod, and without one later. Of GPU-2 pods are never named: only hours without a pod count."""
    tables.add("nodes: node_id, cluster, node, gpu_count", "1, 'c', 'n', 8", "2, 'c', 'm', 1")
    tables.add(
        "allocations: allocation_id, cluster, namespace, pod, node_id, gpus, held_from_ms, held_to_ms",
        f"5, 'c', 'ns', 'p', 1, 1, 0, {HOUR}",
        f"6, 'c', 'ns', 'q', 1, 1, 0, {9 * HOUR}",
        f"7, 'c', 'ns', 'r', 2, 1, {HOUR}, {3 * HOUR}",
    )
    tables.make(
        "activity_series: series_id INT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, host VARCHAR, uuid VARCHAR,"
        " gpu_instance_id VARCHAR, part VARCHAR, scale DOUBLE, first_ms BIGINT",
        f"1, 'c', 'ns', 'p', 'n', 'GPU-1', '', 'memory', 1, {HOUR}",
        "2, 'c', NULL, NULL, 'n', 'GPU-1', '', 'memory', 1, 0",
        "3, 'c', NULL, NULL, 'm', 'GPU-2', '', 'memory', 1, 0",
    )
    means = {
        # before the exporter named pods
        (2, 0): 70000,
        (1, 1): 37000,
        (2, 1): 1500,
        (2, 2): 1600,
        (2, 3): 30000,
        (3, 0): 700,
        (3, 1): 20000,
        (3, 2): 21000,
    }
    tables.add(
        "blocks: series_id, hour, samples, value_sum",
        *(f"{series}, {hour}, 2, {2 * mean}" for (series, hour), mean in means.items()),
    )
    tables.run("store/sql/activity_devices", from_ms=0, to_ms=9 * HOUR)
    # the median of 1,500, 1,600 and 30,000, a process's left behind; and 700; 64 MiB more are a pod's
    assert tables.rows("SELECT series_id, empty_mib FROM activity_devices ORDER BY series_id") == [
        (1, 1664),
        (3, 764),
    ]


def test_an_hour_is_settled_by_answers_an_hour_after_its_silence_ended(tables: Tables) -> None:
    day = "2026-10-01"
    tables.add(
        "asked_hours: source, hour, first_at, last_at, is_partial",
        f"'s', 0, '{day} 10:00', '{day} 12:00', false",
        f"'s', 1, '{day} 11:30', '{day} 12:00', true",
        f"'s', 2, '{day} 10:30', '{day} 12:00', false",
    )
    tables.make(
        "silences: family VARCHAR, cluster VARCHAR, from_ms BIGINT, to_ms BIGINT",
        f"'gpus', 'c', {HOUR // 2}, {3 * HOUR // 2}",
        f"'nodes', 'c', {HOUR // 2}, {HOUR - 1}",
    )
    assert tables.run("store/sql/incomplete_hours", source="s", from_hour=0, to_hour=3) == [
        (0, "gpus", "c", HOUR // 2, 3 * HOUR // 2, False),
        (0, "nodes", "c", HOUR // 2, HOUR - 1, True),
        (1, "gpus", "c", HOUR // 2, 3 * HOUR // 2, False),
        (1, "partial", None, HOUR, 2 * HOUR, False),
    ]


def test_a_target_that_is_heard_at_the_end_of_the_time_does_not_lag(tables: Tables) -> None:
    for number, (job, last) in enumerate(
        (("early", 9), ("late", 99), ("until then", 100), ("since then", 10))
    ):
        tables.add(
            "series: series_id, source, cluster, metric, labels",
            f"{number}, 's', 'c', 'kube_node_info', MAP {{'cluster': 'c', 'job': '{job}', 'instance': 'i'}}",
        )
        tables.add("states: series_id, value, first_ms, last_ms", f"{number}, 1, 0, {last}")
    targets = tables.run(
        "store/sql/lagging_targets", source="s", cluster_label="cluster", from_ms=10, to_ms=100
    )
    assert targets == [
        ("kube_node_info", "c", "late", ["i"], 99),
        ("kube_node_info", "c", "since then", ["i"], 10),
    ]


def test_gpus_are_silent_only_while_their_node_offers_some(tables: Tables) -> None:
    gpu = "'resource': 'nvidia_com_gpu'"
    series = (
        ("kube_node_info", "", 4 * HOUR),
        ("kube_node_status_capacity", f", {gpu}", None),
        # a pod still asks for what is not there any more
        ("kube_pod_container_resource_requests", f", {gpu}", 4 * HOUR),
        ("DCGM_FI_DEV_GPU_UTIL", ", 'UUID': 'GPU-1'", None),
    )
    for number, (cluster, (metric, labels, last)) in enumerate(
        (c, s) for c in ("gone", "there") for s in series
    ):
        tables.add(
            "series: series_id, source, cluster, metric, labels",
            f"{number}, 's', '{cluster}', '{metric}', MAP {{'node': 'n'{labels}}}",
        )
        if metric.startswith("kube_"):
            until = last or (HOUR if cluster == "gone" else 4 * HOUR)
            tables.add("states: series_id, value, first_ms, last_ms", f"{number}, 1, 0, {until}")
        else:
            tables.add(
                "blocks: series_id, hour, samples, first_offset_ms, last_offset_ms, gap_ms",
                f"{number}, 0, 60, 0, 3540000, 60000",
            )
    tables.run("store/sql/silences", source="s", from_ms=0, to_ms=4 * HOUR, tolerance_ms=600_000)
    assert tables.rows("FROM silences") == [("gpus", "there", 3_540_000, None)]


def test_a_family_is_silent_from_the_last_sample_before_to_the_next(tables: Tables) -> None:
    tables.add("series: series_id, source, metric, labels", "1, 's', 'kube_pod_info', MAP {'cluster': 'c'}")
    tables.add(
        "states: series_id, value, first_ms, last_ms", f"1, 1, 0, {HOUR}", f"1, 1, {2 * HOUR}, {4 * HOUR}"
    )
    tables.add("scrape_gaps: source, hour, gap_ms", "'s', 0, 60000")
    stretches = tables.run(
        "store/sql/silent_families",
        source="s",
        cluster_label="cluster",
        from_ms=0,
        to_ms=4 * HOUR,
        tolerance_ms=600_000,
    )
    assert stretches == [("pods", "c", HOUR, 2 * HOUR)]


def test_charges_of_two_bills_are_common_unless_both_tell_what_parts_them(tables: Tables) -> None:
    tables.run("store/sql/bill_macros")
    tables.make(
        "told_sides: side INT, batch INT, provider VARCHAR, billing_period VARCHAR, file VARCHAR",
        *(f"{side}, {batch}, 'aws', '2026-10', NULL" for side, batch in ((1, 0), (2, 1))),
    )
    row = "{}, {}, {}, '2026-10-01', {}, NULL, NULL, NULL, NULL, NULL, '{}', NULL"
    tables.make(
        "told_rows: side INT, batch INT, charge_key INT, charge_period_start TIMESTAMP, line_item_id VARCHAR,"
        " resource_id VARCHAR, tags MAP(VARCHAR, VARCHAR), zone VARCHAR, sku_id VARCHAR, sku_price_id VARCHAR,"
        " charge_description VARCHAR, pricing_quantity DOUBLE",
        *(
            row.format(side, side - 1, key, item, words)
            for key, *sides in (
                # the first bill tells it, the second does, both tell the same, both tell another
                (7, ("'x'", "a"), ("NULL", "a")),
                (8, ("NULL", "a"), ("'x'", "a")),
                (9, ("'x'", "a"), ("'y'", "a")),
                (10, ("'x'", "a"), ("'y'", "b")),
            )
            for side, (item, words) in enumerate(sides, 1)
        ),
    )
    assert [pair[0] for pair in tables.run("store/sql/told_pairs")] == [3]


def test_an_hour_is_quiet_if_the_counters_of_all_replicas_stand_still(tables: Tables) -> None:
    """Requests until 1:30 and one at 4:02, counted by each of two replicas; from hour 6 on one of them is not collected."""
    held = f"'c', 'ns', 'Deployment/api', 0, {9 * HOUR}"
    allocations = "allocations: allocation_id, cluster, namespace, workload, held_from_ms, held_to_ms"
    tables.add(allocations, f"1, {held}", f"2, {held}", "3, 'c', 'ns', 'Job/x', 0, 100")
    tables.make(
        "unit_candidates: series_id INT, allocation_id INT, cluster VARCHAR, namespace VARCHAR, workload VARCHAR",
        *(f"{number}, {number}, 'c', 'ns', 'Deployment/api'" for number in (1, 2)),
    )
    series = "progress_series: series_id, source, unit, kind"
    tables.add(series, "1, 's', 'request', 'counter'", "2, 's', 'request', 'counter'")
    tables.add("loads: kind, source, from_ms, to_ms", f"'progress', 's', 0, {9 * HOUR}")
    tables.add("collected: cluster, from_ms, to_ms", f"'c', 0, {9 * HOUR}")
    values = {(1, 0): 5, (1, 1.5): 9, (1, 4 + 2 / 60): 10, (1, 9): 10, (2, 0): 3, (2, 6): 3}
    tables.add(
        "progress_values: series_id, at_ms, value",
        *(f"{number}, {round(hour * HOUR)}, {value}" for (number, hour), value in values.items()),
    )
    rows = tables.run("questions/units/35_quiet_hours", from_ms=0, to_ms=9 * HOUR)
    # the request counted at 4:02 may have come in hour 3; the first values may count requests of hour 0
    assert [row[-1] for row in rows] == [2, 5] and {row[:3] for row in rows} == {
        ("c", "ns", "Deployment/api")
    }
    # what was not collected of the cluster may hide requests
    tables.con.execute("UPDATE temp.collected SET to_ms = ?", [5 * HOUR])
    assert [row[-1] for row in tables.run("questions/units/35_quiet_hours", from_ms=0, to_ms=9 * HOUR)] == [2]
    tables.con.execute("UPDATE temp.collected SET to_ms = ?", [9 * HOUR])
    tables.con.execute("UPDATE loads SET to_ms = ?", [5 * HOUR])
    assert [row[-1] for row in tables.run("questions/units/35_quiet_hours", from_ms=0, to_ms=9 * HOUR)] == [2]
