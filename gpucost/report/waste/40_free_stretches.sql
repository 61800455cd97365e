-- reads: nodes, allocations; variables waste_from_ms, waste_to_ms bound the period; $empty_after_ms
-- writes: waste_free_stretches, one row per stretch of a node's life in which the same GPUs of it are free
-- invariant: 0 < free_gpus; is_empty where nobody held any GPU of the node for $empty_after_ms or longer
CREATE OR REPLACE TEMP TABLE waste_free_stretches AS
WITH near AS (
    SELECT node_id, gpus, held_from_ms, held_to_ms FROM allocations
    WHERE gpus > 0 AND held_from_ms < getvariable('waste_to_ms') + $empty_after_ms AND getvariable('waste_from_ms') - $empty_after_ms < held_to_ms
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
)
SELECT l.node_id, n.cluster, n.gpu_model, l.from_ms, l.to_ms, n.gpu_count - l.held_gpus AS free_gpus,
    -- sevenths do not add up exactly in binary
    l.held_gpus < 1e-6 AS is_unheld,
    l.held_gpus < 1e-6 AND l.to_ms - l.from_ms >= $empty_after_ms AS is_empty
FROM levels AS l JOIN nodes AS n USING (node_id)
WHERE l.to_ms IS NOT NULL AND n.gpu_count - l.held_gpus > 1e-6;
