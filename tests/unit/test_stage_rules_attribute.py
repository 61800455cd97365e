"""Rules of single SQL stages of attribution, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

# Ten hours of a day without data; two nodes, the first of which was last seen before; their prices in seven-hour steps.
UNSEEN = """\
collected: cluster, from_ms, to_ms
'c', 0, 5h
'c', 15h, 24h

coverage_gaps: cluster, from_ms, to_ms, kind
'c', 5h, 15h, 'not_collected'

"""
TWO_NODES = """\
nodes: node_id, cluster, up_from_ms, up_to_ms, gpu_count
0, 'c', 0, 17820000, 1
1, 'c', 0, 24h, 1
"""
STEPS = """\
node_prices: node_id, from_ms, to_ms, price_per_hour, price_source
0, 0, 7h, 0, 'bill'
0, 7h, 14h, 7, 'bill'
0, 14h, 15h, 14, 'bill'
1, 0, 7h, 0, 'bill'
1, 7h, 14h, 7, 'bill'
1, 14h, 21h, 14, 'bill'
1, 21h, 24h, 21, 'bill'
"""

test_rule = rule_test(
    """
= the newest price of a core counts, collected or from the catalog
attribute/basis/10_host_prices

catalog_components: provider VARCHAR, region VARCHAR, family VARCHAR, component VARCHAR, gpu_model VARCHAR, \
price_per_hour DOUBLE, currency VARCHAR, price_as_of DATE, purchase_option VARCHAR
'gcp', 'r', 'A2', 'vcpu', NULL, 2, 'USD', '2026-10-01', 'on_demand'
'gcp', 'r', 'A2', 'memory_gib', NULL, 5, 'USD', '2026-10-03', 'on_demand'
'gcp', 'r', 'A2', 'vcpu', NULL, 1, 'USD', '2026-10-04', 'spot'

component_prices: provider, region, component, price_per_hour, currency, price_as_of, purchase_option
'gcp', 'r', 'a2/vcpu', 3, 'USD', '2026-10-02', 'on_demand'
'gcp', 'r', 'a2/memory_gib', 4, 'USD', '2026-10-02', 'on_demand'
'gcp', 'r', 'gpu/L4', 7, 'USD', '2026-10-02', 'on_demand'
'gcp', 'r', 'gpu/L4', 8, 'USD', '2026-10-03', 'on_demand'
->
SELECT family, gpu_model, core, gib, gpu FROM host_prices ORDER BY family
 | L4 | - | - | 8
a2 |  | 3 | 5 | -

= a family with priced cores is split by them
attribute/basis/20_node_weights
known {"cost_basis": "sku"}
after price/vocabulary

nodes: node_id, gpu_model, gpu_count, provider, instance_type, region, up_from_ms
1, 'A100', 1, 'gcp', 'g2-standard-4', 'r', 0

catalog_instances: instance_type VARCHAR, gpu_count DOUBLE, vcpus DOUBLE, memory_gib DOUBLE

node_hosts: node_id INT, part VARCHAR, units DOUBLE
1, 'cpu', 4
1, 'memory', 8589934592

price_list: provider VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR, purchase_option VARCHAR, \
price_per_hour DOUBLE, currency VARCHAR, from_ms BIGINT, to_ms BIGINT
'gcp', 'g2-standard-4', 'r', NULL, 'on_demand', 10, 'USD', 0, 10

host_prices: provider VARCHAR, region VARCHAR, family VARCHAR, gpu_model VARCHAR, currency VARCHAR, core DOUBLE, \
gib DOUBLE, gpu DOUBLE
'gcp', 'r', 'g2', '', 'USD', 0.5, 0.5, NULL
'gcp', 'us-central1', 'a2', '', 'USD', 1, 0.375, NULL
->
SELECT is_fallback, gpu, cpu, memory FROM node_weights
False | 4 | 2 | 4

= a family with free cores is split by the cores of another
attribute/basis/20_node_weights
known {"cost_basis": "sku"}
after price/vocabulary

nodes: node_id, gpu_model, gpu_count, provider, instance_type, region, up_from_ms
1, 'A100', 1, 'gcp', 'g2-standard-4', 'r', 0

catalog_instances: instance_type VARCHAR, gpu_count DOUBLE, vcpus DOUBLE, memory_gib DOUBLE

node_hosts: node_id INT, part VARCHAR, units DOUBLE
1, 'cpu', 4
1, 'memory', 8589934592

price_list: provider VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR, purchase_option VARCHAR, \
price_per_hour DOUBLE, currency VARCHAR, from_ms BIGINT, to_ms BIGINT
'gcp', 'g2-standard-4', 'r', NULL, 'on_demand', 10, 'USD', 0, 10

