"""Rules of single SQL stages of the inventory, over tables of a few rows."""

from __future__ import annotations

from gpucost.config.model import Config, Team, WorkloadTypeRule
from gpucost.inventory import stage
from tests.text_tables import text_rows
from tests.unit.stage_tables import Tables, rule_test

test_rule = rule_test("""
= a pod ran on the first of two nodes of a name
inventory/33_pod_nodes

pods: cluster VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT
'c', 'u', 'n', 10, 90

node_facts: node_id INT, cluster VARCHAR, node VARCHAR, created_ms BIGINT, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', NULL, 0, 50
2, 'c', 'n', NULL, 60, 100
->
FROM pod_nodes
c | u | 1 | 10 | 50

= a node that started when a pod ended did not run it
inventory/38_unlisted_holdings
fixture inventory

pods: cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT
'c', 'ns', 'u', 'n', 10, 50

pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE
'c', 'u', 'x_org_y', 2

share_hints: hint VARCHAR
'x_org_y'

node_traits: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, created_ms BIGINT, up_from_ms BIGINT, \
up_to_ms BIGINT, provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, capacity_type VARCHAR, \
gpu_model VARCHAR, gpu_count DOUBLE, labels MAP(VARCHAR, VARCHAR)
1, 'c', 'n', NULL, NULL, 0, 50, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
2, 'c', 'n', NULL, NULL, 50, 90, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL

state_intervals: cluster, node, metric, resource, value, first_ms, last_ms
'c', 'n', 'kube_node_status_capacity', 'x_org_y', 8, 0, 40

collected: cluster, from_ms, to_ms
'c', 0, 100
->
SELECT node_id, units, part, from_ms, to_ms FROM unlisted_holdings
1 | 2 | 0.25 | 10 | 50

SELECT node_id FROM unlisted_nodes
1

= a sample of a target is valid for its scrape interval
inventory/11_state_intervals
fixture inventory

series: series_id, source, cluster, metric, labels
0, 's', 'c', 'kube_node_info', MAP {'job': 'a', 'instance': 'i', 'node': 'n'}
1, 's', 'c', 'kube_node_info', MAP {'job': 'a', 'instance': 'j', 'node': 'n'}
2, 's', 'c', 'kube_node_info', MAP {'job': 'b', 'instance': 'i', 'node': 'n'}

states: series_id, value, first_ms, last_ms
0, 1, 1h, 3601000
1, 1, 1h, 3601000
2, 1, 1h, 3601000

scrape_gaps: source, cluster, job, instance, hour, gap_ms
's', 'c', 'a', 'i', 1, 15000
->
SELECT labels['job'], labels['instance'], first_ms - begin_ms, end_ms - last_ms FROM state_intervals ORDER BY ALL
a | i | 15000 | 15000
a | j | 15000 | 15000
b | i | 60000 | 60000

= a node with zero capacity of a device part has no virtual devices
inventory/12_resource_kinds
fixture inventory

resources: pattern VARCHAR, kind VARCHAR, vendor VARCHAR, size DOUBLE, devices VARCHAR, instance_type VARCHAR
'gpumem', 'memory', 'nvidia', 1, 'gpu', NULL

claim_series: metric VARCHAR, kind VARCHAR, uid VARCHAR, claim VARCHAR

state_intervals: cluster, metric, node, resource, value
'c', 'kube_node_status_capacity', 'some', 'gpumem', 40
'c', 'kube_node_status_capacity', 'none', 'gpumem', 0
->
FROM virtual_devices
c | some | gpu

= the placement of a job is known if the rest divides evenly
inventory/19_slurm_holdings
fixture inventory

loads: kind
'slurm'

slurm_spans: cluster VARCHAR, job_id INT, submit_ms BIGINT, nodes VARCHAR[], alloc_tres VARCHAR, from_ms BIGINT, \
to_ms BIGINT, names_gpus BOOLEAN
'c', 1, 0, ['a', 'b', 'd', 'e'], 'gres/gpu=8', 0, 100, true
'c', 2, 0, ['a', 'b', 'd'], 'gres/gpu=8', 0, 100, true
'c', 3, 0, ['a', 'b'], 'gres/gpu=8', 0, 100, true

slurm_steps: cluster, job_id, step, nodes, alloc_tres, start_ms
'c', 1, 'batch', ['a'], 'gres/gpu=2', 0
'c', 2, 'batch', ['a'], 'gres/gpu=1', 0
->
SELECT job_id, node, units, is_even FROM slurm_holdings ORDER BY job_id, node
1 | a | 2 | False
1 | b | 2 | False
1 | d | 2 | False
1 | e | 2 | False
2 | a | 1 | True
2 | b | 3.5 | True
2 | d | 3.5 | True
3 | a | 4 | True
3 | b | 4 | True

= a machine listed by two clouds has the larger memory
inventory/28_node_hosts
fixture inventory

node_facts: node_id INT, cluster VARCHAR, node VARCHAR, instance_type VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', 'M1', 0, 100

catalog_instances: instance_type VARCHAR, vcpus DOUBLE, memory_gib DOUBLE
'm1', 8, 32
'M1', 4, 64
->
FROM node_hosts ORDER BY part
1 | cpu | 8
1 | memory | 68719476736

= a closed node is closed in all lives of its gpus
inventory/29_slurm_absences
fixture inventory

loads: kind
'slurm'

slurm_events: cluster, node, state, from_ms, to_ms
'c', 'n', 'DRAIN', 10, 90

slurm_reservations: cluster, nodes, from_ms, to_ms, flags

slurm_machines: cluster VARCHAR, node VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT
'c', 'n', 0, 40
'c', 'n', 50, 80

slurm_units: cluster VARCHAR, node VARCHAR, kind VARCHAR, units DOUBLE, share DOUBLE
->
SELECT node, from_ms, to_ms FROM closed_nodes
n | 10 | 80

= a former unit keeps its last value
inventory/34_pod_units
fixture inventory

pod_nodes: cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT
'c', 'after', 1, 30
'c', 'before', 1, 5
'c', 'between', 1, 22

pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE
'c', 'after', 'gpu', 2
'c', 'before', 'gpu', 2
'c', 'between', 'gpu', 2

pod_parts: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE, gpus DOUBLE

reservations: cluster VARCHAR, uid VARCHAR, gives_way BOOLEAN

unit_shares: node_id, resource, from_ms, to_ms, share, shared
1, 'gpu', 0, 10, 1, false
1, 'gpu', 10, 20, 0.5, true
1, 'gpu', 25, 30, 0.25, true
->
SELECT uid, gpus FROM pod_units ORDER BY uid
after | 0.5
before | 2
between | 0.5

= a device measured by several series is reported once
inventory/40_slurm_devices
fixture inventory

loads: kind
'slurm'

slurm_devices: cluster, job_id, submit_ms, node, type, gpus
'c', 7, 0, 'n', '', [0]

allocated: allocation_id INT, cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT, held_to_ms BIGINT
5, 'c', '7@0/n/', 1, 0, 100

slurm_machines: node_id INT, gpu_model VARCHAR
1, NULL

slurm_units: cluster VARCHAR, node VARCHAR, kind VARCHAR, profile VARCHAR, type VARCHAR, gpu_model VARCHAR
'c', 'n', 'gpu', NULL, NULL, NULL

series: series_id, labels
0, MAP {'gpu': '0'}
1, MAP {'gpu': '0'}
2, MAP {'gpu': '1'}

node_devices: series_id, node_id, gpu_instance_id, first_ms, last_ms, device_id
0, 1, '', 0, 100, 8
1, 1, '', 0, 100, 8
2, 1, '', 0, 100, 9
->
FROM told_devices
5 | 8

= a waiting job waits until the end of the collected time
inventory/44_slurm_pending
fixture inventory

loads: kind
'slurm'

collected: cluster, from_ms, to_ms
'c', 0, 50
'c', 60, 90

slurm_runs: cluster, job_id, submit_ms, job, account, eligible_ms, start_ms, end_ms, req_tres
'c', 7, 10, '7', 'a', 20, NULL, NULL, 'cpu=4,gres/gpu=2'
'c', 8, 10, '8', NULL, NULL, 40, 80, 'gres/gpu=1'
'c', 9, 10, '9', NULL, NULL, NULL, 70, 'gres/gpu=1'

pending_pods: cluster
->
SELECT pod, namespace, gpus, from_ms, to_ms FROM pending_pods ORDER BY pod
7 | a | 2 | 20 | 90
8 |  | 1 | 10 | 40
9 |  | 1 | 10 | 70

= a series that starts as its pod ends belongs to the pod's node
inventory/25_node_devices
sql CREATE TEMP TABLE device_series AS SELECT * EXCLUDE (node_id, up_from_ms, up_to_ms, device_id) FROM node_devices
fixture inventory

node_lifetimes: node_id INT, cluster VARCHAR, node VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', 0, 100

device_hosts: cluster VARCHAR, host VARCHAR, node_label VARCHAR, node VARCHAR

device_series: series_id, cluster, namespace, pod, host, uuid, gpu_instance_id, first_ms, last_ms
1, 'c', 'ns', 'p', 'ip', 'GPU-1', '', 50, 60
2, 'c', 'ns', 'p', 'ip', 'GPU-2', '', 51, 60

state_intervals: cluster, metric, namespace, pod, node, first_ms, last_ms, end_ms
'c', 'kube_pod_info', 'ns', 'p', 'n', 0, 40, 50
->
SELECT series_id, node_id, up_from_ms, up_to_ms FROM node_devices
1 | 1 | 0 | 100

= the last description of a slurm node counts
inventory/26_slurm_nodes
sql CREATE TEMP TABLE node_facts AS SELECT *, NULL::DOUBLE AS mig_slices FROM main.nodes LIMIT 0
fixture inventory

loads: kind
'slurm'

slurm_machines: node_id INT, cluster VARCHAR, node VARCHAR, created_ms BIGINT, up_from_ms BIGINT, up_to_ms BIGINT, \
gpu_model VARCHAR, type VARCHAR, gpu_count DOUBLE, machine_gpus DOUBLE
1, 'c', 'n', NULL, 0, 100, 'A100', 'a100', 8, 8

nodes: node_id

slurm_nodes: cluster, node, instance_type, seen_ms, partitions
'c', 'n', 'old', 10, ['p']
'c', 'n', 'new', 20, ['q', 'r']
'c', 'n', 'older', 5, ['p']
->
SELECT instance_type, gpu_count, labels['label_partition'] FROM nodes
new | 8 | q,r

= a pod on a node billed to a team's cost category belongs to the team
inventory/50_allocation_teams
known {"has_team_categories": True}
fixture inventory

settings: teams_configured
true

allocated: allocation_id INT, cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node_id INT
1, 'c', 'train', 'a', 1
2, 'c', 'train', 'b', 2
3, 'c', 'serve', 'c', 1

label_history: kind VARCHAR, cluster VARCHAR, name VARCHAR, labels MAP(VARCHAR, VARCHAR), from_ms BIGINT, to_ms BIGINT

team_globs: ordinal INT, team VARCHAR, pattern VARCHAR, clusters VARCHAR[]
1, 'front', 'serve', []

team_values: ordinal INT, team VARCHAR, label VARCHAR, value VARCHAR

team_categories: ordinal INT, team VARCHAR, category VARCHAR, value VARCHAR, clusters VARCHAR[]
0, 'nlp', 'department', 'Research', []

node_facts: node_id INT, cluster VARCHAR, machine_id VARCHAR
1, 'c', 'aws:///us-east-1a/i-0ABC'
2, 'c', 'aws:///us-east-1a/i-0def'

bill_rows: instance_key, kind, cost_categories, charge_period_start
'i-0abc', 'instance', MAP {'Department': 'Research'}, '2026-03-05'
'i-0def', 'instance', MAP {'Department': 'Serving'}, '2026-03-05'
->
SELECT allocation_id, team FROM allocation_teams ORDER BY 1
1 | nlp
2 | unassigned
3 | front
""")


