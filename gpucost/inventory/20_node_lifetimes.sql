-- reads: state_intervals
-- writes: node_lifetimes, one row per node identity (cluster, machine, created), with its up time
-- invariant: up_from_ms < up_to_ms; lives of one name in one cluster do not overlap
CREATE OR REPLACE TEMP TABLE node_lifetimes AS
WITH seen AS (
    SELECT cluster, node, first_ms, end_ms FROM state_intervals
    WHERE node IS NOT NULL AND starts_with(metric, 'kube_node_')
),
born AS (
    SELECT cluster, node, round(value * 1000)::BIGINT AS created_ms, min(first_ms) AS first_ms, arg_max(end_ms, last_ms) AS end_ms
    FROM state_intervals
    WHERE metric = 'kube_node_created' AND node IS NOT NULL
    GROUP BY ALL
),
machines AS (
    SELECT cluster, node, first_ms, end_ms,
        coalesce(nullif(labels['provider_id'], ''), nullif(labels['system_uuid'], '')) AS machine_id
    FROM state_intervals
    WHERE metric = 'kube_node_info' AND node IS NOT NULL
),
created AS (
    SELECT cluster, node, created_ms, created_ms AS up_from_ms,
        -- a name is one node at a time: the next node of that name ends this one
        least(end_ms, coalesce(lead(created_ms) OVER (PARTITION BY cluster, node ORDER BY created_ms), end_ms)) AS up_to_ms
    FROM born
),
undated AS (
    SELECT s.cluster, s.node, m.machine_id,
        min(greatest(s.first_ms, coalesce(m.first_ms, s.first_ms))) AS up_from_ms,
        max(least(s.end_ms, coalesce(m.end_ms, s.end_ms))) AS up_to_ms
    FROM seen AS s
    LEFT JOIN machines AS m ON m.cluster = s.cluster AND m.node = s.node AND m.first_ms < s.end_ms AND s.first_ms < m.end_ms
    WHERE NOT EXISTS (FROM born AS b WHERE b.cluster = s.cluster AND b.node = s.node)
    GROUP BY ALL
),
lives AS (
    SELECT c.cluster, c.node, arg_max(m.machine_id, m.end_ms) AS machine_id, c.created_ms, c.up_from_ms, c.up_to_ms
    FROM created AS c
    LEFT JOIN machines AS m
        ON m.cluster = c.cluster AND m.node = c.node AND m.first_ms < c.up_to_ms AND c.up_from_ms < m.end_ms
        AND m.machine_id IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT cluster, node, machine_id, NULL, up_from_ms, up_to_ms FROM undated
)
SELECT hash(cluster, node, machine_id, created_ms) AS node_id, *
FROM lives
WHERE up_from_ms < up_to_ms;
