-- reads: queue_runs
-- writes: queue_edges, one row per (cluster, queue, resource, part) and moment at which one of its gauges begins or ends
-- invariant: [at_ms, next_ms) follow each other without gaps
CREATE OR REPLACE TEMP TABLE queue_edges AS
SELECT *, lead(at_ms) OVER (PARTITION BY cluster, cluster_queue, resource, part ORDER BY at_ms) AS next_ms
FROM (
    SELECT cluster, cluster_queue, resource, part, from_ms AS at_ms FROM queue_runs
    UNION
    SELECT cluster, cluster_queue, resource, part, to_ms FROM queue_runs
)
QUALIFY next_ms IS NOT NULL;
