"""Rules of single SQL stages of reports, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

_WORK = (
    "unit_work: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, model VARCHAR, tenant VARCHAR, day DATE,"
    " unit VARCHAR, amount DOUBLE, weight DOUBLE, failed DOUBLE"
)

test_rule = rule_test("""
= models of a workload share its cost and gpu time by their work
questions/units/60_serving

unit_cells: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, day DATE, team VARCHAR, gpu_model VARCHAR, \
partition VARCHAR, cost MONEY, idle_cost MONEY, allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE, is_selected BOOLEAN
'c', 'ns', 'w', '2026-10-01', 'red', 'L4', 'whole', 3, 2, 200, 20, true
'c', 'ns', 'w', '2026-10-01', 'red', 'A100', 'whole', 5, 2, 200, 20, true

unit_work: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, model VARCHAR, tenant VARCHAR, day DATE, \
unit VARCHAR, amount DOUBLE, weight DOUBLE, failed DOUBLE
'c', 'ns', 'w', 'a', NULL, '2026-10-01', 'generation_token', 10, 1, 0
'c', 'ns', 'w', 'b', NULL, '2026-10-01', 'generation_token', 30, 3, 0
->
SELECT model, gpu_model, partition, cost, idle_cost, allocated_gpu_ms, active_gpu_ms FROM unit_serving ORDER BY model
a | A100, L4 | whole | 2 | 1 | 100 | 10
b | A100, L4 | whole | 6 | 3 | 300 | 30

= a pod holds whole gpus, slices or shared ones
questions/units/20_cells
params {"from_ms": 0, "to_ms": 9, "teams": [], "namespaces": [], "clusters": [], "workloads": [], "users": []}
after store/sql/filters

unit_days: from_ms INT, to_ms INT, day VARCHAR
0, 9, '2026-10-01'

nodes: node_id, gpu_model, labels
1, 'A100', MAP {'label_nvidia_com_gpu_product': 'NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED'}
2, 'L4', MAP {'label_nvidia_com_gpu_product': 'NVIDIA-L4-SHARED'}

allocations: allocation_id, node_id, workload, resource, units, gpus, held_from_ms, held_to_ms
1, 2, 'Job/whole', 'nvidia_com_gpu', 2, 2, 0, 9
2, 1, 'Job/slice', 'nvidia_com_mig_3g_40gb', 1, 0.428571, 0, 9
3, 1, 'Job/alike', 'nvidia_com_gpu', 1, 0.142857, 0, 9
4, 2, 'Job/slot', 'nvidia_com_gpu', 1, 0.25, 0, 9
5, 2, 'Job/part', 'amd_com_cpx_nps4', 1, 0.125, 0, 9

hours: kind VARCHAR, node_id INT, allocation_id INT, from_ms INT, to_ms INT, team VARCHAR, allocated_gpu_ms DOUBLE, \
active_gpu_ms DOUBLE, idle_gpu_ms DOUBLE, unmeasured_gpu_ms DOUBLE, cost MONEY, idle_cost MONEY
'allocated', 2, 1, 0, 9, 't', 1, 1, 1, 1, 1, 1
'allocated', 1, 2, 0, 9, 't', 1, 1, 1, 1, 1, 1
'allocated', 1, 3, 0, 9, 't', 1, 1, 1, 1, 1, 1
'allocated', 2, 4, 0, 9, 't', 1, 1, 1, 1, 1, 1
'allocated', 2, 5, 0, 9, 't', 1, 1, 1, 1, 1, 1
->
SELECT workload, gpu_model, partition FROM unit_cells ORDER BY ALL
Job/alike | A100 | 1g.10gb
Job/part | L4 | cpx_nps4
Job/slice | A100 | 3g.40gb
Job/slot | L4 | shared
Job/whole | L4 | whole

= tenants share each cost of a model by its kind of tokens
questions/units/67_tenants
params {"keeps_idle": False}

unit_tokens: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, team VARCHAR, gpu_model VARCHAR, partition VARCHAR, \
model VARCHAR, day DATE, amounts MAP(VARCHAR, DOUBLE), \
prompt_cost MONEY, generation_cost MONEY, unserved_cost MONEY, idle_cost MONEY, \
cache_saved_cost MONEY, \
prompt_workloads VARCHAR[], generation_workloads VARCHAR[], weight DOUBLE, prompt_weight DOUBLE, \
allocated_gpu_ms DOUBLE, active_gpu_ms DOUBLE
'c', 'ns', 'w', 'red', 'L4', 'shared', 'm', '2026-10-01', MAP {'prompt_token': 20, 'generation_token': 40}, 4, 4, 0, 2, NULL, \
['w'], ['w'], 2, 1, 800, 80

