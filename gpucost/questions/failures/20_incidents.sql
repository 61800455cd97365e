-- reads: incident_signs, nodes, allocations; $from_ms, $to_ms the period
-- writes: incidents, one row per incident that touches the period: its cause, devices, pods, time, and sessions without available GPUs
-- invariant: each session without available GPUs belongs to one incident
CREATE OR REPLACE TEMP TABLE incidents AS
WITH sessions AS (
    SELECT kind, node_id, place, number, min(from_ms) AS from_ms, max(from_ms) AS last_ms, max(to_ms) AS to_ms,
        -- the strongest evidence names a device's incident, the first sign a node's
        arg_min({'cause': cause, 'code': code, 'detail': detail},
            (kind = 'device' AND NOT is_evidence, is_application, from_ms, code)) AS main,
        bool_or(is_evidence) AS is_evidence,
        -- errors of applications follow on other devices
        coalesce(list(DISTINCT uuid ORDER BY uuid)
            FILTER (is_evidence AND uuid IS NOT NULL), list(DISTINCT uuid ORDER BY uuid)
                FILTER (uuid IS NOT NULL)) AS devices,
        list_distinct(flatten(list(allocation_ids))) AS allocation_ids,
            (sum(code) FILTER (cause = 'restarted'))::BIGINT AS restarts
    FROM incident_signs GROUP BY ALL
),
absences AS (
    SELECT s.kind, s.node_id, s.number, s.from_ms, s.to_ms, CASE WHEN s.from_ms <= d.last_ms + 3600000
        THEN d.number END AS device_number
    FROM (FROM sessions WHERE kind IN ('node', 'closed')) AS s
    ASOF LEFT JOIN (FROM sessions WHERE kind = 'device' AND is_evidence) AS d ON d.node_id = s.node_id
        AND s.from_ms + 600000 >= d.from_ms
),
places AS (
    SELECT s.*, a.from_ms AS absent_from_ms, a.to_ms AS absent_to_ms, a.sessions
    FROM sessions AS s
    LEFT JOIN (
        SELECT node_id, device_number, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
            list({'kind': kind, 'number': number}) AS sessions
        FROM absences WHERE device_number IS NOT NULL GROUP BY ALL
    ) AS a ON s.kind = 'device' AND a.node_id = s.node_id AND a.device_number = s.number
    WHERE s.kind NOT IN ('node', 'closed')
    UNION ALL
    SELECT s.*, s.from_ms, s.to_ms, [{'kind': s.kind, 'number': s.number}]
    FROM sessions AS s SEMI JOIN (FROM absences WHERE device_number IS NULL) USING (kind, node_id, number)
),
timed AS (
    SELECT p.*, n.cluster, n.node, n.provider, n.gpu_model,
        greatest(p.last_ms, coalesce(p.absent_from_ms, 0)) + 1800000 AS until_ms,
        greatest(p.to_ms, coalesce(p.absent_to_ms, 0)) AS end_ms,
        (SELECT list_sort(list(DISTINCT a.namespace || '/' || a.workload)) FROM allocations AS a
            WHERE a.node_id = p.node_id AND a.held_from_ms <= p.from_ms AND p.from_ms - 120000 <= a.held_to_ms
                AND (p.absent_from_ms IS NOT NULL OR list_contains(p.allocation_ids, a.allocation_id))) AS workloads
    FROM places AS p JOIN nodes AS n USING (node_id)
    WHERE p.from_ms < $to_ms AND $from_ms <= end_ms
)
SELECT row_number() OVER (ORDER BY from_ms, cluster, node, main.cause, place) AS incident_id,
    * REPLACE (end_ms AS to_ms, coalesce(devices, []) AS devices, coalesce(workloads, []) AS workloads,
        coalesce(sessions, []) AS sessions),
    main.cause AS cause, CASE WHEN main.cause = 'xid' THEN main.code END AS xid, main.detail AS detail,
        from_ms < $from_ms AS is_continued
FROM timed AS t
-- restarts of workloads with pods on a device or node with an incident are part of that
WHERE t.kind <> 'pod' OR NOT EXISTS (
    FROM timed AS o WHERE o.kind IN ('device', 'node') AND o.cluster = t.cluster AND o.from_ms - 120000 <= t.from_ms
        AND t.from_ms <= o.until_ms
        AND list_has_any(o.workloads, t.workloads));
