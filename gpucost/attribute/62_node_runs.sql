-- reads: node_segments, billed_time
-- writes: node_runs (stored), one row per (run, node): the capacity and cost of each of its cells, and the price source
-- invariant: one row per (from_ms, node_id)
INSERT INTO node_runs BY NAME
WITH excess AS (
    SELECT node_id, segment_from_ms, sum(unit_ms - billed_unit_ms) AS gpu_ms FROM billed_time WHERE part = 'gpu' GROUP BY ALL
)
SELECT * EXCLUDE (longest), longest.price_source, longest.price_as_of
FROM (
    SELECT l.cell_from_ms AS from_ms, l.cell_to_ms AS to_ms, l.hours, l.node_id,
        round(sum(CASE WHEN l.is_collected THEN l.capacity_gpu_ms ELSE 0 END), 6) AS capacity_gpu_ms,
        round(sum(CASE WHEN e.gpu_ms > 1 THEN e.gpu_ms ELSE 0 END), 6) AS over_allocated_gpu_ms,
        sum(l.node_cost)::DECIMAL(38, 9) AS node_cost,
        arg_max({'price_source': l.price_source, 'price_as_of': l.price_as_of}, (l.to_ms - l.from_ms, -l.from_ms)) AS longest
    FROM node_segments AS l
    LEFT JOIN excess AS e ON e.node_id = l.node_id AND e.segment_from_ms = l.from_ms
    GROUP BY ALL
);
