-- reads: health_events, profile_hours, nodes, allocations; $from_ms, $to_ms the period; $clusters filters (empty: all); $hardware, $application list XIDs
-- writes: incidents, one row per incident: its cause, devices, pods, time, and time without available GPUs
-- invariant: signs of one node up to ten minutes apart are one incident; each span without available GPUs belongs to one incident; is_evidence is false for errors of applications, own cordons, reclaimed or removed nodes, and time without samples
CREATE OR REPLACE TEMP TABLE incidents AS
WITH events AS (
    SELECT *, CASE WHEN uuid IS NOT NULL THEN 'device' WHEN cause IN ('restarted', 'evicted') THEN 'pod' ELSE 'node' END AS kind FROM health_events
    UNION ALL BY NAME
    -- hours in which clocks were reduced for a tenth of the time
    SELECT a.node_id, p.measure AS cause, [p.allocation_id] AS allocation_ids, p.from_ms, p.from_ms + 3600000 AS to_ms, true AS is_witnessed, 'throttle' AS kind
    FROM profile_hours AS p JOIN allocations AS a USING (allocation_id)
    WHERE p.measure IN ('thermal_throttle', 'power_throttle') AND p.value_gpu_ms >= 0.1 * p.measured_gpu_ms
),
signs AS (
    SELECT e.*, CASE WHEN e.kind IN ('pod', 'throttle') THEN (SELECT e.cause || a.namespace || a.workload FROM allocations AS a WHERE a.allocation_id = e.allocation_ids[1]) ELSE '' END AS place,
        coalesce(e.cause = 'xid' AND list_contains($application::BIGINT[], e.code), false) AS is_application,
        e.is_witnessed AND CASE e.cause
            WHEN 'xid' THEN list_contains($hardware::BIGINT[], e.code)
            WHEN 'slurm' THEN coalesce(e.detail ILIKE 'DOWN%not responding%', false)
            ELSE e.cause IN ('uncorrectable_ecc', 'row_remap_failure', 'not_ready', 'not_offered') END
            -- a reclaimed spot node, or a node removed at once
            AND NOT (e.to_ms >= n.up_to_ms - 600000 AND (n.capacity_type = 'spot' OR e.from_ms >= n.up_to_ms - 1800000)) AS is_evidence
    FROM events AS e JOIN nodes AS n USING (node_id)
    WHERE e.from_ms < $to_ms AND $from_ms <= e.to_ms AND passes($clusters, n.cluster)
),
marked AS (
    SELECT *, coalesce(from_ms > max(to_ms) OVER (PARTITION BY kind, node_id, place ORDER BY from_ms, to_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 600000, true) AS begins
    FROM signs
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY kind, node_id, place ORDER BY from_ms, to_ms) AS number FROM marked
),
sessions AS (
    SELECT kind, node_id, number, place, min(from_ms) AS from_ms, max(from_ms) AS last_ms, max(to_ms) AS to_ms,
        -- the strongest evidence names a device's incident, the first sign a node's: a cordon before a failure is maintenance
        arg_min({'cause': cause, 'code': code, 'detail': detail, 'is_evidence': is_evidence}, (kind = 'device' AND NOT is_evidence, is_application, from_ms, code)) AS main,
        list(DISTINCT uuid ORDER BY uuid) FILTER (uuid IS NOT NULL) AS devices, list_distinct(flatten(list(allocation_ids))) AS allocation_ids,
        sum(code) FILTER (cause = 'restarted') AS restarts
    FROM numbered GROUP BY kind, node_id, place, number
),
attached AS (
    SELECT s.node_id, s.from_ms, s.to_ms, CASE WHEN s.from_ms <= d.last_ms + 3600000 THEN d.number END AS number
    FROM (FROM sessions WHERE kind = 'node') AS s
    ASOF LEFT JOIN (FROM sessions WHERE kind = 'device' AND main.is_evidence) AS d ON d.node_id = s.node_id AND s.from_ms + 600000 >= d.from_ms
),
places AS (
    SELECT s.*, a.from_ms AS absent_from_ms, a.to_ms AS absent_to_ms
    FROM sessions AS s
    LEFT JOIN (SELECT node_id, number, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM attached WHERE number IS NOT NULL GROUP BY ALL) AS a
        ON s.kind = 'device' AND a.node_id = s.node_id AND a.number = s.number
    WHERE s.kind <> 'node'
    UNION ALL
    SELECT s.*, s.from_ms, s.to_ms FROM sessions AS s SEMI JOIN (FROM attached WHERE number IS NULL) USING (node_id, from_ms) WHERE s.kind = 'node'
),
timed AS (
    SELECT p.*, n.cluster, n.node, n.provider, n.gpu_model, greatest(p.last_ms, coalesce(p.absent_from_ms, 0)) + 1800000 AS until_ms,
        (SELECT list_sort(list(DISTINCT a.namespace || '/' || a.workload)) FROM allocations AS a
            WHERE a.node_id = p.node_id AND a.held_from_ms <= p.from_ms AND p.from_ms - 120000 <= a.held_to_ms
                AND (p.absent_from_ms IS NOT NULL OR list_contains(p.allocation_ids, a.allocation_id))) AS workloads
    FROM places AS p JOIN nodes AS n USING (node_id)
)
SELECT row_number() OVER (ORDER BY t.from_ms, t.cluster, t.node, t.main.cause, t.place) AS incident_id, t.cluster, t.node, t.node_id, t.provider, t.gpu_model, t.main.cause AS cause,
    CASE WHEN t.main.cause = 'xid' THEN t.main.code END AS xid, t.main.detail AS detail, t.main.is_evidence AS is_evidence,
    coalesce(t.devices, []) AS devices, coalesce(t.workloads, []) AS workloads, t.allocation_ids, t.restarts::BIGINT AS restarts,
    t.from_ms, greatest(t.to_ms, coalesce(t.absent_to_ms, 0)) AS to_ms, t.absent_from_ms, t.absent_to_ms, t.until_ms
FROM timed AS t
-- restarts of workloads with pods on a device or node with an incident are part of that
WHERE t.kind <> 'pod' OR NOT EXISTS (
    FROM timed AS o WHERE o.kind IN ('device', 'node') AND o.cluster = t.cluster AND o.from_ms - 120000 <= t.from_ms AND t.from_ms <= o.until_ms
        AND list_has_any(o.workloads, t.workloads));
