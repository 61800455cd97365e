-- reads: allocations, nodes; the span [span_from_ms, span_to_ms)
-- writes: over_allocated, one row per (node, stretch in which pods hold more GPUs than there are)
-- invariant: held_gpus > gpu_count
CREATE OR REPLACE TEMP TABLE over_allocated AS
WITH held AS (
    SELECT node_id, gpus, held_from_ms, held_to_ms FROM allocations
    WHERE held_from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < held_to_ms
),
changes AS (
    SELECT node_id, at_ms, sum(gpus) AS change
    FROM (SELECT node_id, held_from_ms AS at_ms, gpus FROM held UNION ALL SELECT node_id, held_to_ms, -gpus FROM held)
    GROUP BY ALL
),
levels AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(change) OVER w AS held_gpus
    FROM changes
    WINDOW w AS (PARTITION BY node_id ORDER BY at_ms)
)
SELECT l.node_id, l.from_ms, l.to_ms, l.held_gpus, n.gpu_count
FROM levels AS l JOIN nodes AS n USING (node_id)
-- sevenths do not add up exactly in binary
WHERE l.held_gpus > n.gpu_count + 1e-6 AND l.to_ms IS NOT NULL;
