-- reads: cost_rows; $by is the list of dimensions to group by, $most limits the rows
-- writes: nothing; answers one row per kind and combination of the dimensions asked for, the dearest first, other dimensions null
-- invariant: with any $by the measures add up to the same totals
WITH sums AS (
    SELECT kind, dimensions($by, f) AS keys,
        sum(allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                        AS allocated_gpu_ms,
        sum(active_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                           AS active_gpu_ms,
        sum(idle_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                             AS idle_gpu_ms,
        sum(unmeasured_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                       AS unmeasured_gpu_ms,
        sum(utilization_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS utilization_gpu_ms,
        sum((CASE WHEN capacity_type = 'spot' THEN allocated_gpu_ms ELSE 0 END)::DECIMAL(38, 6))::DOUBLE     AS spot_gpu_ms,
        sum((CASE WHEN capacity_type <> 'unknown' THEN allocated_gpu_ms ELSE 0 END)::DECIMAL(38, 6))::DOUBLE AS known_capacity_gpu_ms,
        sum(unallocated_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS unallocated_gpu_ms,
        sum(unavailable_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS unavailable_gpu_ms,
        sum(not_collected_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                    AS not_collected_gpu_ms,
        sum(cost)                                                                                            AS cost,
        sum(idle_cost)                                                                                       AS idle_cost,
        sum(CASE WHEN capacity_type = 'spot' THEN cost ELSE 0 END)                                           AS spot_cost,
        sum(unallocated_cost)                                                                                AS unallocated_cost,
        sum(not_collected_cost)                                                                              AS not_collected_cost,
        sum(estimated_cost)                                                                                  AS estimated_cost
    FROM cost_rows AS f
    GROUP BY ALL
)
SELECT kind, unnest(keys), * EXCLUDE (kind, keys)
FROM sums
ORDER BY kind, cost DESC, keys.cluster NULLS LAST, keys.namespace NULLS LAST, keys.workload NULLS LAST
LIMIT $most::BIGINT;