host_prices: provider VARCHAR, region VARCHAR, family VARCHAR, gpu_model VARCHAR, currency VARCHAR, core DOUBLE, \
gib DOUBLE, gpu DOUBLE
'gcp', 'r', 'g2', '', 'USD', 0, 0.5, NULL
'gcp', 'us-central1', 'a2', '', 'USD', 1, 0.375, NULL
->
SELECT is_fallback, gpu, cpu, memory FROM node_weights
True | 3 | 4 | 3

= requests are missing while nodes report no cores
attribute/basis/40_request_gaps
fixture inventory

nodes: node_id, cluster
1, 'c'
2, 'silent'

state_intervals: cluster, metric, resource, first_ms, last_ms
'c', 'kube_pod_container_resource_requests', 'cpu', 0, 10
'c', 'kube_node_status_capacity', 'cpu', 3h, 10800001
'c', 'kube_node_info', NULL, 0, 4h
->
FROM request_gaps ORDER BY cluster, from_ms
c | 3600000 | 10800000
c | 14400000 | 18000000
silent | 0 | 9223372036854775807

= a warning separates nodes with unknown cores and without a list price
attribute/basis/60_basis_warnings
fixture inventory

nodes: node_id, cluster, instance_type, up_from_ms, up_to_ms
1, 'c', 'sized', 0, 10
2, 'c', 'sized', 5, 20
3, 'c', 'unsized', 0, 10
4, 'c', 'split', 0, 10

node_hosts: node_id, part, units
3, 'cpu', 1
1, 'cpu', 1
1, 'memory', 1
2, 'cpu', 1
2, 'memory', 1
4, 'cpu', 1
4, 'memory', 1

node_splits: node_id INT, is_fallback BOOLEAN, gpu_fraction DOUBLE, cpu_fraction DOUBLE
4, false, 0.5, 0.25

request_gaps: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT

collected: cluster, from_ms, to_ms

warnings: code
->
SELECT subject, from_ms, to_ms, split_part(message, ':', 1) FROM warnings ORDER BY subject
sized | 0 | 20 | the on-demand list price of sized is missing
unsized | 0 | 10 | cores or memory of unsized are unknown

= a node's life is cut when its price or price split changes
attribute/10_price_spans
known {"span_from_ms": 0, "span_to_ms": 100}

nodes: node_id, up_from_ms, up_to_ms
1, 0, 100
2, 20, 40

node_prices: node_id, from_ms, to_ms, price_per_hour, price_source
1, 0, 10, 1, 'book'
1, 10, 50, 2, 'book'
1, 60, 100, 3, 'bill'

basis_spans: node_id INT, from_ms BIGINT, to_ms BIGINT, gpu_fraction DOUBLE, cpu_fraction DOUBLE
1, 30, 70, 0.5, 0.25
->
SELECT node_id, from_ms, to_ms, price_per_hour, price_source, gpu_fraction, cpu_fraction FROM price_spans ORDER BY ALL
1 | 0 | 10 | 1 | book | - | -
1 | 10 | 30 | 2 | book | - | -
1 | 30 | 50 | 2 | book | 0.5 | 0.25
1 | 50 | 60 | - | none | 0.5 | 0.25
1 | 60 | 70 | 3 | bill | 0.5 | 0.25
1 | 70 | 100 | 3 | bill | - | -
2 | 20 | 40 | - | none | - | -

= an allocation is in its node's collected segments while it holds gpus
attribute/20_allocation_segments
known {"span_from_ms": 3600000, "span_to_ms": 14400000}

allocations: allocation_id, uid, node_id, gpus, held_from_ms, held_to_ms
5, 'u', 1, 2, 1800000, 5400000
6, 'v', 1, 1, 2h, 3h
7, 'w', 1, 1, 0, 1800000
8, 'x', 2, 1, 10800001, 6h
9, 'y', 1, 1, 5400000, 2h

node_segments: node_id INT, hour INT, hours DOUBLE, from_ms BIGINT, to_ms BIGINT, is_collected BOOLEAN
1, 0, 0.5, 0, 1800000, true
1, 1, 0.5, 1h, 5400000, true
1, 2, 0.5, 2h, 9000000, true
1, 3, 0.5, 3h, 12600000, true
1, 0, 0.5, 1800000, 1h, True
1, 1, 0.5, 5400000, 2h, True
1, 2, 0.5, 9000000, 3h, False
1, 3, 0.5, 12600000, 4h, True
2, 0, 1, 0, 1h, true
2, 1, 1, 1h, 2h, true
2, 2, 1, 2h, 3h, true
2, 3, 1, 3h, 4h, true
2, 4, 1, 4h, 5h, true
2, 5, 1, 5h, 6h, true
->
SELECT allocation_id, gpus, hour, segment_from_ms, from_ms, to_ms FROM allocation_segments ORDER BY ALL
5 | 2 | 1 | 3600000 | 3600000 | 5400000
6 | 1 | 2 | 7200000 | 7200000 | 9000000
8 | 1 | 3 | 10800000 | 10800001 | 14400000
9 | 1 | 1 | 5400000 | 5400000 | 7200000

