-- reads: state_intervals, node_facts, node_parts, sliced_shares, unit_shares
-- writes: mig_fragmentation (stored), one row per (node, span) in which the slices of a MIG layout are less than the node's GPUs
-- invariant: 0 < gpus; spans of a node do not overlap
-- only with: sliced_shares
INSERT INTO mig_fragmentation BY NAME
WITH sliced AS (
    SELECT n.* FROM node_facts AS n SEMI JOIN sliced_shares USING (node_id)
),
offered AS (
    SELECT n.node_id, n.gpu_count, n.up_from_ms, n.up_to_ms, f.resource, f.value, greatest(f.first_ms, n.up_from_ms) AS from_ms,
        least(f.end_ms, n.up_to_ms) AS to_ms
    FROM sliced AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE is_accelerator(f.resource)
),
edges AS (
    SELECT node_id, from_ms AS at_ms FROM offered UNION SELECT node_id, to_ms FROM offered
),
stretches AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
),
-- equal facts from several exporters count once
units AS (
    SELECT t.node_id, t.from_ms, t.to_ms, o.resource, o.gpu_count, o.up_from_ms, max(o.value) AS units
    FROM stretches AS t JOIN offered AS o ON o.node_id = t.node_id AND o.from_ms <= t.from_ms AND t.to_ms <= o.to_ms
    GROUP BY ALL
),
covered AS (
    SELECT u.node_id, u.from_ms, u.to_ms, u.gpu_count, u.up_from_ms, sum(u.units * s.share ORDER BY u.resource) AS gpus
    FROM units AS u
    JOIN unit_shares AS s ON s.node_id = u.node_id AND s.resource = u.resource AND s.from_ms <= u.from_ms AND u.from_ms < s.to_ms
    GROUP BY ALL
    HAVING bool_or(s.profile IS NOT NULL AND u.units > 0)
)
SELECT coalesce(p.part_id, c.node_id) AS node_id,
    -- before the first scrape, the node had the layout of that scrape
    CASE WHEN c.from_ms = min(c.from_ms) OVER (PARTITION BY c.node_id) THEN c.up_from_ms ELSE c.from_ms END AS from_ms,
    c.to_ms, coalesce(p.machine_gpus, c.gpu_count) - c.gpus AS gpus
FROM covered AS c
LEFT JOIN node_parts AS p ON p.node_id = c.node_id AND p.has_slices AND p.from_ms <= c.from_ms AND c.from_ms < p.to_ms
WHERE coalesce(p.machine_gpus, c.gpu_count) - c.gpus > 1e-6;