def test_quantity_must_be_positive_and_at_most_its_limit(inventory: Tables) -> None:
    texts = ["0", "-1", "nan", "inf", "100.5", "x", "0.5", "100"]
    numbers = inventory.con.execute(
        "SELECT quantity(text, 100) FROM unnest(?) AS t(text)", [texts]
    ).fetchall()
    assert [number for (number,) in numbers] == [None, None, None, None, None, None, 0.5, 100]


def test_configured_types_and_categories_are_staged(tables: Tables) -> None:
    kinds = WorkloadTypeRule(type="batch", names=["a-*"], kinds=["Job"])
    labels = WorkloadTypeRule(type="other", labels={"tier": ["test", "dev"]})
    teams = [Team(name="nlp", cost_categories={"department": ["Research"]})]
    stage(tables.con, Config(workload_types=[kinds, labels], teams=teams))
    assert tables.texts("SELECT * FROM type_rules ORDER BY ordinal") == text_rows("""
        0 | batch | [] | ['a-*'] | ['Job'] | []
        1 | other | [] | [] | [] | ['label_tier=test', 'label_tier=dev']""")
    assert tables.texts("SELECT *, getvariable('has_team_categories') FROM team_categories") == text_rows(
        "0 | nlp | department | Research | [] | True"
    )