unit_work: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, model VARCHAR, tenant VARCHAR, day DATE, \
unit VARCHAR, amount DOUBLE, weight DOUBLE, failed DOUBLE
'c', 'ns', 'w', 'm', 'a', '2026-10-01', 'prompt_token', 10, 1, 0
'c', 'ns', 'w', 'm', 'b', '2026-10-01', 'prompt_token', 10, 1, 0
'c', 'ns', 'w', 'm', 'a', '2026-10-01', 'generation_token', 10, 1, 0
'c', 'ns', 'w', 'm', 'b', '2026-10-01', 'generation_token', 30, 3, 0
->
SELECT tenant, gpu_model, partition, prompt_cost, generation_cost, cost, \
allocated_gpu_ms, active_gpu_ms FROM unit_tenants ORDER BY tenant
a | L4 | shared | 2 | 1 | 3 | 300 | 30
b | L4 | shared | 2 | 3 | 5 | 500 | 50

= a failed run saved only the progress of its own workload
questions/waste/20_pods
params {"forgotten_after_ms": 10}
known {"report_from_ms": 0, "report_to_ms": 100}

allocations: allocation_id, cluster, namespace, workload, pod, uid, node_id, gpus, held_from_ms, held_to_ms
1, 'c', 'ns', 'Job/a', 'a-0', 'ua', 7, 8, 0, 100
2, 'c', 'ns', 'Job/b', 'b-0', 'ub', 7, 8, 0, 100

allocation_traits: allocation_id, workload_type, failed
1, 'training', true
2, 'training', true

progress_series: series_id, cluster, namespace, workload, pod, unit, is_failure, kind
1, 'c', 'ns', NULL, 'a-0', 'epoch', false, 'event'

progress_values: series_id, at_ms, value
1, 60, 1
->
SELECT workload, lost_from_ms FROM waste_pods ORDER BY workload
Job/a | 60
Job/b | 0

= time before a pod ran has its part of the idle cost
questions/waste/30_held
known {"waste_by_gpus": False}
after store/sql/filters

waste_held_cells: node_id INT, allocation_id INT, team VARCHAR, time_bucket BIGINT, from_ms BIGINT, to_ms BIGINT, \
allocated_gpu_ms DOUBLE, idle_gpu_ms DOUBLE, active_gpu_ms DOUBLE, unmeasured_gpu_ms DOUBLE, cost MONEY, \
idle_cost MONEY
1, 5, 'red', 0, 0, 100, 100, 40, 60, 0, 50, 20

waste_pods: allocation_id INT, cluster VARCHAR, namespace VARCHAR, workload VARCHAR, workload_type VARCHAR, \
gpus DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT, started_ms BIGINT, lost_from_ms BIGINT, forgotten_from_ms BIGINT
5, 'c', 'ns', 'w', 'training', 1, 0, 100, 10, NULL, NULL

waste_serving: cluster VARCHAR, namespace VARCHAR, workload VARCHAR, from_ms BIGINT, idle_part DOUBLE, \
active_part DOUBLE
->
SELECT starting_gpu_ms, starting_cost, idle_gpu_ms, idle_cost, work_gpu_ms, work_cost FROM waste_held
10 | 5 | 30 | 15 | 60 | 30

= names beyond the limit are in one unnamed layer
questions/report/series/30_stack
params {"by": "team", "apart": True, "most": 1}
after store/sql/filters

series_rows: moment INT, kind VARCHAR, team VARCHAR, namespace VARCHAR, workload VARCHAR, cluster VARCHAR, \
gpu_model VARCHAR, capacity_type VARCHAR, cost MONEY, unallocated_cost MONEY, not_collected_cost MONEY
1, 'allocated', 'a', NULL, NULL, NULL, NULL, NULL, 8, 0, 0
1, 'allocated', 'b', NULL, NULL, NULL, NULL, NULL, 4, 0, 0
1, 'allocated', 'c', NULL, NULL, NULL, NULL, NULL, 2, 0, 0
1, 'allocated', 'd', NULL, NULL, NULL, NULL, NULL, 1, 0, 0
1, 'unallocated', NULL, NULL, NULL, NULL, NULL, NULL, 0, 16, 0
->
kind rank name names cost
named | 1 | a | 3 | 8
others | - | - | 3 | 7
unallocated | - | - | 3 | 16

