"""Rules of single SQL stages of nodes and of Slurm's jobs on them, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

# Slurm reservations, machines, jobs and closed nodes.
RESERVED = """\
slurm_reservations: cluster, name, from_ms, to_ms, nodes, accounts, flags
'c', 'r', 10, 90, ['n', 'elsewhere'], ['b', 'a', '-x', ''], []
'c', 'q', 80, NULL, ['n'], ['z'], []
'c', 'repair', 0, 200, ['n'], ['z'], ['MAINT']
'c', 's', 0, 10, ['o'], [], []

slurm_machines: node_id UBIGINT, cluster VARCHAR, node VARCHAR, gpu_count DOUBLE, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', 8, 0, 100
2, 'c', 'o', 4, 0, 100

allocated: allocation_id UBIGINT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, uid VARCHAR, node_id UBIGINT, \
resource VARCHAR, units DOUBLE, gpus DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT, workload_kind VARCHAR, \
workload VARCHAR

allocated: node_id, gpus, held_from_ms, held_to_ms
1, 3, 20, 40
1, 8, 70, 80
2, 4, 10, 100

closed_nodes: cluster, node, from_ms, to_ms
'c', 'n', 50, 60
'c', 'n', 50, 65
'c', 'o', 20, 30
"""

test_rule = rule_test(
    """
= a name is one machine at a time
inventory/20_node_lifetimes
fixture inventory

state_intervals: node, metric, value, labels, first_ms, last_ms, end_ms, cluster
'dated', 'kube_node_created', 0.1, NULL, 120, 190, 200, 'c'
'dated', 'kube_node_created', 0.1, NULL, 110, 112, 115, 'c'
'dated', 'kube_node_created', 0.18, NULL, 190, 290, 300, 'c'
'dated', 'kube_node_info', 1, MAP {'provider_id': 'i-0'}, 105, 110, 112, 'c'
'dated', 'kube_node_info', 1, MAP {'provider_id': 'i-1'}, 120, 175, 179, 'c'
'dated', 'kube_node_info', 1, MAP {'provider_id': '', 'system_uuid': 'i-2'}, 185, 295, 300, 'c'
'of no machine', 'kube_node_created', 0.2, NULL, 200, 250, 260, 'c'
'undated', 'kube_node_info', 1, MAP {'system_uuid': 'u-1'}, 10, 45, 50, 'c'
'undated', 'kube_node_info', 1, MAP {'system_uuid': 'u-2'}, 60, 85, 90, 'c'
'undated', 'kube_node_status_capacity', 8, NULL, 5, 30, 35, 'c'
'undated', 'kube_node_status_capacity', 8, NULL, 40, 90, 95, 'c'
'unnamed', 'kube_node_status_capacity', 8, NULL, 5, 90, 95, 'c'
'no node', 'kube_pod_info', 1, NULL, 5, 90, 95, 'c'
NULL, 'kube_node_created', 0.1, NULL, 120, 190, 200, 'c'
NULL, 'kube_node_status_capacity', 8, NULL, 120, 190, 200, 'c'
'dated', 'kube_node_status_capacity', 8, NULL, 5, 90, 95, 'other'
->
SELECT cluster, node, machine_id, created_ms, up_from_ms, up_to_ms FROM node_lifetimes ORDER BY ALL
c | dated | i-1 | 100 | 100 | 180
c | dated | i-2 | 180 | 180 | 300
c | of no machine | - | 200 | 200 | 260
c | undated | u-1 | - | 10 | 50
c | undated | u-2 | - | 60 | 90
c | unnamed | - | - | 5 | 95
other | dated | - | - | 5 | 95

SELECT count(DISTINCT node_id) FROM node_lifetimes
7

= a node was off from the start of a gap to its last boot in it
inventory/29_node_stops
fixture inventory

node_facts: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', 'i-1', 0, 1000
4, 'c', 'n', 'i-4', 1000, 2000
5, 'c', 'm', NULL, 0, 350
2, 'c', 'm', NULL, 400, 1000
3, 'd', 'n', 'i-3', 0, 1000

