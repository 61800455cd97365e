-- reads: pending_requests, allocations, nodes; variables waste_from_ms, waste_to_ms bound the period
-- writes: waste_wanted, the smallest request that free GPUs could have met: per (cluster, hour) of the pods that waited, and per (cluster, GPU model) of those that ran
-- invariant: hour is null in rows of what ran, gpu_model in rows of what waited
CREATE OR REPLACE TEMP TABLE waste_wanted AS
SELECT cluster, hour, NULL::VARCHAR AS gpu_model, min(gpus) AS gpus
FROM (
    SELECT cluster, gpus, unnest(range(greatest(from_ms, getvariable('waste_from_ms')) // 3600000,
        (least(to_ms, getvariable('waste_to_ms')) - 1) // 3600000 + 1)) AS hour
    FROM pending_requests
    WHERE from_ms < getvariable('waste_to_ms') AND getvariable('waste_from_ms') < to_ms
)
GROUP BY ALL
UNION ALL
SELECT n.cluster, NULL, n.gpu_model, min(a.gpus)
FROM allocations AS a JOIN nodes AS n USING (node_id)
WHERE a.gpus > 0 AND a.held_from_ms < getvariable('waste_to_ms') AND getvariable('waste_from_ms') < a.held_to_ms
GROUP BY ALL;