= a gauge without a scrape interval is valid for a minute and minus one is unlimited
questions/queue/10_runs
params {"from_ms": 0, "to_ms": 3600000}

queue_series: series_id INT, source VARCHAR, queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), \
cohort VARCHAR, \
resource VARCHAR, part VARCHAR, gauge VARCHAR, leads BOOLEAN, divisor INT, labels MAP(VARCHAR, VARCHAR)
1, 's', {'cluster': 'c', 'scheduler': 'KAI', 'name': 'q'}, NULL, 'gpu', '', 'quota', true, 1, MAP {'job': 'kueue', \
'instance': 'i'}
2, 's', {'cluster': 'known', 'scheduler': 'KAI', 'name': 'q'}, NULL, 'gpu', '', 'quota', true, 1, \
MAP {'job': 'kueue', 'instance': 'i'}
3, 's', {'cluster': 'c', 'scheduler': 'KAI', 'name': 'q'}, NULL, NULL, NULL, NULL, true, 1, MAP {'job': 'kueue', \
'instance': 'i'}

states: series_id, value, first_ms, last_ms
1, 2, 0, 1000
2, -1, 0, 1000
3, 2, 0, 1000

scrape_gaps: source, cluster, job, instance, gap_ms
's', 'known', 'kueue', 'i', 15000
->
SELECT queue.cluster, value, from_ms, to_ms FROM queue_runs ORDER BY ALL
c | 2 | 0 | 61000
known | - | 0 | 16000

= volcano counts thousandths and a local queue has the name of its namespace
questions/queue/05_series
params {"clusters": ["c"], "metrics": [\
{"scheduler": "LocalQueue", "metric": "kueue_local_queue_resource_usage", "gauge": "used", "counter": None}, \
{"scheduler": "KAI", "metric": "kai_queue_allocated_gpus", "gauge": "used", "counter": None}, \
{"scheduler": "Kueue", "metric": "kueue_evicted_workloads_total", "gauge": None, "counter": "evicted"}, \
{"scheduler": "Volcano", "metric": "volcano_queue_pod_group_inqueue_count", "gauge": "pending", "counter": None}, \
{"scheduler": "Volcano", "metric": "volcano_queue_allocated_scalar_resources", "gauge": "used", "counter": None}]}
after store/sql/filters

series: series_id, source, cluster, metric, labels
1, 's', 'c', 'kueue_local_queue_resource_usage', MAP {'exported_namespace': 'n', 'namespace': 'kueue-system', \
'name': 'q', 'flavor': 'f', 'resource': 'r'}
2, 's', 'c', 'kai_queue_allocated_gpus', MAP {'queue_name': 'q'}
3, 's', 'c', 'kueue_evicted_workloads_total', MAP {'cluster_queue': 'q', 'reason': 'Preempted', \
'replica_role': 'follower'}
4, 's', 'c', 'volcano_queue_pod_group_inqueue_count', MAP {'queue_name': 'q'}
5, 's', 'c', 'volcano_queue_allocated_scalar_resources', MAP {'queue_name': 'q', 'resource': 'r'}
6, 's', 'other', 'kai_queue_allocated_gpus', MAP {'queue_name': 'q'}
->
SELECT series_id, queue.scheduler, queue.name, gauge, counter, resource, part, divisor, \
leads FROM queue_series ORDER BY ALL
1 | LocalQueue | n/q | used | - | r | f | 1 | True
2 | KAI | q | used | - | gpu |  | 1 | True
3 | Kueue | q | - | evicted | - |  | 1 | False
4 | Volcano | q | pending | - | - | inqueue | 1 | True
5 | Volcano | q | used | - | r |  | 1000 | True

= a waiting pod of a local queue is in the cluster queue of the other pods
questions/queue/42_queue_pods

