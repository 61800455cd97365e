"""Rules of the SQL stages of findings, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

test_rule = rule_test("""
= free GPUs by model, with the most that pods held at once
questions/findings/free_gpus
params {"from_ms": 0, "to_ms": 100}

nodes: node_id, cluster, node, provider, instance_type, gpu_model, capacity_type
1, 'c', 'a', 'aws', 'p5', 'H100', 'on_demand'
2, 'c', 'b', 'aws', 'p5', 'H100', 'on_demand'
3, 'c', 'own', NULL, NULL, NULL, 'on_demand'
4, 'c', 'mixed', NULL, NULL, 'H100', 'spot'
5, 'c', 'mixed', 'aws', 'p5', 'H100', 'spot'

allocations: allocation_id, node_id, gpus, held_from_ms, held_to_ms
1, 1, 2.5, -50, 40
2, 2, 3, 30, 200
3, 2, 3.2, 60, 90
4, 3, 1, 0, 100

waste_rows: cluster VARCHAR, node VARCHAR, gpu_model VARCHAR, capacity_type VARCHAR, bucket VARCHAR, \
allocation_id INT, gpu_ms DOUBLE, cost MONEY
'c', 'a', 'H100', 'on_demand', 'empty_node', NULL, 10, 1
'c', 'a', 'H100', 'on_demand', 'empty_node', NULL, 5, 3
'c', 'b', 'H100', 'on_demand', 'empty_node', NULL, 5, 0.5
'c', 'a', 'H100', 'on_demand', 'empty_node', 7, 50, 50
'c', 'own', NULL, 'on_demand', 'empty_node', NULL, 4, 0
'c', 'mixed', 'H100', 'spot', 'reserved', NULL, 2, 2
->
cluster gpu_model capacity_type bucket is_own nodes gpu_ms cost largest peak_gpus
c | | on_demand | empty_node | True | 1 | 4 | 0 | own | 1
c | H100 | on_demand | empty_node | False | 2 | 20 | 4.5 | a | 7
c | H100 | spot | reserved | False | 1 | 2 | 2 | mixed | 0

= workloads with their GPUs, cost, waste and usage
questions/findings/workloads
params {"from_ms": 0, "to_ms": 14400000}
known {"waste_has_services": True}
after store/sql/filters

nodes: node_id, cluster, node, capacity_type
1, 'c', 'a', 'on_demand'
2, 'c', 'b', 'spot'

allocations: allocation_id, cluster, namespace, workload, gpus, held_from_ms, held_to_ms
1, 'c', 'ns', 'Deployment/w', 4, -100, 2h
2, 'c', 'ns', 'Deployment/w', 2, 1h, 3h
3, 'c', 'ns', 'Job/other', 1, 2h, 9h
4, 'c', 'ns', 'Job/none', 0, 0, 1h

allocation_traits: allocation_id, workload_type
1, 'inference'
2, 'inference'

hours: kind VARCHAR, allocation_id INT, node_id INT, team VARCHAR, from_ms BIGINT, to_ms BIGINT, cost MONEY, \
idle_cost MONEY, allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE, idle_gpu_ms DOUBLE, utilization_gpu_ms DOUBLE
'allocated', 1, 1, 'red', 0, 1h, 4, 1, 40, 30, 10, 20
'allocated', 1, 1, 'red', 1h, 2h, 4, 4, 40, 0, 40, 0
'allocated', 2, 2, 'blue', 1h, 2h, 2, 1, 20, 10, 10, 5
'allocated', 2, 2, 'blue', 2h, 3h, 1, 1, 20, 0, 20, 0
'allocated', 3, 1, 'red', 2h, 3h, 7, 0, 10, 10, 0, 10
'allocated', 4, 1, 'red', 0, 1h, 0, 0, 0, 0, 0, 0
'unallocated', 1, 1, NULL, 0, 1h, 100, 0, 0, 0, 0, 0

cost_runs: kind, allocation_id, node_id, team, from_ms, to_ms, hours, gpu_ms, cost
'allocated', 1, 1, 'red', 0, 1h, 2, 40, 4
'allocated', 2, 2, 'blue', 1h, 2h, 1, 20, 2
'allocated', 2, 2, 'blue', 2h, 3h, 1, 20, 1
'allocated', 3, 1, 'red', 2h, 3h, 1, 10, 7
'allocated', 4, 1, 'red', 0, 1h, 1, 0, 0
'unallocated', 1, 1, NULL, 0, 1h, 1, 0, 100

