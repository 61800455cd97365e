-- reads: claimed_devices, series, pods, pod_nodes, node_facts, pod_requests, claim_pods, claim_series, state_intervals, resources
-- writes: claim_shares, GPUs that a pod holds by claims, one row per (pod, span without change, whether slices): a device claimed by several pods is split evenly among the running ones
-- invariant: from_ms < to_ms; a pod's spans cover its life without gap or overlap; per device and moment the parts of its pods add up to the device's
-- only with: claim_pods, claimed_devices
-- otherwise: claim_shares (cluster VARCHAR, uid VARCHAR, from_ms BIGINT, to_ms BIGINT, sliced BOOLEAN, units BIGINT, gpus DOUBLE, shared BOOLEAN)
CREATE OR REPLACE TEMP TABLE claim_shares AS
WITH exported AS (
    SELECT DISTINCT d.cluster, d.node_id, coalesce(s.labels['dra_claim_namespace'], d.namespace) AS claim_namespace,
        s.labels['dra_claim_name'] AS claim, d.namespace, d.pod, 'device ' || d.device_id AS device,
        compute_slices(d.profile) AS slices, d.first_ms, d.last_ms
    FROM claimed_devices AS d JOIN series AS s USING (series_id)
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
    FROM state_intervals AS f
    JOIN claim_series AS s ON s.metric = f.metric AND s.kind = 'device'
    JOIN resources AS r ON r.kind = 'claim' AND regexp_full_match(f.labels[s.driver], r.pattern)
    WHERE f.value > 0
),
by_exporter AS (
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN exported AS d ON d.node_id = p.node_id AND d.namespace = p.namespace AND d.pod = p.pod
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
    UNION ALL
    -- the exporter may name only one of the pods that share a claim
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN claim_pods AS c USING (cluster, uid)
    JOIN exported AS d ON d.node_id = p.node_id AND d.claim_namespace = c.namespace AND d.claim = c.claim
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
),
by_metrics AS (
    SELECT p.*, d.device, d.slices
    FROM placed AS p
    JOIN claim_pods AS c USING (cluster, uid)
    JOIN allocated_devices AS d ON d.cluster = c.cluster AND d.claim_namespace = c.namespace AND d.claim = c.claim
        AND d.first_ms < p.held_to_ms AND p.held_from_ms <= d.last_ms
    ANTI JOIN by_exporter AS t ON t.cluster = p.cluster AND t.uid = p.uid
),
claim_holders AS (
    -- pods and devices by resource claims: from dcgm-exporter's labels, otherwise from kube-state-metrics
    SELECT DISTINCT cluster, uid, node_id, held_from_ms, held_to_ms, device, slices IS NOT NULL AS sliced, coalesce(least(1, slices / mig_slices), 1) AS part
    FROM (FROM by_exporter UNION ALL FROM by_metrics)
),
edges AS (
    SELECT node_id, device, held_from_ms AS at_ms FROM claim_holders UNION SELECT node_id, device, held_to_ms FROM claim_holders
),
pieces AS (
    SELECT node_id, device, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id, device ORDER BY at_ms) AS to_ms FROM edges
),
parts AS (
    SELECT h.cluster, h.uid, h.sliced, h.device, p.from_ms, p.to_ms, h.part / count(*) OVER (PARTITION BY p.node_id, p.device, p.from_ms) AS gpus,
        count(*) OVER (PARTITION BY p.node_id, p.device, p.from_ms) > 1 AS shared
    FROM claim_holders AS h
    JOIN pieces AS p ON p.node_id = h.node_id AND p.device = h.device AND h.held_from_ms <= p.from_ms AND p.to_ms <= h.held_to_ms
),
moments AS (
    SELECT cluster, uid, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, uid ORDER BY at_ms) AS to_ms
    FROM (SELECT cluster, uid, from_ms AS at_ms FROM parts UNION SELECT cluster, uid, to_ms FROM parts)
),
held AS (
    SELECT m.cluster, m.uid, m.from_ms, m.to_ms, p.sliced, count(*) AS units, sum(p.gpus) AS gpus, bool_or(p.shared) AS shared
    FROM moments AS m JOIN parts AS p ON p.cluster = m.cluster AND p.uid = m.uid AND p.from_ms <= m.from_ms AND m.to_ms <= p.to_ms
    GROUP BY ALL
),
sets AS (
    SELECT cluster, uid, from_ms, to_ms, list((sliced, units, gpus, shared) ORDER BY sliced) AS holding FROM held GROUP BY ALL
),
changes AS (
    SELECT *, (holding IS DISTINCT FROM lag(holding) OVER w)::INTEGER AS is_new FROM sets WINDOW w AS (PARTITION BY cluster, uid ORDER BY from_ms)
),
runs AS (
    SELECT *, sum(is_new) OVER (PARTITION BY cluster, uid ORDER BY from_ms) AS run FROM changes
),
stretches AS (
    SELECT cluster, uid, run, min(from_ms) AS from_ms, max(to_ms) AS to_ms, any_value(holding) AS holding FROM runs GROUP BY ALL
),
listed AS (
    SELECT cluster, uid, from_ms, to_ms, unnest(holding) AS holding FROM stretches
)
SELECT cluster, uid, from_ms, to_ms, holding[1] AS sliced, holding[2] AS units, holding[3] AS gpus, holding[4] AS shared
FROM listed;
