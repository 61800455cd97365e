-- reads: allocations, allocation_hosts, node_hosts; the span [span_from_ms, span_to_ms)
-- writes: over_requested, one row per (node, 'cpu' or 'memory', stretch in which pods request more than the node has)
-- invariant: held_units > units
CREATE OR REPLACE TEMP TABLE over_requested AS
WITH held AS (
    SELECT a.node_id, r.part, r.units, a.held_from_ms, a.held_to_ms
    FROM allocations AS a JOIN allocation_hosts AS r USING (allocation_id)
    WHERE a.held_from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < a.held_to_ms
),
changes AS (
    SELECT node_id, part, at_ms, sum(units) AS change
    FROM (
        SELECT node_id, part, held_from_ms AS at_ms, units FROM held
        UNION ALL
        SELECT node_id, part, held_to_ms, -units FROM held
    )
    GROUP BY ALL
),
levels AS (
    SELECT node_id, part, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(change) OVER w AS held_units
    FROM changes
    WINDOW w AS (PARTITION BY node_id, part ORDER BY at_ms)
)
SELECT l.node_id, l.part, l.from_ms, l.to_ms, l.held_units, n.units
FROM levels AS l JOIN node_hosts AS n USING (node_id, part)
-- tenths of a core do not add up exactly in binary
WHERE l.held_units > n.units * (1 + 1e-9) AND l.to_ms IS NOT NULL;
