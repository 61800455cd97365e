-- reads: incidents, health_events, allocations, allocation_traits, collected, series, states, progress_series, progress_values, unit_candidates
-- writes: incident_stops, one row per incident and pod whose work ended with it: when, the last completed request or checkpoint before, and when the workload ran again
-- invariant: pods of a workload on other nodes count if they stopped at that time, too; a finished pod does not; a pod stops once, with its earliest incident
CREATE OR REPLACE TEMP TABLE incident_stops AS
WITH done AS (
    SELECT DISTINCT s.cluster, coalesce(s.labels['exported_uid'], s.labels['uid']) AS uid
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'kube_pod_status_phase' AND s.labels['phase'] = 'Succeeded' AND t.value = 1
),
ends AS (
    SELECT unnest(allocation_ids) AS allocation_id, from_ms AS at_ms, cause = 'restarted' AS stays
    FROM health_events WHERE cause IN ('restarted', 'evicted')
    UNION ALL
    SELECT a.allocation_id, a.held_to_ms, false
    FROM allocations AS a
    LEFT JOIN allocation_traits AS t USING (allocation_id)
    LEFT JOIN done AS d USING (cluster, uid)
    JOIN (SELECT cluster, max(to_ms) AS to_ms FROM collected GROUP BY ALL) AS c USING (cluster)
    WHERE a.gpus > 0 AND a.held_to_ms < c.to_ms - 120000 AND a.workload_kind NOT IN ('Reservation', 'Host')
        -- Slurm records failures; in Kubernetes, a pod that was deleted did not succeed
        AND (t.failed OR (a.partition IS NULL AND d.uid IS NULL))
),
-- A crash loop has many ends: the first in an incident counts.
placed AS (
    SELECT e.*, a.node_id, a.cluster, a.namespace, a.workload
    FROM ends AS e JOIN allocations AS a USING (allocation_id) WHERE a.held_from_ms < e.at_ms
),
pods AS (
    SELECT DISTINCT allocation_id, node_id, cluster, namespace, workload FROM placed
),
hits AS (
    SELECT DISTINCT i.incident_id, i.from_ms, i.until_ms, p.cluster, p.namespace, p.workload
    FROM incidents AS i JOIN pods AS p ON p.node_id = i.node_id
        AND (i.absent_from_ms IS NOT NULL OR list_contains(i.allocation_ids, p.allocation_id))
    ASOF JOIN placed AS e ON e.allocation_id = p.allocation_id AND i.from_ms - 120000 <= e.at_ms
    WHERE e.at_ms <= i.until_ms
),
hit AS (
    SELECT h.incident_id, e.allocation_id, h.cluster, h.namespace, h.workload, e.at_ms AS stop_ms, e.stays
    FROM hits AS h JOIN pods AS p USING (cluster, namespace, workload)
    ASOF JOIN placed AS e ON e.allocation_id = p.allocation_id AND h.from_ms - 120000 <= e.at_ms
    WHERE e.at_ms <= h.until_ms
    QUALIFY row_number() OVER (PARTITION BY e.allocation_id, e.at_ms ORDER BY h.incident_id) = 1
),
-- completed work is not lost
complete AS (
    SELECT c.cluster, c.namespace, c.workload, v.at_ms
    FROM progress_values AS v JOIN progress_series AS s USING (series_id) JOIN unit_candidates AS c USING (series_id)
    WHERE s.kind <> 'gauge' AND NOT s.is_failure AND (s.unit = 'request' OR s.unit LIKE 'checkpoint%')
    QUALIFY s.kind = 'event' OR v.value > lag(v.value) OVER (PARTITION BY v.series_id, c.allocation_id ORDER BY v.at_ms)
)
SELECT row_number() OVER (ORDER BY h.incident_id, h.allocation_id) AS stop_id, h.*, c.at_ms AS complete_ms,
    CASE WHEN h.stays THEN h.stop_ms ELSE (
        SELECT min(a.held_from_ms) FROM allocations AS a
        WHERE (a.cluster, a.namespace, a.workload) = (h.cluster, h.namespace, h.workload)
            AND a.held_from_ms >= h.stop_ms - 60000 AND a.allocation_id <> h.allocation_id) END AS again_ms
FROM hit AS h
ASOF LEFT JOIN complete AS c
    ON (c.cluster, c.namespace, c.workload) = (h.cluster, h.namespace, h.workload) AND h.stop_ms >= c.at_ms;