series: series_id, source, cluster, metric, labels
1, 's', 'c', 'kube_pod_labels', MAP {'uid': 'a', 'namespace': 'n', 'label_kueue_x_k8s_io_queue_name': 'q'}
2, 's', 'c', 'kube_pod_labels', MAP {'uid': 'b', 'namespace': 'n', 'label_kueue_x_k8s_io_queue_name': 'q'}
3, 's', 'c', 'kube_pod_labels', MAP {'uid': 'b', 'namespace': 'n', 'label_kueue_x_k8s_io_local_queue_name': 'q', \
'label_kueue_x_k8s_io_cluster_queue_name': 'cq'}
4, 's', 'c', 'kube_pod_labels', MAP {'uid': 'd', 'namespace': 'm', 'label_runai_queue': 'k', \
'label_volcano_sh_queue_name': 'v'}
5, 's', 'c', 'kube_pod_info', MAP {'uid': 'e', 'namespace': 'm', 'label_runai_queue': 'k'}
->
SELECT uid, queue.scheduler, queue.name FROM queue_pods ORDER BY ALL
a | Kueue | cq
a | LocalQueue | n/q
b | Kueue | cq
b | LocalQueue | n/q
d | KAI | k
d | Volcano | v

= the peak usage of a queue is limited to the period
questions/queue/50_sums
params {"from_ms": 100, "to_ms": 400, "since_ms": 100, "half_life_ms": 100}

queue_parts: queue VARCHAR, resource VARCHAR, from_ms BIGINT, to_ms BIGINT, quota DOUBLE, used DOUBLE, pending DOUBLE
'q', 'gpu', 0, 100, 8, 9, 5
'q', 'gpu', 100, 200, 6, 4, 4
'q', 'gpu', 200, 400, 6, 7, 1
->
SELECT quota_last, used_average, used_p95, used_max, borrowed_max, pending_average, pending_max FROM queue_sums
6 | 6 | 7 | 7 | 1 | 2 | 4

= a request of half an hour costs the free gpus of that half hour
questions/queue/48_waiting

queue_models: cluster VARCHAR, queue_id UBIGINT, is_local BOOLEAN, gpu_model VARCHAR, share DOUBLE
'c', 1, false, 'M', 1
'c', 2, false, 'M', 0.5
'c', 2, false, 'N', 0.5
'c', 3, true, 'M', 1

free_gpus: cluster VARCHAR, gpu_model VARCHAR, hour BIGINT, from_ms BIGINT, to_ms BIGINT, capacity DOUBLE, gpus DOUBLE, \
free_price DOUBLE, held_price DOUBLE
'c', 'M', 0, 0, 1800000, 8, 8, 2, 1
'c', 'M', 0, 1800000, 3600000, 8, 3, 2, 1
'c', 'N', 0, 0, 3600000, 1, 0, NULL, 4

queue_levels: queue_id UBIGINT, queue STRUCT(cluster VARCHAR), from_ms BIGINT, to_ms BIGINT, \
hour BIGINT, wanted DOUBLE
1, {'cluster': 'c'}, 1800000, 3600000, 0, 4
2, {'cluster': 'c'}, 1800000, 3600000, 0, 2
2, {'cluster': 'c'}, 1800000, 2700000, 0, 2
3, {'cluster': 'c'}, 1800000, 3600000, 0, 2
->
SELECT queue_id, from_ms, to_ms, gpus, free, free_cost, held_price FROM waiting_gpus ORDER BY ALL
1 | 1800000 | 2700000 | 4 | 2 | 4 | 1
1 | 2700000 | 3600000 | 4 | 2.4 | 4.8 | 1
2 | 1800000 | 2700000 | 3 | 1 | 2 | 2
2 | 2700000 | 3600000 | 2 | 0.6 | 1.2 | 2.5
3 | 1800000 | 2700000 | 2 | 2 | 4 | 1
3 | 2700000 | 3600000 | 2 | 2 | 4 | 1

= counters that are first collected late count from their first value
questions/queue/40_rises
params {"from_ms": 0, "to_ms": 36000000}

queue_series: series_id INTEGER, source VARCHAR, labels MAP(VARCHAR, VARCHAR), gauge VARCHAR, counter VARCHAR, \
queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR)
1, 's', MAP {}, 'pending', NULL, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'q'}
2, 's', MAP {'reason': 'old'}, NULL, 'evicted', {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'q'}
3, 's', MAP {'reason': 'new'}, NULL, 'evicted', {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'q'}
4, 's', MAP {}, NULL, 'count', {'cluster': 'c', 'scheduler': 'LocalQueue', 'name': 'n/q'}
5, 's', MAP {}, NULL, 'count', {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'q'}

