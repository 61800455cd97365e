-- reads: allocated, state_intervals, loads
-- writes: unproven_ends, one row per allocation that may have ended before its requests did: from the last sample of its phase, or from the later end of a container
-- invariant: held_from_ms <= from_ms < to_ms = held_to_ms; none if a terminal phase has a sample, or phases were scraped to within ten minutes of the end
INSERT INTO unproven_ends BY NAME
WITH phases AS (
    SELECT cluster, uid, max(end_ms) AS end_ms, bool_or(labels['phase'] IN ('Succeeded', 'Failed') AND value = 1) AS is_terminal
    FROM state_intervals
    WHERE metric = 'kube_pod_status_phase' AND uid IS NOT NULL
    GROUP BY ALL
),
completions AS (
    SELECT cluster, uid, min(value) * 1000 AS at_ms FROM state_intervals WHERE metric = 'kube_pod_completion_time' AND uid IS NOT NULL GROUP BY ALL
),
pods AS (
    SELECT a.allocation_id, a.cluster, a.held_to_ms,
        greatest(a.held_from_ms, coalesce(p.end_ms, 0),
            -- if completion times are exported, a pod without one still runs
            CASE WHEN a.cluster IN (SELECT cluster FROM completions) THEN coalesce(c.at_ms, a.held_to_ms) ELSE 0 END)::BIGINT AS from_ms
    FROM allocated AS a
    LEFT JOIN phases AS p ON p.cluster = a.cluster AND p.uid = a.uid
    LEFT JOIN completions AS c ON c.cluster = a.cluster AND c.uid = a.uid
    WHERE a.gpus > 0 AND a.resource <> 'plain_gpu' AND NOT coalesce(p.is_terminal, false)
        -- Slurm's accounting reports the end of a job
        AND a.cluster NOT IN (SELECT source FROM loads WHERE kind = 'slurm')
)
SELECT allocation_id, cluster, from_ms, held_to_ms AS to_ms FROM pods WHERE from_ms < held_to_ms - 600000;
