-- reads: error_series, states, collected, coverage_gaps, state_intervals, nodes, node_devices, allocations, allocation_devices, absences, closed_nodes, slurm_events, declared_off
-- writes: health_events (stored), one row per change of a device's error metric, span in which GPUs of a node were unavailable, and restart or eviction of a pod
-- invariant: from_ms <= to_ms; errors in the first samples of a metric do not count; spans are cut at the ends of declared off time
INSERT INTO health_events BY NAME
WITH restarts AS (
    SELECT cluster, uid, first_ms AS at_ms, last_ms, 'restarted' AS cause,
        value - lag(value) OVER (PARTITION BY cluster, uid, container ORDER BY first_ms) AS rise
    FROM state_intervals
    -- containers with GPUs: a helper that restarts interrupts no work
    SEMI JOIN (FROM state_intervals WHERE metric = 'kube_pod_container_resource_requests') AS r USING (cluster, uid,
        container)
    WHERE metric = 'kube_pod_container_status_restarts_total'
    UNION ALL
    SELECT cluster, uid, first_ms, last_ms, 'evicted', value FROM state_intervals
        WHERE metric = 'kube_pod_status_reason' AND labels['reason'] = 'Evicted'
)
SELECT any_value(a.node_id) AS node_id, r.cause, sum(r.rise)::BIGINT AS code,
    list(DISTINCT a.allocation_id) AS allocation_ids, r.at_ms AS from_ms, r.at_ms AS to_ms, true AS is_witnessed
FROM restarts AS r JOIN allocations AS a ON a.cluster = r.cluster AND a.uid = r.uid AND a.held_from_ms <= r.at_ms
    AND r.at_ms <= a.held_to_ms + 600000
WHERE r.rise > 0
GROUP BY r.cause, r.cluster, r.uid, r.at_ms;
-- Changes of the error metrics of devices.
-- only with: error_series
INSERT INTO health_events BY NAME
WITH runs AS (
    SELECT s.cluster, coalesce(s.labels['UUID'], s.labels['uuid']) AS uuid,
        coalesce(s.labels['GPU_I_ID'], '') AS part, coalesce(s.labels['instance'], '') AS instance,
        s.cause, s.is_last, s.metric = 'DCGM_EXP_XID_ERRORS_TOTAL' AS is_from_zero, t.value, t.first_ms, t.last_ms,
        CASE WHEN s.is_last THEN t.value::BIGINT WHEN s.cause = 'xid'
            THEN try_cast(s.labels['xid'] AS BIGINT) END AS code
    FROM states AS t JOIN error_series AS s USING (series_id)
    -- without DCGM's values for "unknown"
    WHERE t.value BETWEEN 0 AND 1e9
),
-- series of one device follow each other when its pod, the error's name in their labels or the metric's name changes
changes AS (
    SELECT *, lag(value) OVER w AS before, lag(last_ms) OVER w AS before_ms,
        -- the exporter counts XIDs from its start; other metrics may have an old error when they are first exported
        CASE WHEN is_from_zero THEN min(first_ms) OVER (PARTITION BY cluster)
            ELSE min(first_ms) OVER (PARTITION BY cluster, instance, cause, is_last) END AS since_ms
    FROM runs
    WINDOW w AS (PARTITION BY cluster, uuid, part, instance, cause, is_last, CASE WHEN NOT is_last THEN code END
        ORDER BY first_ms, last_ms)
),
errors AS (
    SELECT c.cluster, c.uuid, c.cause, c.code, c.first_ms AS at_ms,
        CASE WHEN c.before IS NOT NULL THEN c.first_ms - c.before_ms <= 600000
            ELSE EXISTS (FROM collected AS k WHERE k.cluster = c.cluster AND k.from_ms <= c.first_ms - 600000
                AND c.first_ms <= k.to_ms) END AS is_witnessed
    FROM changes AS c
    WHERE c.value > 0 AND CASE
        WHEN c.before IS NOT NULL THEN c.value <> c.before
        -- exporters may begin a series with its first error: the same metric, and the device, were scraped before
        ELSE c.since_ms <= c.first_ms - 600000 AND EXISTS (
            FROM node_devices AS d WHERE d.cluster = c.cluster AND d.uuid = c.uuid
                AND d.first_ms <= c.first_ms - 600000)
        END
),
placed AS (
    SELECT e.*, d.node_id
    FROM errors AS e JOIN node_devices AS d ON d.cluster = e.cluster AND d.uuid = e.uuid AND d.up_from_ms <= e.at_ms
        AND e.at_ms <= d.up_to_ms + 600000
    -- once, on the newest node of its name
    QUALIFY row_number() OVER (PARTITION BY e.cluster, e.uuid, e.cause, e.code, e.at_ms ORDER BY d.up_from_ms DESC,
        e.is_witnessed) = 1
),
holders AS (
    SELECT p.node_id, p.uuid, p.at_ms, list(DISTINCT a.allocation_id) AS allocation_ids
    FROM placed AS p
    JOIN node_devices USING (node_id, uuid) JOIN allocation_devices AS v USING (device_id)
    JOIN allocations AS a ON a.allocation_id = v.allocation_id AND a.held_from_ms <= p.at_ms
        AND p.at_ms <= a.held_to_ms + 120000
    GROUP BY ALL
)
SELECT p.node_id, p.cause, p.code, p.uuid, coalesce(h.allocation_ids, []) AS allocation_ids, p.at_ms AS from_ms,
    p.at_ms AS to_ms, bool_or(p.is_witnessed) AS is_witnessed