activity_hours: allocation_id, run_from_ms, from_ms, measured_gpu_ms, idle_gpu_ms, utilization_gpu_ms
1, 0, 0, 40, 10, 20
1, 0, 1h, 40, 40, 0
2, 1h, 1h, 20, 10, 5
2, 2h, 2h, 20, 20, 0
3, 2h, 2h, 10, 0, 10

waste_rows: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, bucket VARCHAR, allocation_id INT, gpu_ms DOUBLE, \
cost MONEY
'c', 'ns', 'Deployment/w', 'idle', 1, 30, 3
'c', 'ns', 'Deployment/w', 'idle', 2, 10, 1
'c', NULL, NULL, 'empty_node', NULL, 99, 9

activity_devices: allocation_id INT, series_id INT, kind VARCHAR, scale DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT
1, 1, 'activity', 0.01, 0, 2h
1, 2, 'memory', 1, 0, 2h

activity_use: allocation_id INT, is_used BOOLEAN
1, true
1, true
1, true
1, false
2, false
2, false
3, true

blocks: series_id, hour, value_sum, samples
1, 0, 100, 2
1, 1, 200, 4
1, 2, 900, 10
2, 0, 9000, 1
->
workload team workload_type gpus_per_pod from_ms to_ms held_gpu_ms active_gpu_ms idle_gpu_ms utilization_gpu_ms \
active_to_ms
Deployment/w | blue | inference | 4 | 0 | 10800000 | 120 | 40 | 80 | 25 | 7200000
Job/other | red | other | 1 | 7200000 | 14400000 | 10 | 10 | 0 | 10 | 10800000

workload nodes cost on_demand_gpu_ms most_pods p95 asked most_used unused_gpu_ms
Deployment/w | ['a', 'b'] | 11 | 80 | 2 | 0.5 | 4 | 3 | 20
Job/other | ['a'] | 7 | 10 | 1 | - | - | - | 0

= buckets and active hours belong to their workload
questions/findings/workloads
params {"from_ms": 0, "to_ms": 3600000}
known {"waste_has_services": True}
after store/sql/filters

nodes: node_id, cluster, node, capacity_type
1, 'c', 'a', 'on_demand'

allocations: allocation_id, cluster, namespace, workload, gpus, held_from_ms, held_to_ms
1, 'c', 'ns', 'Deployment/w', 1, 0, 1h
2, 'c', 'ns', 'Job/other', 1, 0, 1h

allocation_traits: allocation_id, workload_type
1, 'inference'

hours: kind VARCHAR, allocation_id INT, node_id INT, team VARCHAR, from_ms BIGINT, to_ms BIGINT, cost MONEY, \
idle_cost MONEY, allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE, idle_gpu_ms DOUBLE, utilization_gpu_ms DOUBLE
'allocated', 1, 1, 'red', 0, 1h, 4, 1, 40, 30, 10, 20
'allocated', 2, 1, 'red', 0, 1h, 4, 0, 40, 40, 0, 20

cost_runs: kind, allocation_id, node_id, team, from_ms, to_ms, hours, gpu_ms, cost
'allocated', 1, 1, 'red', 0, 1h, 1, 40, 4
'allocated', 2, 1, 'red', 0, 1h, 1, 40, 4

activity_hours: allocation_id, run_from_ms, from_ms, measured_gpu_ms, idle_gpu_ms, utilization_gpu_ms
1, 0, 0, 40, 10, 20
2, 0, 0, 40, 0, 20

waste_rows: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, bucket VARCHAR, allocation_id INT, gpu_ms DOUBLE, \
cost MONEY
'c', 'ns', 'Job/other', 'idle', 2, 30, 3
'c', 'ns', 'Job/other', 'idle', 2, 10, 1

activity_devices: allocation_id INT, series_id INT, kind VARCHAR, scale DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT

activity_use: allocation_id INT, is_used BOOLEAN

blocks: series_id
->
workload buckets hours
Deployment/w | {} | [{'hour': 0, 'active_gpu_ms': 30.0, 'idle_gpu_ms': 10.0}]
Job/other | {'idle': (40.0, Decimal('4.000000000'))} | []
""")