states: series_id, value, first_ms, last_ms
1, 0, 0, 5h
2, 500, 2h, 5h
3, 1, 3h, 5h
4, 900, 2h, 5h
5, 7, 2h, 5h

loads: source, from_ms, to_ms
's', 0, 2h
's', 2h, 5h
->
SELECT queue.scheduler, counter, upper, rise FROM queue_rises ORDER BY ALL
Kueue | count | - | 7
Kueue | evicted | new | 1
Kueue | evicted | old | 0
LocalQueue | count | - | 0

= pending gpus are never negative
questions/queue/30_parts

queue_edges: queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), resource VARCHAR, \
part VARCHAR, at_ms BIGINT, next_ms BIGINT
{'cluster': 'c', 'scheduler': 'Volcano', 'name': 'v'}, 'gpu', '', 0, 10
{'cluster': 'c', 'scheduler': 'Volcano', 'name': 'v'}, 'gpu', '', 10, 20

queue_runs: series_id INTEGER, queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), cohort VARCHAR, resource VARCHAR, \
part VARCHAR, gauge VARCHAR, leads BOOLEAN, value DOUBLE, from_ms BIGINT, to_ms BIGINT
1, {'cluster': 'c', 'scheduler': 'Volcano', 'name': 'v'}, NULL, 'gpu', '', 'requested', true, 8, 0, 10
1, {'cluster': 'c', 'scheduler': 'Volcano', 'name': 'v'}, NULL, 'gpu', '', 'requested', true, 2, 10, 20
2, {'cluster': 'c', 'scheduler': 'Volcano', 'name': 'v'}, NULL, 'gpu', '', 'used', true, 4, 0, 20
->
SELECT from_ms, wanted FROM queue_parts ORDER BY ALL
0 | 4
10 | 0

= metrics of requests replace pods and slices are parts of gpus
questions/queue/46_levels
params {"from_ms": 1800000, "to_ms": 7200000, "clusters": ["c"]}
after store/sql/filters

allocations: cluster VARCHAR, resource VARCHAR, gpus DOUBLE, units DOUBLE
'c', 'nvidia_com_mig_1g_5gb', 2, 14

queue_models: queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), gpu_model VARCHAR, share DOUBLE
{'cluster': 'c', 'scheduler': 'KAI', 'name': 'leaf'}, 'M', 1

queue_pods: cluster VARCHAR, uid VARCHAR, queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR)
'c', 'p', {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}
'c', 'p', {'cluster': 'c', 'scheduler': 'LocalQueue', 'name': 'n/q'}

pending_pods: cluster VARCHAR, uid VARCHAR, gpus DOUBLE, from_ms BIGINT, to_ms BIGINT
'c', 'p', 3, 0, 9000000