= requests exceed a node only while its pods request more together
attribute/21_over_requested
known {"span_from_ms": 10, "span_to_ms": 100}
fixture inventory

nodes: node_id, gpu_count
1, 4
2, 4

node_hosts: node_id, part, units
1, 'cpu', 8

allocations: allocation_id, node_id, gpus, held_from_ms, held_to_ms
5, 1, 3, 0, 60
6, 1, 2, 40, 80
11, 1, 0.5, 40, 60
7, 2, 4, 0, 100
10, 2, 0.0000001, 20, 30

allocation_hosts: allocation_id, part, units
5, 'cpu', 8
6, 'cpu', 1
->
FROM over_requested ORDER BY ALL
1 | cpu | 40 | 60 | 9 | 8
1 | gpu | 40 | 60 | 5.5 | 4

= a price is not split while requests were not collected
attribute/basis/50_basis_spans

nodes: node_id, cluster, up_from_ms, up_to_ms
1, 'c', 10, 90
2, 'c', 35, 50
3, 'd', 10, 90

node_splits: node_id INT, is_fallback BOOLEAN, gpu_fraction DOUBLE, cpu_fraction DOUBLE
1, false, 0.5, 0.25
2, false, 0.5, 0.25

request_gaps: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT
'c', 0, 20
'c', 30, 40
'c', 80, 95
'd', 40, 50
->
SELECT node_id, from_ms, to_ms, gpu_fraction FROM basis_spans ORDER BY ALL
1 | 20 | 30 | 0.5
1 | 40 | 80 | 0.5
2 | 40 | 50 | 0.5

= unseen time: one of two machines of a scale set ends when last seen
# prices, here of 7 hours each, are named by their first hour; a bill is shared by its nodes
attribute/days/15_unseen_time

<unseen>
billed_hours: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE
'm', 0, 24h, 28.95

<two_nodes>

billed_nodes: instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN
'm', 0, true
'm', 1, true

<steps>
->
SELECT node_id, from_ms // 3600000, to_ms // 3600000, price_per_hour, round(up_ratio, 3) FROM unseen_time ORDER BY ALL
0 | 5 | 7 | 0 | 0.5
0 | 7 | 14 | 7 | 0.5
0 | 14 | 15 | 14 | 0.5
1 | 5 | 7 | 0 | 0.5
1 | 7 | 14 | 7 | 0.5
1 | 14 | 15 | 14 | 0.5

= unseen time: a machine registers again in a collection gap
attribute/days/15_unseen_time

<unseen>
billed_hours: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE
'm', 0, 24h, 20.0

nodes: node_id, cluster, up_from_ms, up_to_ms, gpu_count
0, 'c', 0, 17820000, 1
1, 'c', 10h, 24h, 1

billed_nodes: instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN
'm', 0, false
'm', 1, false

node_prices: node_id, from_ms, to_ms, price_per_hour, price_source
0, 0, 7h, 0, 'bill'
0, 7h, 10h, 7, 'bill'
1, 10h, 17h, 10, 'bill'
1, 17h, 24h, 17, 'bill'
->
SELECT node_id, from_ms // 3600000, to_ms // 3600000, price_per_hour, round(up_ratio, 3) FROM unseen_time ORDER BY ALL
0 | 5 | 7 | 0 | 0.605
0 | 7 | 10 | 7 | 0.605
1 | 10 | 15 | 10 | 0.605

= unseen time: the bill has more hours than the nodes
attribute/days/15_unseen_time

<unseen>
billed_hours: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE
'm', 0, 24h, 200.0

<two_nodes>

billed_nodes: instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN
'm', 0, false
'm', 1, false

<steps>
->
SELECT node_id, from_ms // 3600000, to_ms // 3600000, price_per_hour, round(up_ratio, 3) FROM unseen_time ORDER BY ALL
0 | 5 | 7 | 0 | 1
0 | 7 | 14 | 7 | 1
0 | 14 | 15 | 14 | 1
1 | 5 | 7 | 0 | 1
1 | 7 | 14 | 7 | 1
1 | 14 | 15 | 14 | 1

