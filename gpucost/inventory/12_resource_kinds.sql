-- reads: state_intervals, resources, claim_series
-- writes: resource_kinds, one row per resource that pods or nodes speak of: what it is, 'unlisted' where no table says; virtual_devices, the resources that a scheduler of memory and cores (HAMi) counts virtual devices by: on which nodes it was seen to; claim_pods, which pods use which resource claim, as kube-state-metrics tells it; gpu_groups, which pods share (or reserve) a GPU of KAI or Run:ai, by their label
-- invariant: one row per resource; devices (the resource that counts what it is a part of) stands for parts alone; one row per (cluster, node, resource); virtual devices are no slots: a bare one is a whole device; one row per (cluster, uid, namespace, claim), and per (cluster, uid, group)
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