queue_parts: queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), cohort VARCHAR, resource VARCHAR, \
part VARCHAR, from_ms BIGINT, to_ms BIGINT, quota DOUBLE, used DOUBLE, wanted DOUBLE
{'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, 'g', 'nvidia.com/mig-1g.5gb', 'f', 0, 3600000, 14, 21, 7
{'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, 'g', 'gpu', 'one', 0, 3600000, 4, 4, NULL
{'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, 'g', 'gpu', 'two', 0, 3600000, 4, 0, NULL
{'cluster': 'c', 'scheduler': 'Kueue', 'name': 'alone'}, NULL, 'gpu', 'f', 0, 3600000, 4, 1, NULL
{'cluster': 'c', 'scheduler': 'KAI', 'name': 'leaf'}, NULL, 'gpu', '', 0, 3600000, 4, NULL, NULL
{'cluster': 'c', 'scheduler': 'KAI', 'name': 'parent'}, NULL, 'gpu', '', 0, 3600000, 4, 1, NULL
{'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, NULL, NULL, 'active', 0, 3600000, NULL, NULL, NULL
->
SELECT queue.name, from_ms, to_ms, hour, wanted, unused, pool IS NOT NULL, (SELECT count(DISTINCT pool) FROM queue_levels) \
FROM queue_levels ORDER BY ALL
a | 1800000 | 3600000 | 0 | 1 | -1 | True | 4
a | 1800000 | 3600000 | 0 | - | 0 | True | 4
a | 1800000 | 3600000 | 0 | - | 4 | True | 4
alone | 1800000 | 3600000 | 0 | - | 3 | False | 4
leaf | 1800000 | 3600000 | 0 | - | - | True | 4
n/q | 1800000 | 3600000 | 0 | 3 | - | False | 4
n/q | 3600000 | 7200000 | 1 | 3 | - | False | 4
parent | 1800000 | 3600000 | 0 | - | 3 | False | 4

= a free gpu costs no more than the available part of its hour
questions/queue/44_free_gpus
params {"from_ms": 0, "to_ms": 3600000}

nodes: node_id UBIGINT, cluster VARCHAR, gpu_model VARCHAR, gpu_count DOUBLE, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'M', 4, 0, 7200000
2, 'c', 'N', 1, 0, 7200000

allocations: allocation_id UBIGINT, cluster VARCHAR, node_id UBIGINT, gpus DOUBLE, held_from_ms BIGINT, \
held_to_ms BIGINT
1, 'c', 1, 2, 1800000, 9000000

cost_runs: kind, from_ms, to_ms, hours, node_id, allocation_id, team, gpu_ms, unavailable_gpu_ms, cost, estimated_cost
'unallocated', 0, 3600000, 1, 1, NULL, NULL, 10800000, 2700000, 10.8, 0
'allocated', 0, 3600000, 1, 1, 1, 'x', 3600000, 0, 7.2, 0
'unallocated', 0, 3600000, 1, 2, NULL, NULL, 3600000, 0, 3.6, 0
->
SELECT gpu_model, from_ms, to_ms, gpus, round(free_price * 1000000, 6), round(held_price * 1000000, \
6) FROM free_gpus ORDER BY ALL
M | 0 | 1800000 | 3 | 1 | 2
M | 1800000 | 3600000 | 1.5 | 1 | 2
N | 0 | 3600000 | 1 | 1 | 1

= queues share quotas of a flavor with the queues of their cohort
questions/queue/67_pairs
params {"queues": []}
after store/sql/filters

waiting_gpus: queue_id UBIGINT, hour BIGINT, from_ms BIGINT, to_ms BIGINT, gpus DOUBLE, free DOUBLE, \
free_cost DOUBLE, held_price DOUBLE
1, 0, 0, 3600000, 6, 2, 4, 1
2, 0, 0, 3600000, 6, 3, 6, 1

queue_levels: queue_id UBIGINT, queue STRUCT(cluster VARCHAR, scheduler VARCHAR, name VARCHAR), pool INT, \
from_ms BIGINT, to_ms BIGINT, hour BIGINT, unused DOUBLE
1, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, 1, 0, 3600000, 0, 1
1, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'a'}, 2, 0, 3600000, 0, 0
2, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'b'}, 1, 0, 3600000, 0, 3
3, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'd'}, 1, 0, 3600000, 0, -2
3, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'd'}, 2, 0, 3600000, 0, 8
4, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'e'}, 3, 0, 3600000, 0, 9
5, {'cluster': 'c', 'scheduler': 'Kueue', 'name': 'f'}, NULL, 0, 3600000, 0, 9
->
cluster_queue other_queue quota gpu_hours cost
a | d | idle | 1 | 7200000
a | b | idle | 0.75 | 5400000
b | a | idle | 0.75 | 5400000
b | d | borrowed | 1.5 | 5400000
a | d | borrowed | 0.5 | 1800000

= a job of slurm is counted by partition qos and account
questions/queue/70_slurm_waits
params {"from_ms": 100000, "to_ms": 200000, "clusters": []}
after store/sql/filters

slurm_runs: job_id, submit_ms, eligible_ms, start_ms, state, account, cluster, partition, qos, alloc_tres
7, 105000, 115000, 125000, 'PREEMPTED', 'a', 'c', 'p', 'q', 'gres/gpu=1'
8, 100000, NULL, 100000, 'COMPLETED', 'b', 'c', 'p', 'q', 'gres/gpu=1'
9, 50000, NULL, 90000, 'RUNNING', 'c', 'c', 'p', 'q', 'gres/gpu=1'
10, 150000, NULL, 200000, 'RUNNING', 'a', 'c', 'p', 'q', 'gres/gpu=1'
11, 120000, NULL, 130000, 'PREEMPTED', 'a', 'c', 'p', 'q', 'gres/gpu=1'
12, 100000, NULL, 110000, 'PREEMPTED', 'd', 'c', 'p', 'q', 'gres/gpu=1'
13, 100000, NULL, 110000, 'COMPLETED', 'a', 'c', 'p', 'q', 'cpu=1'

