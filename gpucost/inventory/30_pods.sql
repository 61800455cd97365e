-- reads: state_intervals, node_devices, claim_pods, gpu_groups
-- writes: pods, one row per pod (cluster, uid) that requests GPUs (or other resources that the cost basis charges) and was bound to a node: when it held them, the end that is proven, the last Pending sample and whether it failed; reserving_pods, the pods in the namespaces of reservations
-- invariant: held_from_ms < held_to_ms; sure_to_ms <= held_to_ms
CREATE OR REPLACE TEMP TABLE pods AS
WITH named AS (
    SELECT cluster, uid, namespace, pod, metric, resource, value, node, first_ms, last_ms, end_ms,
        CASE WHEN metric = 'kube_pod_status_phase' THEN labels['phase'] END AS phase
    FROM state_intervals
    WHERE uid IS NOT NULL
),
asking AS (
    SELECT cluster, uid, any_value(namespace) AS namespace, any_value(pod) AS pod, bool_or(is_accelerator(resource)) AS asks_gpus
    FROM named
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND value > 0
        AND (is_accelerator(resource) OR is_unlisted(resource) OR is_host_resource(resource))
    GROUP BY ALL
    UNION ALL
    -- pods that request a part of a GPU reserved by another pod, or hold a claim
    SELECT cluster, uid, any_value(namespace), any_value(pod), false
    FROM named
    WHERE metric = 'kube_pod_annotations' OR (metric = 'kube_pod_info' AND (cluster, uid) IN (
        SELECT (cluster, uid) FROM claim_pods UNION ALL SELECT (cluster, uid) FROM gpu_groups))
    GROUP BY ALL
    UNION ALL
    -- a device claim that appears in the exporter's labels only
    SELECT f.cluster, f.uid, any_value(f.namespace), any_value(f.pod), true
    FROM named AS f
    JOIN node_devices AS d ON d.by_claim AND d.cluster = f.cluster AND d.namespace = f.namespace AND d.pod = f.pod
    WHERE f.metric = 'kube_pod_info'
    GROUP BY ALL
),
askers AS (
    SELECT cluster, uid, any_value(namespace) AS namespace, any_value(pod) AS pod, bool_or(asks_gpus) AS asks_gpus
    FROM asking
    GROUP BY ALL
),
seen AS (
    SELECT cluster, uid,
        arg_max(end_ms, last_ms) AS seen_to_ms, max(last_ms) AS last_ms,
        min(first_ms) FILTER (coalesce(node, '') <> '') AS on_node_ms,
        coalesce(
            arg_max(node, last_ms) FILTER (metric = 'kube_pod_info' AND coalesce(node, '') <> ''),
            arg_max(node, last_ms) FILTER (coalesce(node, '') <> '')
        ) AS node,
        min(value) FILTER (metric = 'kube_pod_status_scheduled_time') * 1000 AS scheduled_ms,
        min(value) FILTER (metric = 'kube_pod_start_time') * 1000 AS started_ms,
        -- the last scrape before its terminal phase; null if the pod was over before its first sample
        CASE
            WHEN bool_or(phase = 'Succeeded' AND value = 1)
                THEN max(last_ms) FILTER (phase = 'Succeeded' AND value = 0)
            ELSE max(last_ms) FILTER (phase = 'Failed' AND value = 0)
        END AS alive_ms,
        max(end_ms - last_ms) AS interval_ms,
        -- reported for any container that ever ended: it ends the pod only if a terminal phase follows
        max(value) FILTER (metric = 'kube_pod_completion_time') * 1000 AS completed_ms,
        max(end_ms) FILTER (phase = 'Pending' AND value = 1) AS pending_to_ms,
        bool_or(phase = 'Failed' AND value = 1) AS failed,
        min(first_ms) FILTER (phase IN ('Succeeded', 'Failed') AND value = 1) AS ended_first_ms,
        max(last_ms) FILTER (phase IN ('Succeeded', 'Failed') AND value = 1) AS ended_last_ms
    FROM named
    GROUP BY ALL
),
held AS (
    SELECT a.cluster, a.namespace, a.pod, a.uid, a.asks_gpus, s.node, s.pending_to_ms, coalesce(s.failed, false) AS failed,
        round(coalesce(s.scheduled_ms, s.started_ms, s.on_node_ms))::BIGINT AS held_from_ms,
        -- a container that ended long before the pod is not proof either; phases may lag by a scrape or two
        coalesce(s.completed_ms <= s.ended_last_ms
            AND coalesce(s.alive_ms - greatest(2 * s.interval_ms, 120000) <= s.completed_ms, true), false) AS is_dated,
        round(CASE WHEN is_dated THEN s.completed_ms ELSE coalesce(s.ended_first_ms, s.seen_to_ms) END)::BIGINT AS held_to_ms,
        CASE WHEN is_dated THEN held_to_ms ELSE coalesce(s.ended_first_ms - s.interval_ms, s.last_ms) END AS sure_to_ms
    FROM askers AS a JOIN seen AS s USING (cluster, uid)
    WHERE s.node IS NOT NULL
)
SELECT * EXCLUDE (is_dated) FROM held WHERE held_from_ms < held_to_ms;
CREATE OR REPLACE TEMP VIEW reserving_pods AS FROM pods WHERE namespace IN ('kai-resource-reservation', 'runai-reservation');
