-- reads: node_devices, series, pods, pod_nodes, node_facts, pod_requests, claim_pods, claim_series, facts, resources
-- writes: claim_holders, which pods hold which devices by resource claims: by dcgm-exporter's labels, else by kube-state-metrics' metrics of claims
-- invariant: one row per (pod, device); 0 < part <= 1; a pod that requests accelerators as resources has none
CREATE OR REPLACE TEMP TABLE claim_holders AS
WITH exported AS (
    SELECT DISTINCT d.cluster, d.node_id, coalesce(s.labels['dra_claim_namespace'], d.namespace) AS claim_namespace,
        s.labels['dra_claim_name'] AS claim, d.namespace, d.pod, 'device ' || d.device_id AS device,
        compute_slices(d.profile) AS slices, d.first_ms, d.last_ms
    FROM node_devices AS d JOIN series AS s USING (series_id)
    WHERE d.by_claim
),
placed AS (
    SELECT n.*, p.namespace, p.pod, f.mig_slices
    FROM pod_nodes AS n
    JOIN pods AS p USING (cluster, uid)
    JOIN node_facts AS f USING (node_id)
    ANTI JOIN pod_requests AS r ON r.cluster = n.cluster AND r.uid = n.uid AND is_accelerator(r.resource)
),
allocated_devices AS (
    SELECT DISTINCT f.cluster, f.namespace AS claim_namespace, f.labels[s.claim] AS claim, f.labels[s.pool] AS pool,
        f.labels[s.pool] || ' ' || f.labels[s.device] AS device,
        compute_slices(regexp_extract(f.labels[s.device], 'mig-([0-9]+g)', 1)) AS slices, f.first_ms, f.last_ms
    FROM facts AS f
    JOIN claim_series AS s ON s.metric = f.metric AND s.kind = 'device'
    JOIN resources AS r ON r.kind = 'claim' AND regexp_full_match(f.labels[s.driver], r.pattern)
    WHERE f.value > 0
),
told AS (
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN exported AS d ON d.node_id = p.node_id AND d.namespace = p.namespace AND d.pod = p.pod
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
    UNION ALL
    -- the exporter may name one of the pods that share a claim
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN claim_pods AS c USING (cluster, uid)
    JOIN exported AS d ON d.node_id = p.node_id AND d.claim_namespace = c.namespace AND d.claim = c.claim
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
),
listed AS (
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN claim_pods AS c USING (cluster, uid)
    JOIN allocated_devices AS d ON d.cluster = c.cluster AND d.claim_namespace = c.namespace AND d.claim = c.claim
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
    ANTI JOIN told AS t ON t.cluster = p.cluster AND t.uid = p.uid
)
SELECT DISTINCT cluster, uid, node_id, held_from_ms, held_to_ms, device, slices IS NOT NULL AS sliced, coalesce(least(1, slices / mig_slices), 1) AS part
FROM (FROM told UNION ALL FROM listed);