allocations: allocation_id, cluster, uid, account
1, 'c', '7@105000/x', 'a'
2, 'c', '9@50000/y', 'c'
3, 'c', '12@100000/y', 'd'

hours: allocation_id INT, allocated_gpu_ms DOUBLE, cost MONEY
1, 1h, 3
1, 1h, 1
2, 1h, 5
3, 1h, 2
->
cluster by name started wait_p50_seconds wait_p95_seconds eligible_wait_p50_seconds eligible_wait_p95_seconds \
gpu_hours cost preempted preempted_cost
c | account | c | 0 | - | - | - | - | 1 | 5 | 0 | 0
c | account | a | 2 | 15 | 19.5 | 10 | 10 | 2 | 4 | 1 | 4
c | account | d | 1 | 10 | 10 | 10 | 10 | 1 | 2 | 1 | 2
c | account | b | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
c | partition | p | 4 | 10 | 18.499999999999996 | 10 | 10 | 4 | 11 | 2 | 6
c | qos | q | 4 | 10 | 18.499999999999996 | 10 | 10 | 4 | 11 | 2 | 6

= nodes without pods of the filter are not explained
questions/explain/20_nodes

nodes: node_id, cluster, node
1, 'c', 'a'
2, 'c', 'b'

cost_rows: node_id INT, kind VARCHAR, allocated_gpu_ms DOUBLE, cost MONEY, estimated_cost MONEY
1, 'allocated', 10, 3, 1
1, 'unallocated', 0, 0, 2
2, 'unallocated', 0, 0, 2

report_cost_cells: node_id INT, cost MONEY, unallocated_cost MONEY, not_collected_cost MONEY
1, 5, 0, 0
1, 0, 2, 1
2, 0, 2, 0

report_node_cells: node_id INT, price_source VARCHAR, node_cost MONEY
1, 'book', 8
2, 'book', 2
->
node cost estimated_cost others_cost unallocated_cost not_collected_cost node_cost
a | 3 | 1 | 2 | 2 | 1 | 8

= a whole amount keeps the digits that a part may lose
questions/report/api_cost/05_macros


->
SELECT money_until(123456789.123456789::DECIMAL(38, 9), share)::VARCHAR FROM unnest([0, 1, 1.5]::DOUBLE[]) AS s(share)
0.000000000
123456789.123456789
123456789.123456789

= bought tokens of a team are the sum of their rows
questions/report/api_cost/60_api_sums
params {"by": ["team"]}
after store/sql/filters

api_rows: team VARCHAR, provider VARCHAR, model VARCHAR, source VARCHAR, api_cost INT, commitment_cost INT, \
prompt_tokens INT, cached_tokens INT, generation_tokens INT, month INT, day INT, hour INT
'a', 'aws', 'm', 's', 2, 1, 20, 2, 10, 0, 0, 0
'a', 'aws', 'm', 's', 3, 1, 30, 3, 15, 0, 0, 0
'b', 'aws', 'm', 's', 7, 0, 1, 1, 1, 0, 0, 0
->
team api_cost commitment_cost prompt_tokens cached_tokens generation_tokens
b | 7 | 0 | 1 | 1 | 1
a | 5 | 2 | 50 | 5 | 25

= a part with cost but no gpu time is listed and one with neither is not
questions/waste/50_waste_rows
known {"filters": {"teams": [], "namespaces": [], "clusters": [], "workloads": [], "users": []}}
after store/sql/filters

waste_held: node_id INT, allocation_id INT, team VARCHAR, time_bucket BIGINT, starting_gpu_ms DOUBLE, \
starting_cost MONEY, beyond_gpu_ms DOUBLE, beyond_cost MONEY, idle_gpu_ms DOUBLE, idle_cost MONEY, \
unmeasured_gpu_ms DOUBLE, unmeasured_cost MONEY, surplus_gpu_ms DOUBLE, surplus_cost MONEY, lost_gpu_ms DOUBLE, \
lost_cost MONEY, work_gpu_ms DOUBLE, work_cost MONEY, host_cost MONEY
1, 5, 'red', 0, 0, 0, 0, 0, 10, 0, 0, 0, 0.5, 0, 0, 0, 0.5, 2, 3

