"""Stages that most fleets skip, over tables of a few rows: one input is enough to run them."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

test_rule = rule_test("""
= exported annotations are a hint at parts of devices
inventory/12_resource_kinds
fixture inventory

resources: pattern VARCHAR, kind VARCHAR, vendor VARCHAR, size DOUBLE, devices VARCHAR, instance_type VARCHAR

claim_series: metric VARCHAR, kind VARCHAR, uid VARCHAR, claim VARCHAR

state_intervals: cluster, metric
'c', 'kube_pod_annotations'
'c', 'kube_pod_labels'
->
FROM share_hints
kube_pod_annotations

= an exporter proves pods of a namespace without samples
# The namespace b has samples all the time, so no family is silent.
inventory/16_family_gaps
fixture inventory

family_spans: cluster VARCHAR, family VARCHAR, begin_ms BIGINT, first_ms BIGINT, last_ms BIGINT, end_ms BIGINT
'c', 'state', 0, 0, 6h, 6h
'c', 'pods', 0, 0, 6h, 6h
'c', 'requests', 0, 0, 6h, 6h

claim_pods: cluster VARCHAR, uid VARCHAR

state_intervals: cluster, metric, namespace, pod, uid, resource, first_ms, last_ms, end_ms
'c', 'kube_pod_info', 'a', 'p', 'u', NULL, 0, 1h, 1h
'c', 'kube_pod_info', 'b', 'q', 'v', NULL, 0, 6h, 6h
'c', 'kube_pod_container_resource_requests', 'a', 'p', 'u', 'gpu', 0, 1h, 1h

device_series: series_id INT, cluster VARCHAR, namespace VARCHAR, pod VARCHAR, host VARCHAR, by_claim BOOLEAN, scale DOUBLE, \
first_ms BIGINT, last_ms BIGINT
1, 'c', 'a', 'p', 'h', false, 1, 0, 6h

blocks: series_id, hour, samples, value_sum, first_offset_ms, last_offset_ms, step_ms
1, 2, 60, 60, 0, 3540000, 60000
1, 3, 60, 60, 0, 3540000, 60000
->
SELECT family, from_ms // 3600000, to_ms // 3600000 FROM family_gaps ORDER BY ALL
pods | 2 | 3
pods | 3 | 4

= a boot in a bridged gap is enough for a stop
inventory/29_node_stops
fixture inventory

node_facts: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT
1, 'c', 'n', 'i-1', 0, 1000

state_intervals: cluster, metric, node, value
'c', 'node_boot_time_seconds', 'n', 0.4

coverage_gaps: cluster, from_ms, to_ms, kind
'c', 200, 900, 'bridged'

twofold_nodes: cluster VARCHAR, node VARCHAR, from_ms BIGINT, end_ms BIGINT
->
SELECT node_id, from_ms, to_ms, reason FROM node_stops
1 | 200 | 400 | boot

= a device claimed according to its exporter alone is held
inventory/36_claim_shares
fixture inventory

claim_pods: cluster VARCHAR, uid VARCHAR, namespace VARCHAR, claim VARCHAR

claim_series: metric VARCHAR, kind VARCHAR, pool VARCHAR, device VARCHAR, driver VARCHAR, claim VARCHAR

resources: kind VARCHAR, pattern VARCHAR

claimed_devices: series_id INT, cluster VARCHAR, node_id INT, namespace VARCHAR, pod VARCHAR, device_id INT, profile VARCHAR, \
first_ms BIGINT, last_ms BIGINT
7, 'c', 1, 'ns', 'p', 5, NULL, 0, 3h

series: series_id, cluster, metric, labels
7, 'c', 'DCGM_FI_DEV_GPU_UTIL', MAP {'dra_claim_name': 'x'}

pods: cluster VARCHAR, uid VARCHAR, namespace VARCHAR, pod VARCHAR
'c', 'u', 'ns', 'p'

pod_nodes: cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT, held_to_ms BIGINT
'c', 'u', 1, 1h, 2h

node_facts: node_id INT, mig_slices INT
1, 7

pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE
->
SELECT uid, from_ms, to_ms, units, gpus FROM claim_shares
u | 3600000 | 7200000 | 1 | 1

= a reservation without exported annotations is a warning
inventory/67_resource_warnings
fixture inventory

share_hints: hint VARCHAR

claim_pods: cluster VARCHAR, uid VARCHAR, namespace VARCHAR, claim VARCHAR

claim_shares: cluster VARCHAR, uid VARCHAR, from_ms BIGINT, to_ms BIGINT, gpus DOUBLE

gpu_groups: cluster VARCHAR, uid VARCHAR

reservations: cluster VARCHAR, uid VARCHAR, namespace VARCHAR, gives_way BOOLEAN
'c', 'u', 'runai-reservation', false

pods: cluster VARCHAR, uid VARCHAR, namespace VARCHAR, asks_gpus BOOLEAN
'c', 'u', 'runai-reservation', true

pod_nodes: cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT, held_to_ms BIGINT
'c', 'u', 1, 1h, 3h

pod_units: cluster VARCHAR, uid VARCHAR, resource VARCHAR, gpus DOUBLE
'c', 'u', 'gpu', 2

pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR

pod_parts: cluster VARCHAR, uid VARCHAR, resource VARCHAR, gpus DOUBLE, memory DOUBLE, is_guessed BOOLEAN

pod_annotations: cluster VARCHAR, uid VARCHAR, asks BOOLEAN, units DOUBLE, part DOUBLE, is_cut BOOLEAN

resource_kinds: resource VARCHAR, kind VARCHAR, devices VARCHAR

claim_series: metric VARCHAR, kind VARCHAR, claim VARCHAR

allocated: allocation_id INT, cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT, held_to_ms BIGINT

node_facts: node_id INT, cluster VARCHAR, node VARCHAR, gpu_count INT
1, 'c', 'n', 8

collected: cluster VARCHAR, from_ms BIGINT, to_ms BIGINT
'c', 0, 2h
->
SELECT code, subject, split_part(message, '(', 2) FROM warnings
hidden_fractions | runai-reservation | 2.0 GPU-hours of 1 pod, 1970-01-01T01:00Z to 1970-01-01T02:00Z)
""")
