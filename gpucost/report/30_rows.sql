-- reads: report_facts; $by is the list of dimensions to group by, $most limits the rows
-- writes: nothing; answers one row per kind and combination of the dimensions asked for, the dearest first, other dimensions null
-- invariant: with any $by the measures add up to the same totals
SELECT
    kind,
    CASE WHEN list_contains($by::VARCHAR[], 'cluster') THEN cluster END                                  AS cluster,
    CASE WHEN list_contains($by::VARCHAR[], 'namespace') THEN namespace END                              AS namespace,
    CASE WHEN list_contains($by::VARCHAR[], 'team') THEN team END                                        AS team,
    CASE WHEN list_contains($by::VARCHAR[], 'workload') THEN workload END                                AS workload,
    CASE WHEN list_contains($by::VARCHAR[], 'workload_type') THEN workload_type END                      AS workload_type,
    CASE WHEN list_contains($by::VARCHAR[], 'pod') THEN pod END                                          AS pod,
    CASE WHEN list_contains($by::VARCHAR[], 'uid') THEN uid END                                          AS uid,
    CASE WHEN list_contains($by::VARCHAR[], 'node') THEN node END                                        AS node,
    CASE WHEN list_contains($by::VARCHAR[], 'gpu_model') THEN gpu_model END                              AS gpu_model,
    CASE WHEN list_contains($by::VARCHAR[], 'capacity_type') THEN capacity_type END                      AS capacity_type,
    CASE WHEN list_contains($by::VARCHAR[], 'region') THEN region END                                    AS region,
    CASE WHEN list_contains($by::VARCHAR[], 'zone') THEN zone END                                        AS zone,
    CASE WHEN list_contains($by::VARCHAR[], 'month') THEN month END                                      AS month,
    CASE WHEN list_contains($by::VARCHAR[], 'day') THEN day END                                          AS day,
    CASE WHEN list_contains($by::VARCHAR[], 'hour') THEN hour END                                        AS hour,
    sum(allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                        AS allocated,
    sum(active_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                           AS active,
    sum(idle_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                             AS idle,
    sum(unmeasured_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                       AS unmeasured,
    sum(utilization_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS utilization,
    sum((CASE WHEN capacity_type = 'spot' THEN allocated_gpu_ms ELSE 0 END)::DECIMAL(38, 6))::DOUBLE     AS spot,
    sum((CASE WHEN capacity_type <> 'unknown' THEN allocated_gpu_ms ELSE 0 END)::DECIMAL(38, 6))::DOUBLE AS known_capacity,
    sum(unallocated_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS unallocated,
    sum(unavailable_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                      AS unavailable,
    sum(not_collected_gpu_ms::DECIMAL(38, 6))::DOUBLE                                                    AS not_collected,
    sum(cost)                                                                                            AS cost,
    sum(idle_cost)                                                                                       AS idle_cost,
    sum(CASE WHEN capacity_type = 'spot' THEN cost ELSE 0 END)                                           AS spot_cost,
    sum(unallocated_cost)                                                                                AS unallocated_cost,
    sum(not_collected_cost)                                                                              AS not_collected_cost,
    sum(estimated_cost)                                                                                  AS estimated_cost
FROM report_facts
GROUP BY ALL
ORDER BY kind, cost DESC, cluster NULLS LAST, namespace NULLS LAST, workload NULLS LAST
LIMIT $most::BIGINT;
