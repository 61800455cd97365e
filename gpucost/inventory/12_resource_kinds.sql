-- reads: state_intervals, resources, claim_series
-- writes: resource_kinds, one row per resource of pods or nodes: its kind, 'unlisted' if no table lists it; virtual_devices, the resources and nodes for which a scheduler of memory and cores (HAMi) counts virtual devices; claim_pods, the pods of each resource claim, from kube-state-metrics; gpu_groups, the pods that share (or reserve) a GPU of KAI or Run:ai, by their label; share_hints, resources and annotations by which pods may hold other than whole devices, slices and slots
-- invariant: one row per resource; devices (the resource that counts its devices) is set for parts only; one row per (cluster, node, resource); virtual devices are not slots: a bare one is a whole device; one row per (cluster, uid, namespace, claim), and per (cluster, uid, group)
CREATE OR REPLACE TEMP TABLE resource_kinds AS
SELECT f.resource, coalesce(r.kind, 'unlisted') AS kind, r.vendor, r.size, r.devices
FROM (SELECT DISTINCT resource FROM state_intervals WHERE resource IS NOT NULL) AS f
LEFT JOIN (FROM resources WHERE kind <> 'claim') AS r ON regexp_full_match(f.resource, r.pattern)
QUALIFY row_number() OVER (PARTITION BY f.resource ORDER BY r.kind = 'none' DESC, r.instance_type IS NULL DESC) = 1;

CREATE OR REPLACE TEMP TABLE virtual_devices AS
SELECT DISTINCT f.cluster, f.node, k.devices AS resource
FROM state_intervals AS f JOIN resource_kinds AS k USING (resource)
WHERE k.kind IN ('memory', 'percentage', 'cores') AND coalesce(f.node, '') <> '' AND f.value > 0;

CREATE OR REPLACE TEMP TABLE claim_pods AS
SELECT DISTINCT f.cluster, f.labels[s.uid] AS uid, f.namespace, f.labels[s.claim] AS claim
FROM state_intervals AS f JOIN claim_series AS s ON s.metric = f.metric AND s.kind = 'pod'
WHERE f.labels[s.uid] IS NOT NULL AND f.labels[s.claim] <> '' AND f.value > 0;

CREATE OR REPLACE TEMP TABLE gpu_groups AS
SELECT DISTINCT cluster, uid, labels['label_runai_gpu_group'] AS gpu_group FROM state_intervals
WHERE metric = 'kube_pod_labels' AND labels['label_runai_gpu_group'] IS NOT NULL;

CREATE OR REPLACE TEMP VIEW share_hints AS
SELECT resource AS hint FROM resource_kinds WHERE devices IS NOT NULL OR kind IN ('unsplit', 'unsplit_part', 'unlisted')
UNION ALL SELECT metric FROM state_intervals WHERE metric = 'kube_pod_annotations';
