"""Rules of single SQL stages for stored samples, prices and tokens, over tables of a few rows."""

from __future__ import annotations

from typing import Any

from tests.unit.stage_tables import HOUR, Tables, rule_test

test_rule = rule_test("""
= a window replaces exactly the time that it covers
store/sql/states_merged
params {"silence": 1000}

window_runs: series_id INT, value DOUBLE, first_ms BIGINT, last_ms BIGINT
1, 5, 100, 200

touched: series_id INT, value DOUBLE, first_ms BIGINT, last_ms BIGINT, from_ms BIGINT, to_ms BIGINT
1, 7, 50, 300, 100, 200
->
SELECT value, first_ms, last_ms FROM merged ORDER BY first_ms
7 | 50 | 99
5 | 100 | 200
7 | 201 | 300

= the list price of a type has the preferred purchase option
publish/listed_prices

price_offers: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, purchase_option VARCHAR, \
price_per_hour MONEY, is_of_region BOOLEAN, term_years INT
'aws', 'P5', 'p5', 'r', 'a', 3, true, 0
'aws', 'P5', 'p5', 'r', 'b', 8, true, 0

purchase_fits: purchase_option VARCHAR, is_list BOOLEAN, capacity_type VARCHAR, preference INT
'a', true, 'on_demand', 1
'b', true, 'on_demand', 2

catalog_instances: instance_type VARCHAR, gpu_count INT
'P5', 8
->
per_hour
8

= the current price is the last known price
publish/current_prices

nodes: node_id, node, instance_type, region, capacity_type, up_to_ms
1, 'n', 'p5', 'r', 'spot', 100

node_prices: node_id, from_ms, price_per_hour, price_source
1, 0, 4, 'bill'
1, 50, 0, 'none'
->
per_hour
4

= bought tokens of a model are the sum of their rows
questions/report/api_cost/70_api_models
after store/sql/filters

api_rows: team VARCHAR, provider VARCHAR, model VARCHAR, source VARCHAR, api_cost INT, commitment_cost INT, \
prompt_cost INT, generation_cost INT, prompt_tokens INT, cached_tokens INT, generation_tokens INT
'a', 'aws', 'm', 's', 2, 0, 2, 2, 20, 2, 10
'a', 'aws', 'm', 's', 3, 0, 3, 3, 30, 3, 15
->
prompt_tokens cached_tokens generation_tokens
50 | 5 | 25

= activity with an unproven unit is left out
store/sql/activity_devices
params {"from_ms": 10, "to_ms": 90}

allocations: allocation_id, cluster, namespace, pod, node_id, gpus, held_from_ms, held_to_ms
5, 'c', 'ns', 'p', 1, 1, 0, 100

nodes: node_id, node, gpu_count
1, 'n', 8

activity_series: series_id INT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, host VARCHAR, uuid VARCHAR, \
gpu_instance_id VARCHAR, part VARCHAR, scale DOUBLE, first_ms BIGINT
1, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'whole', 100, 0
2, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'whole', NULL, 0
3, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'compared', 1, 0
4, 'c', 'ns', 'p', 'h', 'GPU-1', '', 'memory', 0.5, 0
->
FROM activity_devices ORDER BY series_id
5 | 1 | GPU-1/ | activity | 1 | 10 | 90 | -
5 | 4 | GPU-1/ | memory | 0.5 | 10 | 90 | 1024

= memory of an unallocated gpu is its baseline
# Series of GPU-1 have a pod label first and none later. Series of GPU-2 never have one: only hours without a pod count.
store/sql/activity_devices
params {"from_ms": 0, "to_ms": 32400000}

nodes: node_id, cluster, node, gpu_count
1, 'c', 'n', 8
2, 'c', 'm', 1

allocations: allocation_id, cluster, namespace, pod, node_id, gpus, held_from_ms, held_to_ms
5, 'c', 'ns', 'p', 1, 1, 0, 1h
6, 'c', 'ns', 'q', 1, 1, 0, 9h
7, 'c', 'ns', 'r', 2, 1, 1h, 3h

activity_series: series_id INT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, host VARCHAR, uuid VARCHAR, \
gpu_instance_id VARCHAR, part VARCHAR, scale DOUBLE, first_ms BIGINT
1, 'c', 'ns', 'p', 'n', 'GPU-1', '', 'memory', 1, 1h
2, 'c', NULL, NULL, 'n', 'GPU-1', '', 'memory', 1, 0
3, 'c', NULL, NULL, 'm', 'GPU-2', '', 'memory', 1, 0

blocks: series_id, hour, samples, value_sum
2, 0, 2, 140000
1, 1, 2, 74000
2, 1, 2, 3000
2, 2, 2, 3200
2, 3, 2, 60000
3, 0, 2, 1400
3, 1, 2, 40000
3, 2, 2, 42000
->
SELECT series_id, empty_mib FROM activity_devices ORDER BY series_id
1 | 1664
3 | 764

= an hour is settled by answers one hour after its silence
store/sql/incomplete_hours
params {"source": "s", "from_hour": 0, "to_hour": 3}

asked_hours: source, hour, first_at, last_at, is_partial
's', 0, '2026-10-01 10:00', '2026-10-01 12:00', false
's', 1, '2026-10-01 11:30', '2026-10-01 12:00', true
's', 2, '2026-10-01 10:30', '2026-10-01 12:00', false

silences: family VARCHAR, cluster VARCHAR, from_ms BIGINT, to_ms BIGINT
'gpus', 'c', 1800000, 5400000
'nodes', 'c', 1800000, 3599999
->
hour family cluster from_ms to_ms is_settled
0 | gpus | c | 1800000 | 5400000 | False
0 | nodes | c | 1800000 | 3599999 | True
1 | gpus | c | 1800000 | 5400000 | False
1 | partial | - | 3600000 | 7200000 | False

= a target with a sample at the end of the window does not lag
store/sql/lagging_targets
params {"source": "s", "cluster_label": "cluster", "from_ms": 10, "to_ms": 100}

series: series_id, source, cluster, metric, labels
0, 's', 'c', 'kube_node_info', MAP {'cluster': 'c', 'job': 'early', 'instance': 'i'}
1, 's', 'c', 'kube_node_info', MAP {'cluster': 'c', 'job': 'late', 'instance': 'i'}
2, 's', 'c', 'kube_node_info', MAP {'cluster': 'c', 'job': 'until then', 'instance': 'i'}
3, 's', 'c', 'kube_node_info', MAP {'cluster': 'c', 'job': 'since then', 'instance': 'i'}

states: series_id, value, first_ms, last_ms
0, 1, 0, 9
1, 1, 0, 99
2, 1, 0, 100
3, 1, 0, 10
->
metric cluster job instances last_ms
kube_node_info | c | late | ['i'] | 99
kube_node_info | c | since then | ['i'] | 10

= gpus are silent only while their node reports gpus
store/sql/silences
params {"source": "s", "from_ms": 0, "to_ms": 14400000, "tolerance_ms": 600000}

series: series_id, source, cluster, metric, labels
0, 's', 'gone', 'kube_node_info', MAP {'node': 'n'}
1, 's', 'gone', 'kube_node_status_capacity', MAP {'node': 'n', 'resource': 'nvidia_com_gpu'}
2, 's', 'gone', 'kube_pod_container_resource_requests', MAP {'node': 'n', 'resource': 'nvidia_com_gpu'}
3, 's', 'gone', 'DCGM_FI_DEV_GPU_UTIL', MAP {'node': 'n', 'UUID': 'GPU-1'}
4, 's', 'there', 'kube_node_info', MAP {'node': 'n'}
5, 's', 'there', 'kube_node_status_capacity', MAP {'node': 'n', 'resource': 'nvidia_com_gpu'}
6, 's', 'there', 'kube_pod_container_resource_requests', MAP {'node': 'n', 'resource': 'nvidia_com_gpu'}
7, 's', 'there', 'DCGM_FI_DEV_GPU_UTIL', MAP {'node': 'n', 'UUID': 'GPU-1'}

states: series_id, value, first_ms, last_ms
0, 1, 0, 4h
1, 1, 0, 1h
2, 1, 0, 4h
4, 1, 0, 4h
5, 1, 0, 4h
6, 1, 0, 4h

blocks: series_id, hour, samples, first_offset_ms, last_offset_ms, gap_ms
3, 0, 60, 0, 3540000, 60000
7, 0, 60, 0, 3540000, 60000
->
FROM silences
gpus | there | 3540000 | -

= a family is silent from the last sample before to the next
store/sql/silent_families
params {"source": "s", "cluster_label": "cluster", "from_ms": 0, "to_ms": 14400000, "tolerance_ms": 600000}

series: series_id, source, metric, labels
1, 's', 'kube_pod_info', MAP {'cluster': 'c', 'job': 'ksm'}
2, 's', 'DCGM_FI_DEV_XID_ERRORS', MAP {'cluster': 'c', 'job': 'dcgm'}

states: series_id, value, first_ms, last_ms
1, 1, 0, 1h
1, 1, 2h, 3h
1, 1, 11700000, 4h

scrape_gaps: source, hour, gap_ms, job, instance
's', 0, 420000, 'ksm', ''
's', 1, 420000, 'ksm', ''
's', 0, 15000, 'dcgm', 'a'
's', 1, 15000, 'dcgm', 'b'
's', 2, 15000, 'dcgm', 'c'
->
family cluster from_ms to_ms
pods | c | 3600000 | 7200000

= charges of two bills are common unless both contain the difference
store/sql/told_pairs
after store/sql/bill_macros

told_sides: side INT, batch INT, provider VARCHAR, billing_period VARCHAR, file VARCHAR
1, 0, 'aws', '2026-10', NULL
2, 1, 'aws', '2026-10', NULL

told_rows: side INT, batch INT, charge_key INT, charge_period_start TIMESTAMP, line_item_id VARCHAR, \
resource_id VARCHAR, tags MAP(VARCHAR, VARCHAR), zone VARCHAR, sku_id VARCHAR, sku_price_id VARCHAR, \
charge_description VARCHAR, pricing_quantity DOUBLE
1, 0, 7, '2026-10-01', 'x', NULL, NULL, NULL, NULL, NULL, 'a', NULL
2, 1, 7, '2026-10-01', NULL, NULL, NULL, NULL, NULL, NULL, 'a', NULL
1, 0, 8, '2026-10-01', NULL, NULL, NULL, NULL, NULL, NULL, 'a', NULL
2, 1, 8, '2026-10-01', 'x', NULL, NULL, NULL, NULL, NULL, 'a', NULL
1, 0, 9, '2026-10-01', 'x', NULL, NULL, NULL, NULL, NULL, 'a', NULL
2, 1, 9, '2026-10-01', 'y', NULL, NULL, NULL, NULL, NULL, 'a', NULL
1, 0, 10, '2026-10-01', 'x', NULL, NULL, NULL, NULL, NULL, 'a', NULL
2, 1, 10, '2026-10-01', 'y', NULL, NULL, NULL, NULL, NULL, 'b', NULL
->
common
3

""")


