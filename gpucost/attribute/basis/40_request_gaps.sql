-- reads: state_intervals, nodes
-- writes: request_gaps, per cluster with GPU nodes the time without collected requests of cores and memory
-- invariant: whole hours; gaps of one cluster neither touch nor overlap; unlimited if requests were never collected
CREATE OR REPLACE TEMP TABLE request_gaps AS
WITH asking AS (
    SELECT DISTINCT cluster FROM state_intervals
    WHERE is_host_resource(resource) AND metric SIMILAR TO 'kube_pod_(init_)?container_resource_requests'
),
-- capacities are collected with the requests, and exist even if no pod requests anything
known AS (
    SELECT DISTINCT cluster, unnest(range(first_ms // 3600000, last_ms // 3600000 + 1)) AS hour FROM state_intervals WHERE is_host_resource(resource)
),
-- an hour without any scrape is like its neighbors
seen AS (
    SELECT DISTINCT cluster, unnest(range(first_ms // 3600000, last_ms // 3600000 + 1)) AS hour FROM state_intervals
    WHERE starts_with(metric, 'kube_node_') AND NOT is_host_resource(coalesce(resource, ''))
        AND cluster IN (FROM asking)
),
missing AS (
    SELECT cluster, hour, hour - row_number() OVER (PARTITION BY cluster ORDER BY hour) AS part FROM seen ANTI JOIN known USING (cluster, hour)
)
SELECT cluster, min(hour) * 3600000 AS from_ms, (max(hour) + 1) * 3600000 AS to_ms FROM missing GROUP BY cluster, part
UNION ALL
SELECT DISTINCT cluster, 0, 9223372036854775807 FROM nodes
WHERE cluster NOT IN (FROM asking);