state_intervals: cluster, metric, node, value, labels
'c', 'kube_node_info', 'n', 0.7, MAP {'internal_ip': '10.0.0.1'}
'c', 'node_boot_time_seconds', NULL, 0.4, MAP {'instance': '10.0.0.1:9100'}
'c', 'node_boot_time_seconds', NULL, 0.5, MAP {'instance': '10.0.0.1:9100'}
'c', 'node_boot_time_seconds', NULL, 0.95, MAP {'instance': '10.0.0.1:9100'}
'c', 'node_boot_time_seconds', NULL, 0.6, MAP {'instance': 'm'}
'c', 'node_boot_time_seconds', NULL, 0.3, MAP {'instance': 'm'}
'c', 'node_boot_time_seconds', NULL, 0.7, MAP {'instance': '10.0.0.9:9100'}

coverage_gaps: cluster, from_ms, to_ms, kind
'c', 200, 900, 'bridged'
'c', 0, 1000, 'not_collected'
'c', 500, 900, 'bridged'

twofold_nodes: cluster VARCHAR, node VARCHAR, from_ms BIGINT, end_ms BIGINT
'c', 'n', 950, 1100
'c', 'n', 700, 800
'c', 'n', 2000, 2100
'c', 'm', 950, 990
->
SELECT node_id, from_ms, to_ms, reason FROM node_stops ORDER BY ALL
1 | 200 | 500 | boot
1 | 700 | 800 | mixed
1 | 950 | 1000 | mixed
2 | 400 | 600 | boot
2 | 500 | 600 | boot
4 | 1000 | 1100 | mixed
5 | 200 | 300 | boot

= a slurm node has its reported gpus, otherwise those of its jobs
inventory/20_slurm_machines
fixture inventory

loads: kind, source, from_ms, to_ms
'slurm', 'c', 0, 60
'slurm', 'c', 60, 100

settings: mig_share
'compute'

slurm_nodes: cluster, node, seen_ms, gres
'c', 'a', 1, 'gpu:8'
'c', 'a', 2, 'gpu:a100:4(S:0-1),gpu:h100:2,shard:16'
'c', 'm', 1, 'gpu:1g.5gb:10'
'c', 'x', 1, 'gpu:a100:2,gpu:a100_1g.5gb:14'
'c', 'cores', 1, ''

slurm_holdings: cluster VARCHAR, node VARCHAR, kind VARCHAR, type VARCHAR, units DOUBLE, from_ms BIGINT, to_ms BIGINT
'c', 'b', 'gpu', NULL, 2, 0, 10
'c', 'b', 'gpu', NULL, 3, 5, 20
'c', 'b', 'gpu', NULL, 4, 20, 30
'c', 'a', 'gpu', NULL, 1, 0, 10
'c', 'm', 'gpu', NULL, 1, 0, 10

gpu_aliases: alias VARCHAR, gpu_model VARCHAR
'a100', 'A100'

gpu_models: gpu_model VARCHAR, mig_slices DOUBLE

mig_profiles: gpu_model VARCHAR, profile VARCHAR, memory_slices INT, memory_slices_total INT

slurm_events: cluster, node, state, from_ms, to_ms
'c', 'a', 'IDLE+POWERED_DOWN', 30, 50
'c', 'b', 'DOWN', 30, 50

node_lifetimes: node_id UBIGINT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, created_ms BIGINT, \
up_from_ms BIGINT, up_to_ms BIGINT
->
SELECT node, kind, type, gpu_model, units, round(share, 6) FROM slurm_units ORDER BY ALL
a | gpu | a100 | A100 | 4 | 1
a | gpu | h100 | h100 | 2 | 1
a | gpu | - | A100 | 0 | 1
a | shard | - | A100 | 16 | 0.375
b | gpu | - | - | 5 | 1
m | gpu | 1g.5gb | - | 10 | 0.142857
m | gpu | - | - | 0 | 0.142857
x | gpu | a100 | A100 | 2 | 1
x | gpu | a100_1g.5gb | A100 | 14 | 0.142857

