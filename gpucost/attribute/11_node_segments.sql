-- reads: nodes, collected, node_stops, price_spans, unseen_time, allocations, allocation_teams, absences, local_days, cuts; the span [span_from_ms, span_to_ms)
-- writes: node_segments, one row per span of a node's life inside one cell, at one price: the atoms of the bill; of `hours` equal cells in a row, only the first; segments from a bill alone are not collected
-- invariant: node_segments of a node do not overlap; a cell ends at each hour, local midnight and cut; if hours > 1, no money changes before the end of the last cell; node_cost = price x hours, zero without a price, and 0 <= gpu_cost + cpu_cost <= node_cost
CREATE OR REPLACE TEMP TABLE node_segments AS
WITH lives AS (
    SELECT n.node_id, n.gpu_count,
        greatest(n.up_from_ms, c.from_ms, getvariable('span_from_ms')) AS from_ms,
        least(n.up_to_ms, c.to_ms, getvariable('span_to_ms')) AS to_ms
    FROM nodes AS n JOIN collected AS c USING (cluster)
),
-- the time between a node's stops
running AS (
    SELECT l.node_id, l.gpu_count,
        unnest(list_prepend(l.from_ms, coalesce(list_sort(list(s.to_ms) FILTER (s.to_ms IS NOT NULL)), []))) AS from_ms,
        unnest(list_append(coalesce(list_sort(list(s.from_ms) FILTER (s.from_ms IS NOT NULL)), []), l.to_ms)) AS to_ms
    FROM lives AS l
    LEFT JOIN node_stops AS s ON s.node_id = l.node_id AND s.from_ms < l.to_ms AND l.from_ms < s.to_ms
    WHERE l.from_ms < l.to_ms
    GROUP BY l.node_id, l.gpu_count, l.from_ms, l.to_ms
),
priced AS (
    SELECT l.node_id, l.gpu_count, p.price_per_hour, p.price_source, p.price_as_of, p.gpu_fraction, p.cpu_fraction,
        greatest(l.from_ms, p.from_ms) AS from_ms, least(l.to_ms, p.to_ms) AS to_ms
    FROM running AS l JOIN price_spans AS p ON p.node_id = l.node_id AND p.from_ms < l.to_ms AND l.from_ms < p.to_ms
    WHERE l.from_ms < l.to_ms
),
told AS MATERIALIZED (
    SELECT *, 1.0 AS up_ratio, true AS is_collected FROM priced
    UNION ALL BY NAME
    SELECT u.node_id, n.gpu_count, u.price_per_hour, 'bill' AS price_source, u.price_as_of, NULL AS gpu_fraction, NULL AS cpu_fraction,
        greatest(u.from_ms, getvariable('span_from_ms')) AS from_ms, least(u.to_ms, getvariable('span_to_ms')) AS to_ms,
        u.up_ratio, false AS is_collected
    FROM unseen_time AS u JOIN nodes AS n USING (node_id)
    WHERE u.from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < u.to_ms
),
-- moments that change a node's money: its price, its holders and their teams, its unavailable parts
changes AS (
    SELECT node_id, unnest([from_ms, to_ms]) AS at_ms FROM told
    UNION
    SELECT node_id, unnest([held_from_ms, held_to_ms]) FROM allocations
    WHERE held_from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < held_to_ms
    UNION
    SELECT a.node_id, t.from_ms FROM allocation_teams AS t JOIN allocations AS a USING (allocation_id)
    WHERE t.from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < t.from_ms
    UNION
    SELECT node_id, unnest([from_ms, to_ms]) FROM absences WHERE from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < to_ms
),
cell_edges AS (
    SELECT node_id, at_ms
    FROM (SELECT DISTINCT node_id FROM told)
    CROSS JOIN (SELECT from_ms AS at_ms FROM local_days UNION SELECT to_ms FROM local_days UNION SELECT at_ms FROM cuts)
),
-- hours with a change are separate runs
edges AS (
    SELECT node_id, at_ms FROM cell_edges
    UNION
    SELECT node_id, unnest([at_ms // 3600000, (at_ms + 3599999) // 3600000]) * 3600000
    FROM (FROM changes UNION FROM cell_edges)
    WHERE at_ms BETWEEN getvariable('span_from_ms') AND getvariable('span_to_ms')
),
pairs AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
    WHERE at_ms >= getvariable('span_from_ms') AND at_ms <= getvariable('span_to_ms')
),
runs AS MATERIALIZED (
    SELECT node_id, from_ms AS cell_from_ms, least(to_ms, from_ms + 3600000) AS cell_to_ms, greatest(1, (to_ms - from_ms) // 3600000) AS hours
    FROM pairs
    WHERE to_ms IS NOT NULL
),
-- neither spans nor runs of a node overlap: of an overlapping pair, one begins within the other
cut AS (
    SELECT p.* REPLACE (r.cell_from_ms AS from_ms, least(r.cell_to_ms, p.to_ms) AS to_ms), r.cell_from_ms, r.cell_to_ms, r.hours
    FROM runs AS r ASOF JOIN told AS p ON p.node_id = r.node_id AND r.cell_from_ms >= p.from_ms
    WHERE r.cell_from_ms < p.to_ms
    UNION ALL
    SELECT p.* REPLACE (least(r.cell_to_ms, p.to_ms) AS to_ms), r.cell_from_ms, r.cell_to_ms, r.hours
    FROM told AS p ASOF JOIN runs AS r ON r.node_id = p.node_id AND p.from_ms > r.cell_from_ms
    WHERE p.from_ms < r.cell_to_ms
)
SELECT
    * EXCLUDE (gpu_fraction, cpu_fraction, up_ratio),
    (from_ms // 3600000)::INTEGER AS hour,
    gpu_count * (to_ms - from_ms) * up_ratio AS capacity_gpu_ms,
    coalesce((price_per_hour * ((to_ms - from_ms) / 3600000.0 * up_ratio))::DECIMAL(38, 9), 0) AS node_cost,
    -- memory has the rest; cpu_cost is null if the GPUs carry the whole price
    CASE WHEN gpu_fraction IS NULL THEN node_cost ELSE least((node_cost * gpu_fraction)::DECIMAL(38, 9), node_cost) END AS gpu_cost,
    least((node_cost * cpu_fraction)::DECIMAL(38, 9), CASE WHEN gpu_fraction IS NOT NULL THEN node_cost - gpu_cost END) AS cpu_cost
FROM cut;