waste_free: node_id INT, time_bucket BIGINT, unavailable_gpu_ms DOUBLE, unavailable_cost MONEY, \
fragmentation_gpu_ms DOUBLE, fragmentation_cost MONEY, empty_node_gpu_ms DOUBLE, empty_node_cost MONEY, \
between_jobs_gpu_ms DOUBLE, between_jobs_cost MONEY, host_cost MONEY
1, 0, 0, 0, 20, 4, 0, 0, 0, 0, 0

waste_cells: node_id INT, time_bucket BIGINT, kind VARCHAR, allocation_id INT, unallocated_gpu_ms DOUBLE, \
unallocated_cost MONEY

waste_pods: allocation_id INT, namespace VARCHAR, workload VARCHAR, workload_type VARCHAR, resource VARCHAR, \
pod VARCHAR, uid VARCHAR
5, 'ns', 'Job/w', 'training', 'gpu', 'p', 'u'

allocations: allocation_id
5

nodes: node_id, cluster, node
1, 'c', 'n'

time_buckets: from_ms BIGINT, month VARCHAR, day VARCHAR, hour VARCHAR
0, NULL, NULL, NULL

label_spans: node_id INT, allocation_id INT, labels MAP(VARCHAR, VARCHAR), from_ms BIGINT, to_ms BIGINT, is_selected BOOLEAN
->
SELECT bucket, gpu_ms, cost, team FROM waste_rows ORDER BY bucket
active | 0.5 | 2 | red
cpu_memory | 0 | 3 | red
data_stall | 10 | 0 | red
fragmentation | 20 | 4 | -

= progress belongs to the pod that held gpus nearest in time
# Two workloads had a pod of this name; the value is two minutes after the first and a minute before the second.
questions/units/70_runs
params {"from_ms": 0, "to_ms": 6600000}
after questions/units/30_candidates

progress_series: series_id, identity, source, mapping, unit, kind, marks, resumes, is_failure, pod
1, 1, 's', 'm', 'epoch', 'gauge', 'end', false, false, 'p'

progress_values: series_id, at_ms, value
1, 6000000, 3

allocations: allocation_id, cluster, namespace, workload, pod, held_from_ms, held_to_ms
1, 'c', 'n', 'Job/a', 'p', 0, 5880000
2, 'c', 'n', 'Job/b', 'p', 6060000, 6600000

allocation_traits: allocation_id

collected: cluster

loads: kind

unit_run_places: run_id VARCHAR, source VARCHAR, name VARCHAR, parent_id VARCHAR, planned_epochs DOUBLE, \
started_ms BIGINT, ended_ms BIGINT, status VARCHAR
->
workload levels
Job/b | [3.0]

= levels stored twice alternate like others
questions/report/35_processes
params {"from_ms": 0, "to_ms": 100}

progress_series: series_id, identity, source, mapping, kind, labels
1, 7, 's', 'requests', 'counter', MAP {}

progress_values: series_id, at_ms, value
1, 1, 100
1, 2, 100
1, 3, 50
1, 4, 50
1, 5, 101
1, 6, 101
1, 7, 51
1, 8, 51
1, 9, 102
1, 10, 102
1, 11, 52
1, 12, 52
1, 13, 103
->
series_id levels
1 | [100.0, 50.0, 101.0, 51.0, 102.0, 52.0, 103.0]

= a copy of a counter that falls slightly later adds nothing
questions/units/40_increases
params {"units": ["request"], "from_ms": 0, "to_ms": 1000000}

progress_series: series_id, identity, source, unit, kind
1, 7, 'a', 'request', 'counter'
2, 7, 'b', 'request', 'counter'

progress_values: series_id, at_ms, value
1, 1, 100
1, 120000, 100
1, 180000, 5
1, 300000, 5
2, 1, 100
2, 180000, 100
2, 240000, 5
2, 300000, 5

unit_processes: series_id INT, at_ms BIGINT, identity UBIGINT, process INT

unit_candidates: series_id INT, held_from_ms BIGINT

loads: kind
->
SELECT sum(amount) AS amount FROM unit_increases
5
""")
