-- reads: health_events, profile_hours, nodes, allocations; $clusters filters (empty: all); $hardware, $application list XIDs
-- writes: incident_signs, one row per sign of a failure, in all stored time: its kind, its evidence, and the number of its session
-- invariant: signs of one kind and node, of pods and throttling also of one workload, up to ten minutes apart are one session; is_evidence is false for errors of applications, cordons, drains and declared off time, reclaimed or removed nodes, and time without samples
CREATE OR REPLACE TEMP TABLE incident_signs AS
WITH events AS (
    SELECT *, CASE WHEN uuid IS NOT NULL THEN 'device' WHEN cause IN ('restarted', 'evicted') THEN 'pod'
        WHEN cause IN ('cordoned', 'drained', 'off') OR (cause = 'slurm' AND detail NOT ILIKE 'DOWN%not responding%')
            THEN 'closed' ELSE 'node' END AS kind
    FROM health_events
    UNION ALL BY NAME
    -- hours in which clocks were reduced for a tenth of the time
    SELECT a.node_id, p.measure AS cause, [p.allocation_id] AS allocation_ids, p.from_ms,
        p.from_ms + 3600000 AS to_ms, true AS is_witnessed, 'throttle' AS kind
    FROM profile_hours AS p JOIN allocations AS a USING (allocation_id)
    WHERE p.measure IN ('thermal_throttle', 'power_throttle') AND p.value_gpu_ms >= 0.1 * p.measured_gpu_ms
),
closed AS (
    FROM events WHERE kind = 'closed'
),
signs AS (
    SELECT e.*, CASE WHEN e.kind IN ('pod', 'throttle')
            THEN (SELECT e.cause || a.namespace || a.workload FROM allocations AS a
                WHERE a.allocation_id = e.allocation_ids[1]) ELSE '' END AS place,
        coalesce(e.cause = 'xid' AND list_contains($application::BIGINT[], e.code), false) AS is_application,
        e.is_witnessed AND CASE
            WHEN e.kind IN ('closed', 'pod', 'throttle') THEN false
            WHEN e.cause = 'xid' THEN list_contains($hardware::BIGINT[], e.code)
            WHEN e.kind = 'device' THEN e.cause <> 'row_remap'
            -- a moment may be a restart of a plugin, and time after a cordon maintenance
            ELSE e.to_ms - e.from_ms >= 600000 AND NOT EXISTS (
                FROM closed AS c WHERE c.node_id = e.node_id
                    AND c.from_ms < e.from_ms AND e.from_ms - 600000 <= c.to_ms) END
            -- a reclaimed spot node, or a node removed at once
            AND NOT (e.to_ms >= n.up_to_ms - 600000
                AND (n.capacity_type = 'spot' OR e.from_ms >= n.up_to_ms - 1800000)) AS is_evidence
    FROM events AS e JOIN nodes AS n USING (node_id)
    WHERE passes($clusters, n.cluster)
),
marked AS (
    SELECT *, coalesce(from_ms > max(to_ms)
        OVER (PARTITION BY kind, node_id, place ORDER BY from_ms,
            to_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 600000, true) AS begins
    FROM signs
)
SELECT *, sum(begins::INTEGER) OVER (PARTITION BY kind, node_id, place ORDER BY from_ms, to_ms) AS number FROM marked;