SELECT node, created_ms, gpu_model, up_from_ms, up_to_ms, gpu_count, machine_gpus FROM slurm_machines ORDER BY ALL
a | 50 | A100 | 50 | 100 | 4 | 6
a | 50 | h100 | 50 | 100 | 2 | 6
a | - | A100 | 0 | 30 | 4 | 6
a | - | h100 | 0 | 30 | 2 | 6
b | - | - | 0 | 100 | 5 | 5
m | - | - | 0 | 100 | 2 | 2
x | - | A100 | 0 | 100 | 4 | 4

= accounts of a reservation share its free gpus: True
inventory/42_slurm_reserved
fixture inventory

loads: kind
'slurm'

settings: charge_reservations
True

<reserved>
->
SELECT from_ms, to_ms, name, account, gpus FROM slurm_reserved ORDER BY ALL
0 | 10 | s |  | 4
10 | 20 | r | a | 4
10 | 20 | r | b | 4
20 | 40 | r | a | 2.5
20 | 40 | r | b | 2.5
40 | 50 | r | a | 4
40 | 50 | r | b | 4
65 | 70 | r | a | 4
65 | 70 | r | b | 4
80 | 90 | q | z | 8
90 | 100 | q | z | 8

SELECT sum(gpus * (held_to_ms - held_from_ms)), \
count(DISTINCT allocation_id) FROM allocated WHERE resource = 'reservation'
500 | 11

= accounts of a reservation share its free gpus: False
inventory/42_slurm_reserved
fixture inventory

loads: kind
'slurm'

settings: charge_reservations
False

<reserved>
->
SELECT from_ms, to_ms, name, account, gpus FROM slurm_reserved ORDER BY ALL
0 | 10 | s |  | 4
10 | 20 | r |  | 8
20 | 40 | r |  | 5
40 | 50 | r |  | 8
65 | 70 | r |  | 8
80 | 90 | q |  | 8
90 | 100 | q |  | 8

SELECT sum(gpus * (held_to_ms - held_from_ms)), \
count(DISTINCT allocation_id) FROM allocated WHERE resource = 'reservation'
500 | 7

= a job belongs to the account below the root
inventory/42_slurm_users
fixture inventory

loads: kind
'slurm'

allocated: allocation_id UBIGINT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, uid VARCHAR, node_id UBIGINT, \
resource VARCHAR, units DOUBLE, gpus DOUBLE, held_from_ms BIGINT, held_to_ms BIGINT, workload_kind VARCHAR, \
workload VARCHAR
1, 'c', 'leaf', NULL, '7@0/n', NULL, 'gpu', NULL, NULL, NULL, NULL, NULL, NULL
2, 'c', '', NULL, 'reservation/r//1@0', NULL, 'reservation', NULL, NULL, NULL, NULL, NULL, NULL
3, 'c', 'sub', NULL, 'reservation/r/sub/1@0', NULL, 'reservation', NULL, NULL, NULL, NULL, NULL, NULL
4, 'c', '', NULL, '8@0/n', NULL, 'gpu', NULL, NULL, NULL, NULL, NULL, NULL
5, 'c', 'leaf', NULL, 'a-pod', NULL, 'gpu', NULL, NULL, NULL, NULL, NULL, NULL
6, 'c', 'unknown', NULL, '7@0/m', NULL, 'gpu', NULL, NULL, NULL, NULL, NULL, NULL

slurm_runs: cluster, job_id, submit_ms, job, "user", partition, qos
'c', 7, 0, '7', 'u', 'p', 'q'
'c', 8, 0, '8', 'v', 'p', 'q'

slurm_accounts: cluster, account, parent
'c', 'root', NULL
'c', 'team', 'root'
'c', 'sub', 'team'
'c', 'leaf', 'sub'
->
FROM slurm_users ORDER BY allocation_id
1 | team | u | p | q
2 | - | - | - | -
3 | team | - | - | -
4 |  | v | p | q
6 | unknown | u | p | q
""".replace("<reserved>\n", RESERVED)
)