HELD = """
allocations: allocation_id, cluster, namespace, workload, held_from_ms, held_to_ms
1, 'c', 'ns', 'Deployment/api', 0, 9h
2, 'c', 'ns', 'Deployment/api', 0, 9h
3, 'c', 'ns', 'Job/x', 0, 100

unit_candidates: series_id INT, allocation_id INT, cluster VARCHAR, namespace VARCHAR, workload VARCHAR
1, 1, 'c', 'ns', 'Deployment/api'
2, 2, 'c', 'ns', 'Deployment/api'

progress_series: series_id, source, unit, kind
1, 's', 'request', 'counter'
2, 's', 'request', 'counter'

loads: kind, source, from_ms, to_ms
'progress', 's', 0, 9h

collected: cluster, from_ms, to_ms
'c', 0, 9h

progress_values: series_id, at_ms, value
1, 0, 5
1, 5340000, 5
1, 5400000, 9
1, 14340000, 9
1, 14520000, 10
1, 9h, 10
2, 0, 3
2, 6h, 3
"""


def test_hour_is_quiet_if_no_replica_counts_requests(tables: Tables) -> None:
    """Requests about 1:30 and between 3:59 and 4:02 on two replicas; one of them is not collected from hour 6 on."""

    def quiet() -> list[tuple[Any, ...]]:
        return tables.run("questions/units/35_quiet_hours", from_ms=0, to_ms=9 * HOUR)

    tables.fill(HELD)
    # the request counted at 4:02 may be from hour 3; the first values may include requests of hour 0
    assert [(*row[:3], row[-1]) for row in quiet()] == [
        ("c", "ns", "Deployment/api", hour) for hour in (2, 5)
    ]
    # without values between 1:30 and 4:02, the counter may have counted in each of these hours
    tables.con.execute("DELETE FROM progress_values WHERE at_ms = 14340000")
    assert [row[-1] for row in quiet()] == [5]
    tables.con.execute("INSERT INTO progress_values VALUES (1, 14340000, 9)")
    # requests may be missing from a gap in the cluster's data or in the counters
    for table in ("temp.collected", "loads"):
        tables.con.execute(f"UPDATE {table} SET to_ms = {5 * HOUR}")  # noqa: S608
        assert [row[-1] for row in quiet()] == [2]
        tables.con.execute(f"UPDATE {table} SET to_ms = {9 * HOUR}")  # noqa: S608
