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
    SELECT unnest(allocation_ids) AS allocation_id, from_ms AS at_ms, cause = 'restarted' AS stays FROM health_events WHERE cause IN ('restarted', 'evicted')
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
placed AS (
    SELECT e.*, a.node_id, a.cluster, a.namespace, a.workload FROM ends AS e JOIN allocations AS a USING (allocation_id) WHERE a.held_from_ms < e.at_ms
),
hits AS (
    SELECT DISTINCT i.incident_id, i.from_ms, i.until_ms, p.cluster, p.namespace, p.workload
    FROM incidents AS i JOIN placed AS p ON p.node_id = i.node_id AND i.from_ms - 120000 <= p.at_ms AND p.at_ms <= i.until_ms
        AND (i.absent_from_ms IS NOT NULL OR list_contains(i.allocation_ids, p.allocation_id))
),
hit AS (
    SELECT h.incident_id, p.allocation_id, p.cluster, p.namespace, p.workload, min(p.at_ms) AS stop_ms, arg_min(p.stays, p.at_ms) AS stays
    FROM hits AS h JOIN placed AS p ON (p.cluster, p.namespace, p.workload) = (h.cluster, h.namespace, h.workload) AND h.from_ms - 120000 <= p.at_ms AND p.at_ms <= h.until_ms
    GROUP BY h.incident_id, p.allocation_id, p.cluster, p.namespace, p.workload
    QUALIFY row_number() OVER (PARTITION BY p.allocation_id, min(p.at_ms) ORDER BY h.incident_id) = 1
),
-- completed work is not lost
complete AS (
    SELECT c.cluster, c.namespace, c.workload, v.at_ms
    FROM progress_values AS v JOIN progress_series AS s USING (series_id) JOIN unit_candidates AS c USING (series_id)
    WHERE s.kind <> 'gauge' AND NOT s.is_failure AND (s.unit = 'request' OR s.unit LIKE 'checkpoint%')
    QUALIFY s.kind = 'event' OR v.value > lag(v.value) OVER (PARTITION BY v.series_id, c.allocation_id ORDER BY v.at_ms)
)
SELECT row_number() OVER (ORDER BY h.incident_id, h.allocation_id) AS stop_id, h.incident_id, h.allocation_id, h.cluster, h.namespace, h.workload, h.stop_ms,
    (SELECT max(c.at_ms) FROM complete AS c WHERE (c.cluster, c.namespace, c.workload) = (h.cluster, h.namespace, h.workload) AND c.at_ms <= h.stop_ms) AS complete_ms,
    CASE WHEN h.stays THEN h.stop_ms ELSE (SELECT min(a.held_from_ms) FROM allocations AS a
        WHERE (a.cluster, a.namespace, a.workload) = (h.cluster, h.namespace, h.workload) AND a.held_from_ms >= h.stop_ms - 60000 AND a.allocation_id <> h.allocation_id) END AS again_ms
FROM hit AS h;
