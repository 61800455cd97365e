-- reads: nodes, unlisted_nodes, collected, catalog_prices, list_prices, spot_prices, region_of, $node_id, $capacity_type, $from_ms, $to_ms
-- writes: priced_nodes, the nodes to price (one, or all if $node_id is null), including nodes with unknown accelerators, spelled like prices; with $capacity_type only nodes of [$from_ms, $to_ms) of another capacity type, changed to this one (is_moved)
-- invariant: one row per node life; text is in lower case, except labels and their values; billed_to_ms is up_to_ms, or later if the node was up at its cluster's last sample: then its bill alone shows how long it ran
CREATE OR REPLACE TEMP TABLE priced_nodes AS
WITH sellers AS (
    SELECT lower(instance_type) AS instance_type, min(lower(provider)) AS seller
    FROM (
        SELECT instance_type, provider FROM catalog_prices
        UNION SELECT instance_type, provider FROM list_prices
        UNION SELECT instance_type, provider FROM spot_prices
    )
    GROUP BY ALL
),
silences AS (
    SELECT cluster, to_ms AS from_ms, coalesce(lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms), 9223372036854775807) AS to_ms FROM collected
),
lives AS (
    SELECT *, lead(up_from_ms) OVER (PARTITION BY cluster, node ORDER BY up_from_ms) AS next_ms FROM (FROM nodes UNION ALL BY NAME FROM unlisted_nodes)
)
SELECT n.node_id, n.node, n.up_from_ms, n.up_to_ms, greatest(n.up_to_ms, coalesce(least(g.to_ms, n.next_ms), 0)) AS billed_to_ms, n.gpu_count::DECIMAL(12, 6) AS gpu_count,
    coalesce(n.gpu_count / n.machine_gpus, 1)::DECIMAL(18, 12) AS machine_share, n.gpu_model, n.labels,
    lower(n.provider) AS provider, lower(n.zone) AS zone, lower(n.instance_type) AS instance_type,
    coalesce(lower(n.region), region_of(n.zone)) AS region,
    lower(n.labels['label_topology_k8s_aws_zone_id']) AS zone_id,
    -- the provider whose list prices count: without one on the node, the seller of its instance type
    coalesce(lower(n.provider), s.seller) AS seller,
    -- aws:///us-east-1a/i-0123
    lower(regexp_extract(n.machine_id, '[^/]+$')) AS instance_id,
    coalesce($capacity_type, CASE n.capacity_type WHEN 'unknown' THEN 'on_demand' ELSE n.capacity_type END) AS capacity_type, $capacity_type IS NOT NULL AS is_moved
FROM lives AS n
LEFT JOIN silences AS g ON g.cluster = n.cluster AND n.up_to_ms BETWEEN g.from_ms - 600000 AND g.from_ms + 600000
LEFT JOIN sellers AS s ON s.instance_type = lower(n.instance_type)
WHERE coalesce(n.node_id = $node_id, true)
    AND coalesce(n.capacity_type <> $capacity_type AND n.up_from_ms < $to_ms AND $from_ms < n.up_to_ms, true);
