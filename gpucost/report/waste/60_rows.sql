-- reads: waste_facts; $by is the list of dimensions to group by
-- writes: nothing; answers one row per bucket and combination of the dimensions asked for
-- invariant: with any $by GPU time and cost add up to the same totals
SELECT
    bucket,
    CASE WHEN list_contains($by::VARCHAR[], 'cluster') THEN cluster END             AS cluster,
    CASE WHEN list_contains($by::VARCHAR[], 'namespace') THEN namespace END         AS namespace,
    CASE WHEN list_contains($by::VARCHAR[], 'team') THEN team END                   AS team,
    CASE WHEN list_contains($by::VARCHAR[], 'workload') THEN workload END           AS workload,
    CASE WHEN list_contains($by::VARCHAR[], 'workload_type') THEN workload_type END AS workload_type,
    CASE WHEN list_contains($by::VARCHAR[], 'pod') THEN pod END                     AS pod,
    CASE WHEN list_contains($by::VARCHAR[], 'uid') THEN uid END                     AS uid,
    CASE WHEN list_contains($by::VARCHAR[], 'node') THEN node END                   AS node,
    CASE WHEN list_contains($by::VARCHAR[], 'gpu_model') THEN gpu_model END         AS gpu_model,
    CASE WHEN list_contains($by::VARCHAR[], 'capacity_type') THEN capacity_type END AS capacity_type,
    CASE WHEN list_contains($by::VARCHAR[], 'region') THEN region END               AS region,
    CASE WHEN list_contains($by::VARCHAR[], 'zone') THEN zone END                   AS zone,
    CASE WHEN list_contains($by::VARCHAR[], 'month') THEN month END                 AS month,
    CASE WHEN list_contains($by::VARCHAR[], 'day') THEN day END                     AS day,
    CASE WHEN list_contains($by::VARCHAR[], 'hour') THEN hour END                   AS hour,
    sum(gpu_ms::DECIMAL(38, 6))::DOUBLE                                            AS gpu_ms,
    sum(cost)::DECIMAL(38, 9)                                                       AS cost
FROM waste_facts
GROUP BY ALL;
