-- reads: pods, pod_nodes, pod_parts, pod_annotations, pod_units, unit_shares, pod_requests, reservations, allocated, allocation_devices, claim_pods, claim_shares, claim_series, gpu_groups, resource_kinds, collected, node_facts, state_intervals
-- writes: warnings (stored), about GPU shares that are unknown: counted whole, guessed, or not counted
-- invariant: each row names the resource, and its holders' GPU-hours and dates in collected time
-- only with: share_hints, claim_pods, claim_shares, gpu_groups, reservations
INSERT INTO warnings BY NAME
WITH memory_events AS (
    SELECT a.node_id, d.device_id, CASE WHEN d.device_id IS NULL THEN f.gpu_count ELSE 1 END AS most, a.held_from_ms, a.held_to_ms,
        q.memory / count(*) OVER (PARTITION BY a.allocation_id) AS memory
    FROM pod_parts AS q
    JOIN allocated AS a USING (cluster, uid)
    JOIN node_facts AS f USING (node_id)
    LEFT JOIN allocation_devices AS d USING (allocation_id)
    WHERE q.memory > 0
),
memory_held AS (
    SELECT node_id, most, sum(sum(memory)) OVER (PARTITION BY node_id, device_id ORDER BY at_ms) AS memory
    FROM (
        SELECT node_id, device_id, most, held_from_ms AS at_ms, memory FROM memory_events
        UNION ALL
        SELECT node_id, device_id, most, held_to_ms, -memory FROM memory_events
    )
    GROUP BY node_id, device_id, most, at_ms
),
doubtful AS (
    SELECT 'unsplit_resource' AS code, u.cluster, u.uid, u.resource AS subject, u.gpus,
        u.resource || ' may be a part of a device of unknown size: counted whole' AS message, NULL AS fix
    FROM pod_units AS u JOIN resource_kinds AS k USING (resource)
    WHERE k.kind = 'unsplit'
    UNION ALL
    SELECT 'unsplit_resource', r.cluster, r.uid, r.resource, u.gpus,
        r.resource || ' requests a part of a device in an unsupported form: its device counts whole', NULL
    FROM pod_requests AS r
    JOIN resource_kinds AS k USING (resource)
    JOIN (SELECT cluster, uid, sum(gpus) AS gpus FROM pod_units GROUP BY ALL) AS u USING (cluster, uid)
    WHERE k.kind = 'unsplit_part'
    UNION ALL
    SELECT 'guessed_share', q.cluster, q.uid, r.resource, q.gpus,
        r.resource || ' is memory of a device with unknown memory: its device counts whole',
        'export kube_node_status_capacity of it, or node labels, so that the GPU model is known'
    FROM pod_parts AS q
    JOIN pod_requests AS r USING (cluster, uid)
    JOIN resource_kinds AS k ON k.resource = r.resource AND k.devices = q.resource AND k.kind IN ('memory', 'total_memory')
    WHERE q.is_guessed
    UNION ALL
    SELECT 'guessed_share', q.cluster, q.uid, 'gpu-memory', q.gpus,
        'the annotation gpu-memory is memory of a device of unknown model: its device counts whole',
        'kube-state-metrics --metric-labels-allowlist=nodes=[*]'
    FROM pod_parts AS q
    WHERE q.is_guessed AND q.resource = 'gpu_fraction'
    UNION ALL
    SELECT DISTINCT 'guessed_share', u.cluster, u.uid, u.resource, u.gpus,
        u.resource || ' may be slots, on nodes whose pods request no part of a GPU: counted as virtual devices (HAMi), a whole GPU each',
        'time-sliced nodes: export the label nvidia.com/gpu.replicas'
    FROM pod_units AS u
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN unit_shares AS s ON s.node_id = n.node_id AND s.resource = u.resource AND s.guessed_virtual
    UNION ALL
    SELECT 'guessed_share', cluster, uid, 'gpu-fraction', CASE WHEN asks THEN units * coalesce(part, 1) ELSE 0 END,
        'the annotations gpu-fraction, gpu-fraction-num-devices or gpu-memory request more than the node has: '
            || 'cut to its GPUs, and not counted if not a number', NULL
    FROM pod_annotations
    WHERE is_cut
    UNION ALL
    SELECT 'guessed_share', q.cluster, q.uid, r.resource, q.gpus,
        'missing: ' || k.devices || ', which counts the GPUs of ' || r.resource || ': shares are based on all units of a node and its GPUs by labels, instance type or '
            || 'dcgm-exporter; without these, a unit counts as a GPU', NULL
    FROM pod_parts AS q
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN pod_requests AS r USING (cluster, uid)
    JOIN resource_kinds AS k ON k.resource = r.resource AND k.devices = q.resource AND k.kind = 'total_memory'
    WHERE NOT q.is_guessed AND NOT EXISTS (
        FROM node_facts AS f JOIN state_intervals AS c ON c.cluster = f.cluster AND c.node = f.node AND c.metric = 'kube_node_status_capacity'
        WHERE f.node_id = n.node_id AND c.resource = k.devices)
    UNION ALL
    SELECT 'scaled_memory', q.cluster, q.uid, f.node, q.gpus,
        'pods on node ' || f.node || ' hold more memory than its GPUs have, so it is scaled: their shares are too large',
        'set memory_scaling under [hami] in gpucost.toml to HAMi''s deviceMemoryScaling'
    FROM pod_parts AS q
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN node_facts AS f USING (node_id)
    WHERE q.memory > 0 AND n.node_id IN (SELECT node_id FROM memory_held WHERE memory > most + 0.02)
    UNION ALL
    SELECT 'hidden_fractions', r.cluster, r.uid, r.namespace, u.gpus,
        'pods of namespace ' || r.namespace || ' reserve GPUs for other pods, whose gpu-fraction and gpu-memory annotations are not exported: '
            || 'this namespace is charged for whole GPUs',
        'kube-state-metrics --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]'
    FROM reservations AS r
    JOIN (SELECT cluster, uid, sum(gpus) AS gpus FROM pod_units GROUP BY ALL) AS u USING (cluster, uid)
    WHERE NOT r.gives_way
    UNION ALL
    SELECT DISTINCT 'hidden_fractions', n.cluster, n.uid, p.namespace, 1,
        'pods of namespace ' || p.namespace || ' share GPUs by KAI or Run:ai, and their gpu-fraction and gpu-memory annotations are not exported: '
            || 'not attributed to them; this warning counts one GPU each',
        'kube-state-metrics --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]'
    FROM gpu_groups AS g
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN pods AS p USING (cluster, uid)
    ANTI JOIN pod_parts AS q ON q.cluster = n.cluster AND q.uid = n.uid
    WHERE NOT p.asks_gpus
    UNION ALL
    SELECT 'unknown_claim_pods', h.cluster, h.uid, p.namespace, sum(h.gpus * (h.to_ms - h.from_ms)) / (max(h.to_ms) - min(h.from_ms)),
        'claims of pods of namespace ' || p.namespace || ' are known from dcgm-exporter only: other pods that share them have no share',
        'kube-state-metrics 2.20 or later: keep kube_pod_resourceclaim_info in --metric-allowlist'
    FROM claim_shares AS h
    JOIN pods AS p USING (cluster, uid)
    WHERE h.cluster NOT IN (SELECT cluster FROM claim_pods)
    GROUP BY h.cluster, h.uid, p.namespace
    UNION ALL
    SELECT 'unplaced_claim', c.cluster, c.uid, c.namespace, 1,
        'pods of namespace ' || c.namespace || ' on GPU nodes use resource claims without a known device, counted here as one GPU per claim: '
            || 'not attributed if they are GPU claims',
        'dcgm-exporter: set KUBERNETES_ENABLE_DRA=true'
    FROM claim_pods AS c
    JOIN pod_nodes AS n USING (cluster, uid)
    ANTI JOIN claim_shares AS h ON h.cluster = c.cluster AND h.uid = c.uid
    ANTI JOIN (FROM pod_requests WHERE is_accelerator(resource)) AS r ON r.cluster = c.cluster AND r.uid = c.uid
    -- ignore claims of other devices, such as a network interface
    WHERE NOT EXISTS (
        FROM state_intervals AS f JOIN claim_series AS s ON s.metric = f.metric AND s.kind = 'device'
        WHERE f.cluster = c.cluster AND f.namespace = c.namespace AND f.labels[s.claim] = c.claim)
),
timed AS (
    SELECT d.*, greatest(n.held_from_ms, t.from_ms) AS from_ms, least(n.held_to_ms, t.to_ms) AS to_ms
    FROM doubtful AS d
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN collected AS t ON t.cluster = d.cluster AND t.from_ms < n.held_to_ms AND n.held_from_ms < t.to_ms
)
SELECT code, cluster, subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    message || ' (' || printf('%.1f', sum(gpus * (to_ms - from_ms)) / 3600000) || ' GPU-hours of ' || count(DISTINCT uid)
        || CASE count(DISTINCT uid) WHEN 1 THEN ' pod' ELSE ' pods' END || ', '
        || strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M') || 'Z to ' || strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M') || 'Z)' AS message,
    fix
FROM timed
GROUP BY code, cluster, subject, message, fix;