FROM placed AS p LEFT JOIN holders AS h USING (node_id, uuid, at_ms)
GROUP BY ALL;
-- Spans in which GPUs of a node were unavailable.
-- only with: absences
INSERT INTO health_events BY NAME
WITH closed AS (
    SELECT n.node_id, CASE f.metric WHEN 'kube_node_spec_unschedulable' THEN 'cordoned' ELSE 'not_ready' END AS cause,
        NULL AS detail, n.gpu_count AS gpus, f.first_ms AS from_ms, f.end_ms AS to_ms
    FROM state_intervals AS f JOIN nodes AS n USING (cluster, node)
    WHERE (f.metric = 'kube_node_spec_unschedulable' AND f.value = 1)
        OR (f.metric = 'kube_node_status_condition' AND f.labels['condition'] = 'Ready' AND f.labels['status'] = 'true'
            AND f.value = 0)
    UNION ALL
    SELECT node_id, 'not_offered', NULL, gpus, from_ms, to_ms FROM absences WHERE cause <> ''
        AND (cause = 'lost' OR node_id NOT IN (SELECT node_id FROM nodes JOIN closed_nodes USING (cluster, node)))
    UNION ALL
    SELECT n.node_id,
        -- reasons of Slurm itself and of health checks; the others, and maintenance, are the operator's
        CASE WHEN regexp_matches(concat(e.state, ': ', e.reason),
            '(?i)^[^:]*(down|fail)|not responding|unexpectedly rebooted|'
            || 'kill task failed|prolog|epilog|: low |gres/|batch job complete|duplicate job|nhc|health')
                THEN 'slurm' ELSE 'drained' END,
        e.state || coalesce(': ' || e.reason, ''), coalesce(c.gpus, n.gpu_count), c.from_ms, c.to_ms
    FROM closed_nodes AS c JOIN nodes AS n USING (cluster, node)
    LEFT JOIN slurm_events AS e ON e.cluster = c.cluster AND e.node = coalesce(nullif(c.cause, ''), c.node)
        AND e.from_ms <= c.from_ms AND c.from_ms < coalesce(e.to_ms, c.to_ms)
),
hours AS (
    SELECT cluster, at_ms, lead(at_ms) OVER (PARTITION BY cluster ORDER BY at_ms) AS next_ms,
        EXISTS (FROM declared_off AS o WHERE o.cluster = e.cluster AND o.from_ms <= at_ms AND at_ms < o.to_ms) AS is_off
    FROM (
        SELECT cluster, unnest([from_ms, to_ms]) AS at_ms FROM declared_off
        UNION SELECT cluster, unnest([0, 9223372036854775807]) FROM nodes
    ) AS e
)
SELECT c.node_id, CASE WHEN h.is_off THEN 'off' ELSE c.cause END AS cause, [] AS allocation_ids,
    greatest(c.from_ms, n.up_from_ms, h.at_ms) AS from_ms, least(c.to_ms, n.up_to_ms, h.next_ms) AS to_ms,
    -- otherwise it may have begun earlier
    bool_or(c.from_ms >= n.up_from_ms + 600000
        AND NOT EXISTS (FROM coverage_gaps AS g WHERE g.cluster = n.cluster
            AND g.from_ms < c.from_ms AND c.from_ms - 600000 <= g.to_ms)) AS is_witnessed,
    max(c.gpus) AS gpus, min(c.detail) AS detail
FROM closed AS c JOIN nodes AS n USING (node_id) JOIN hours AS h USING (cluster)
WHERE greatest(c.from_ms, n.up_from_ms, h.at_ms) < least(c.to_ms, n.up_to_ms, h.next_ms)
GROUP BY ALL;
