-- reads: cost_daily or hourly_costs, nodes, allocations, label_spans, series_moments; $by_day: whole local days, and no moment is shorter; variable filters
-- writes: series_rows, one row per (moment, kind, place, holder) with the sums of time and money
-- invariant: sums over series_rows are the sums over the cells of the period that pass the filters, as in cost_rows
CREATE OR REPLACE TEMP TABLE series_rows AS
WITH cells AS (
    SELECT * FROM cost_daily
    WHERE $by_day AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
    UNION ALL BY NAME
    FROM hourly_costs(getvariable('report_from_ms'), getvariable('report_to_ms')) WHERE NOT $by_day
),
begun AS (
    SELECT c.from_ms, m.moment
    FROM (SELECT DISTINCT from_ms FROM cells) AS c
    JOIN series_moments AS m ON c.from_ms >= m.from_ms AND c.from_ms < m.to_ms
)
SELECT
    b.moment, c.kind, n.cluster, n.gpu_model, n.capacity_type, a.namespace, a.workload, c.team,
    total_ms(c.active_gpu_ms) AS active_gpu_ms,
    total_ms(c.idle_gpu_ms) AS idle_gpu_ms,
    total_ms(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    total_ms(c.unallocated_gpu_ms) AS unallocated_gpu_ms,
    sum(c.cost)                                       AS cost,
    sum(c.unallocated_cost)                           AS unallocated_cost,
    sum(c.not_collected_cost)                         AS not_collected_cost
FROM cells AS c
JOIN begun AS b USING (from_ms)
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN label_spans AS l ON l.node_id = c.node_id AND l.allocation_id IS NOT DISTINCT FROM c.allocation_id
    AND l.from_ms <= c.from_ms AND c.from_ms < l.to_ms
WHERE is_selected(n.cluster, a.namespace, c.team, a.workload, a."user", l.is_selected)
GROUP BY ALL;
