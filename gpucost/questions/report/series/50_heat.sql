-- reads: hourly_costs, nodes, allocations, series_hours; $teams, $namespaces, $clusters, $workloads, $users filter (empty: all); `part` names the team of a report on each team
-- writes: nothing; answers GPU-milliseconds by local weekday and hour
-- invariant: sums are those over series_rows
WITH cells AS (
    FROM hourly_costs(getvariable('report_from_ms'), getvariable('report_to_ms'))
),
begun AS (
    SELECT c.from_ms, h.weekday, h.hour
    FROM (SELECT DISTINCT from_ms FROM cells) AS c
    JOIN series_hours AS h ON c.from_ms >= h.from_ms AND c.from_ms < h.to_ms
)
SELECT
    part_of(c.team) AS part, b.weekday, b.hour,
    sum(c.idle_gpu_ms::DECIMAL(38, 6))::DOUBLE                               AS idle,
    sum((c.active_gpu_ms + c.idle_gpu_ms)::DECIMAL(38, 6))::DOUBLE           AS measured,
    sum(c.unallocated_gpu_ms::DECIMAL(38, 6))::DOUBLE                        AS unallocated,
    sum((c.allocated_gpu_ms + c.unallocated_gpu_ms)::DECIMAL(38, 6))::DOUBLE AS offered
FROM cells AS c
JOIN begun AS b USING (from_ms)
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE passes($clusters, n.cluster) AND passes($namespaces, a.namespace) AND passes($teams, c.team)
    AND passes_workload($workloads, a.workload) AND passes($users, a."user")
GROUP BY ALL
ORDER BY ALL;
