-- reads: allocations, allocation_hosts, nodes, node_hosts; the span [span_from_ms, span_to_ms)
-- writes: over_requested, one row per (node, 'gpu', 'cpu' or 'memory', span in which pods hold more of it than the node has)
-- invariant: held_units > units
CREATE OR REPLACE TEMP TABLE over_requested AS
WITH held AS (
    SELECT allocation_id, node_id, 'gpu' AS part, gpus AS units, held_from_ms, held_to_ms FROM allocations
    WHERE held_from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < held_to_ms
),
requested AS (
    FROM held UNION ALL SELECT h.* REPLACE (r.part AS part, r.units AS units) FROM held AS h JOIN allocation_hosts AS r USING (allocation_id)
),
changes AS (
    SELECT node_id, part, at_ms, sum(units) AS change
    FROM (
        SELECT node_id, part, held_from_ms AS at_ms, units FROM requested
        UNION ALL
        SELECT node_id, part, held_to_ms, -units FROM requested
    )
    GROUP BY ALL
),
levels AS (
    SELECT node_id, part, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(change) OVER w AS held_units
    FROM changes
    WINDOW w AS (PARTITION BY node_id, part ORDER BY at_ms)
)
SELECT l.node_id, l.part, l.from_ms, l.to_ms, l.held_units, n.units
FROM levels AS l
JOIN (SELECT node_id, 'gpu' AS part, gpu_count AS units FROM nodes UNION ALL FROM node_hosts) AS n USING (node_id, part)
-- sevenths of a GPU and tenths of a core do not add up exactly in binary
WHERE l.held_units > n.units + CASE l.part WHEN 'gpu' THEN 1e-6 ELSE n.units * 1e-9 END AND l.to_ms IS NOT NULL;