= signs of failures: reasons of Slurm, declared off time, pods of a device, errors of a device on two servers
attribute/days/18_health_events
fixture inventory

nodes: node_id, cluster, node, up_from_ms, up_to_ms, gpu_count
1, 'c', 'n', 0, 24h, 4
2, 'c', 'm', 0, 24h, 4

collected: cluster, from_ms, to_ms
'c', 0, 24h

absences: node_id UBIGINT, cause VARCHAR, gpus DOUBLE, from_ms BIGINT, to_ms BIGINT
1, '', 4, 2h, 3h
2, 'lost', 1, 4h, 5h

closed_nodes: cluster, node, cause, from_ms, to_ms
'c', 'n', '', 2h, 3h
'c', 'n', '', 6h, 7h
'c', 'n', '', 10h, 14h
'c', 'n', '', 15h, 16h

slurm_events: cluster, node, state, reason, from_ms, to_ms
'c', 'n', 'DOWN*', 'Not responding', 2h, 3h
'c', 'n', 'DRAIN', 'replace fan', 10h, 14h
'c', 'n', 'DRAIN', 'Kill task failed', 15h, 16h

declared_off: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT
'c', 11h, 12h
'c', 11h, 13h
'd', 0, 24h

node_devices: series_id, cluster, uuid, first_ms, node_id, up_from_ms, up_to_ms, device_id
1, 'c', 'g', 0, 2, 0, 24h, 7

allocations: allocation_id, node_id, gpus, held_from_ms, held_to_ms
1, 2, 1, 0, 8h
2, 2, 1, 9h, 10h

allocation_devices: allocation_id, device_id
1, 7
2, 7

series: series_id, source, cluster, metric, labels
8, 's', 'c', 'DCGM_FI_DEV_XID_ERRORS', MAP {'UUID': 'g'}
9, 't', 'c', 'DCGM_FI_DEV_XID_ERRORS', MAP {'UUID': 'g'}

states: series_id, value, first_ms, last_ms
8, 0, 0, 28740000
9, 0, 30000, 28770000
8, 79, 8h, 20h
9, 79, 28830000, 20h
->
SELECT node_id, cause, code, uuid, allocation_ids, from_ms // 3600000, to_ms // 3600000, is_witnessed, detail \
FROM health_events ORDER BY ALL
1 | drained | - | - | [] | 6 | 7 | True | -
1 | drained | - | - | [] | 10 | 11 | True | DRAIN: replace fan
1 | drained | - | - | [] | 13 | 14 | True | DRAIN: replace fan
1 | off | - | - | [] | 11 | 12 | True | DRAIN: replace fan
1 | off | - | - | [] | 12 | 13 | True | DRAIN: replace fan
1 | slurm | - | - | [] | 2 | 3 | True | DOWN*: Not responding
1 | slurm | - | - | [] | 15 | 16 | True | DRAIN: Kill task failed
2 | not_offered | - | - | [] | 4 | 5 | True | -
2 | xid | 79 | g | [1] | 8 | 8 | True | -

= unavailable time is shared by the incidents of its hour, exactly
questions/failures/40_unavailable
params {"from_ms": 0, "to_ms": 86400000}
after store/sql/filters

hours: kind VARCHAR, allocation_id UBIGINT, node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, \
unallocated_gpu_ms DOUBLE, unavailable_gpu_ms DOUBLE, unallocated_cost MONEY
'unallocated', NULL, 1, 0, 1h, 7200000, 3600000, 2.000000001
'unallocated', 5, 1, 0, 1h, 7200000, 3600000, 8
'unallocated', NULL, 1, 1h, 2h, 3600000, 0, 8

incidents: incident_id BIGINT, node_id UBIGINT, sessions STRUCT(kind VARCHAR, number BIGINT)[]
1, 1, [{'kind': 'node', 'number': 1}]
2, 1, [{'kind': 'closed', 'number': 1}]
3, 1, []

incident_signs: node_id UBIGINT, kind VARCHAR, number BIGINT, cause VARCHAR, from_ms BIGINT, to_ms BIGINT, gpus DOUBLE
1, 'node', 1, 'not_offered', 0, 1200000, 4
1, 'closed', 1, 'cordoned', 1200000, 2h, 4
->
SELECT incident_id, round(unavailable_gpu_ms / 3600000, 6), unavailable_cost FROM incident_losses ORDER BY ALL
1 | 0.333333 | 0.333333334
2 | 0.666667 | 0.666666667
""".replace("<unseen>\n", UNSEEN)
    .replace("<two_nodes>\n", TWO_NODES)
    .replace("<steps>\n", STEPS)
)
