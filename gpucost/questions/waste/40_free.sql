-- reads: waste_cells, pending_pods, allocations, nodes, mig_fragmentation; variables report_from_ms, report_to_ms bound the period; $empty_after_ms
-- writes: waste_free, one row per (node, time_bucket): unallocated time without a reservation, cut into four parts of GPU time, each with its cost
-- invariant: the GPU time of the parts adds up to the unallocated time without reservations, and their cost and host_cost to its cost, exactly
CREATE OR REPLACE TEMP TABLE waste_free AS
WITH near AS (
    SELECT node_id, gpus, held_from_ms, held_to_ms FROM allocations
    WHERE gpus > 0 AND held_from_ms < getvariable('report_to_ms') + $empty_after_ms AND getvariable('report_from_ms') - $empty_after_ms < held_to_ms
),
changes AS (
    SELECT node_id, at_ms, sum(change) AS change
    FROM (
        SELECT node_id, up_from_ms AS at_ms, 0.0 AS change FROM nodes
        UNION ALL
        SELECT node_id, up_to_ms, 0.0 FROM nodes
        UNION ALL
        SELECT node_id, held_from_ms, gpus FROM near
        UNION ALL
        SELECT node_id, held_to_ms, -gpus FROM near
    )
    GROUP BY ALL
),
levels AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(change) OVER w AS held_gpus
    FROM changes
    WINDOW w AS (PARTITION BY node_id ORDER BY at_ms)
),
-- intervals of a node's life with the same free GPUs; empty if all GPUs of the node are unallocated for $empty_after_ms
-- or longer, unless its users are unknown
stretches AS (
    SELECT l.node_id, n.cluster, n.gpu_model, l.from_ms, l.to_ms, n.gpu_count - l.held_gpus AS free_gpus,
        -- sevenths do not add up exactly in binary
        l.held_gpus < 1e-6 AS is_unheld,
        l.held_gpus < 1e-6 AND l.to_ms - l.from_ms >= $empty_after_ms AND has_users(n) AS is_empty
    FROM levels AS l JOIN nodes AS n USING (node_id)
    WHERE l.to_ms IS NOT NULL AND n.gpu_count - l.held_gpus > 1e-6
),
-- the smallest request that free GPUs could have met: per (cluster, hour) for waiting pods (no gpu_model), and per
-- (cluster, GPU model) for running ones (no hour)
wanted AS MATERIALIZED (
    SELECT cluster, hour, NULL::VARCHAR AS gpu_model, min(gpus) AS gpus
    FROM (
        SELECT cluster, gpus, unnest(range(greatest(from_ms, getvariable('report_from_ms')) // 3600000,
            (least(to_ms, getvariable('report_to_ms')) - 1) // 3600000 + 1)) AS hour
        FROM pending_pods
        WHERE from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < to_ms
    )
    GROUP BY ALL
    UNION ALL
    SELECT n.cluster, NULL, n.gpu_model, min(a.gpus)
    FROM allocations AS a JOIN nodes AS n USING (node_id)
    WHERE a.gpus > 0 AND a.resource <> 'reservation' AND a.held_from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < a.held_to_ms
    GROUP BY ALL
),
unheld AS (
    SELECT node_id, time_bucket, from_ms, to_ms, (from_ms // 3600000) AS hour, unallocated_gpu_ms, unavailable_gpu_ms, unallocated_cost
    FROM waste_cells
    WHERE kind = 'unallocated' AND allocation_id IS NULL
),
hours AS (
    -- by the hour, so that intervals join cells by equality, not by comparison
    SELECT *, unnest(range(greatest(from_ms, getvariable('report_from_ms')) // 3600000,
        (least(to_ms, getvariable('report_to_ms')) - 1) // 3600000 + 1)) AS hour
    FROM stretches
    WHERE from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < to_ms
),
pieces AS (
    SELECT u.node_id, u.from_ms AS cell_ms, h.cluster, h.gpu_model, h.hour, h.free_gpus, h.is_unheld, h.is_empty,
        greatest(u.from_ms, h.from_ms) AS from_ms, least(u.to_ms, h.to_ms) - greatest(u.from_ms, h.from_ms) AS ms
    FROM unheld AS u JOIN hours AS h ON h.node_id = u.node_id AND h.hour = u.hour AND h.from_ms < u.to_ms AND u.from_ms < h.to_ms
),
sized AS (
    SELECT p.*, least(p.free_gpus, coalesce(l.gpus, 0)) AS leftover_gpus, coalesce(w.gpus, k.gpus, 0) AS wanted_gpus
    FROM pieces AS p
    LEFT JOIN mig_fragmentation AS l ON l.node_id = p.node_id AND l.from_ms <= p.from_ms AND p.from_ms < l.to_ms
    LEFT JOIN wanted AS w ON w.hour = p.hour AND w.cluster = p.cluster
    LEFT JOIN wanted AS k ON k.hour IS NULL AND k.cluster = p.cluster AND k.gpu_model IS NOT DISTINCT FROM p.gpu_model
),
weighed AS (
    SELECT node_id, cell_ms, sum(free_gpus * ms) AS free,
        sum(ms * CASE
            WHEN NOT is_unheld AND free_gpus - leftover_gpus < wanted_gpus - 1e-6 THEN free_gpus
            ELSE leftover_gpus END) AS fragmented,
        sum(CASE WHEN is_empty THEN ms * (free_gpus - leftover_gpus) ELSE 0 END) AS empty
    FROM sized
    GROUP BY ALL
),
timed AS (
    -- unavailable time is not another kind of waste: it is taken from all others in proportion
    SELECT u.*, u.unallocated_gpu_ms - u.unavailable_gpu_ms AS available,
        CASE WHEN w.free > 0 THEN available * (w.fragmented / w.free) ELSE 0 END AS fragmented,
        CASE WHEN w.free > 0 THEN available * (w.empty / w.free) ELSE 0 END AS empty
    FROM unheld AS u LEFT JOIN weighed AS w ON w.node_id = u.node_id AND w.cell_ms = u.from_ms
),
summed AS (
    SELECT *,
        CASE WHEN unallocated_gpu_ms > 0 THEN 0 ELSE unallocated_cost END AS host_cost,
        unallocated_cost - host_cost AS cost,
        CASE WHEN unavailable_gpu_ms > 0 THEN least(cost, (cost * (unavailable_gpu_ms / unallocated_gpu_ms))::DECIMAL(38, 9)) ELSE 0 END AS c1,
        CASE WHEN fragmented > 0
            THEN least(cost, (cost * ((unavailable_gpu_ms + fragmented) / unallocated_gpu_ms))::DECIMAL(38, 9)) ELSE c1 END AS c2,
        CASE WHEN empty > 0
            THEN least(cost, (cost * ((unavailable_gpu_ms + fragmented + empty) / unallocated_gpu_ms))::DECIMAL(38, 9)) ELSE c2 END AS c3
    FROM timed
)
SELECT node_id, time_bucket,
    total_ms(unavailable_gpu_ms) AS unavailable_gpu_ms, sum(c1)::DECIMAL(38, 9) AS unavailable_cost,
    total_ms(fragmented) AS fragmentation_gpu_ms, sum(c2 - c1)::DECIMAL(38, 9) AS fragmentation_cost,
    total_ms(empty) AS empty_node_gpu_ms, sum(c3 - c2)::DECIMAL(38, 9) AS empty_node_cost,
    total_ms(available - fragmented - empty) AS between_jobs_gpu_ms, sum(cost - c3)::DECIMAL(38, 9) AS between_jobs_cost,
    sum(host_cost)::DECIMAL(38, 9) AS host_cost
FROM summed
GROUP BY ALL;
