-- reads: progress_runs, progress_series, progress_values, allocations; $from_ms, $to_ms the period
-- writes: unit_run_places, the runs of experiment trackers that were alive in the period, with their workload; null if unknown
-- invariant: one row per source and run
CREATE OR REPLACE TEMP TABLE unit_run_places AS
WITH names AS (
    SELECT cluster, namespace, workload, held_from_ms, held_to_ms, unnest(list_distinct([workload, split_part(workload, '/', 2)])) AS name, false AS is_pod
    FROM allocations
    UNION ALL
    SELECT cluster, namespace, workload, held_from_ms, held_to_ms, pod, true FROM allocations
),
asked AS (
    SELECT source, run_id, cluster, namespace, started_ms, coalesce(ended_ms, $to_ms) AS ended_ms,
        unnest(CASE WHEN workload IS NULL THEN string_split(coalesce(pod, ''), ',') ELSE [workload] END) AS name
    FROM progress_runs
),
placed AS (
    SELECT a.source, a.run_id, arg_min({'cluster': n.cluster, 'namespace': n.namespace, 'workload': n.workload},
        (greatest(n.held_from_ms - a.ended_ms, a.started_ms - n.held_to_ms, 0), n.cluster, n.namespace, n.workload)) AS place
    FROM asked AS a
    JOIN names AS n ON n.name = trim(a.name) AND n.cluster = coalesce(a.cluster, n.cluster) AND n.namespace = coalesce(a.namespace, n.namespace)
        -- pod names are reused: only a pod that existed during the run matches
        AND (NOT n.is_pod OR (n.held_from_ms <= a.ended_ms AND a.started_ms <= n.held_to_ms))
    GROUP BY ALL
),
logged AS (
    SELECT s.source, s.run_id, max(v.at_ms) AS last_ms FROM progress_series AS s JOIN progress_values AS v USING (series_id) GROUP BY ALL
),
open_runs AS (
    -- a tracker never learns that a run was killed: it ended with its pods if another run of the workload began later
    SELECT r.source, r.run_id, r.parent_id, p.place, max(a.held_to_ms) AS died_ms
    FROM progress_runs AS r
    JOIN placed AS p USING (source, run_id)
    LEFT JOIN logged AS l USING (source, run_id)
    JOIN allocations AS a ON a.cluster = p.place.cluster AND a.namespace = p.place.namespace AND a.workload = p.place.workload
        -- runs that began in the pods, and runs that continued in them
        AND a.held_from_ms <= greatest(r.started_ms, l.last_ms) AND r.started_ms < a.held_to_ms
    WHERE r.ended_ms IS NULL
    GROUP BY ALL
),
killed AS (
    SELECT d.source, d.run_id, d.died_ms
    FROM open_runs AS d
    WHERE EXISTS (
        FROM progress_runs AS o JOIN placed AS p USING (source, run_id)
        WHERE p.place = d.place AND o.started_ms >= d.died_ms AND o.run_id <> d.run_id AND o.parent_id IS DISTINCT FROM d.run_id)
)
SELECT r.source, r.run_id, r.parent_id, r.experiment, r.name, r.status, r.started_ms, coalesce(r.ended_ms, k.died_ms) AS ended_ms, r.planned_epochs,
    coalesce(r.workload, r.namespace || '/' || r.pod, r.pod) AS label, CASE WHEN r.workload IS NULL THEN coalesce(r.pod, '') ELSE '' END AS pods,
    p.place.cluster AS cluster, p.place.namespace AS namespace, p.place.workload AS workload
FROM progress_runs AS r LEFT JOIN placed AS p USING (source, run_id) LEFT JOIN killed AS k USING (source, run_id)
WHERE r.started_ms < $to_ms AND coalesce(r.ended_ms, k.died_ms, $to_ms) > $from_ms;
