-- reads: nodes, node_prices, $currency, $book, $days
-- writes: warnings (stored): code unpriced_node, one row per kind of node without a price for part of its life, and stale_price, one per kind of node with an outdated list price
-- invariant: fix holds the price book line that would price it; the age is the one at the last use of the price
DELETE FROM warnings WHERE code IN ('unpriced_node', 'stale_price');
INSERT INTO warnings BY NAME
WITH gaps AS (
    SELECT n.*, p.from_ms, p.to_ms
    FROM nodes AS n
    JOIN (
        SELECT node_id, coalesce(lag(to_ms) OVER lives, up_from_ms) AS from_ms, from_ms AS to_ms
        FROM node_prices JOIN nodes USING (node_id)
        WINDOW lives AS (PARTITION BY node_id ORDER BY from_ms)
        UNION ALL
        SELECT node_id, coalesce(max(to_ms), any_value(up_from_ms)), any_value(up_to_ms)
        FROM nodes LEFT JOIN node_prices USING (node_id)
        GROUP BY node_id
    ) AS p USING (node_id)
    WHERE p.from_ms < p.to_ms
),
kinds AS (
    SELECT provider, region, instance_type, capacity_type, gpu_model, labels['label_nvidia_com_gpu_product'] AS product,
        CASE WHEN count(DISTINCT cluster) = 1 THEN any_value(cluster) END AS cluster,
        count(DISTINCT node_id) AS nodes, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
        sum(gpu_count * (to_ms - from_ms)) / 3600000 AS gpu_hours
    FROM gaps
    GROUP BY ALL
),
worded AS (
    SELECT *,
        coalesce(instance_type, gpu_model, 'unnamed type') AS kind,
        concat_ws(',', coalesce(provider, ''), coalesce(region, ''), '', coalesce(instance_type, ''),
            CASE capacity_type WHEN 'unknown' THEN 'on_demand' ELSE capacity_type END, 'PRICE', $currency, '') AS line,
        CASE WHEN instance_type IS NULL THEN 'nvidia.com/gpu.product=' || product END AS selector
    FROM kinds
)
SELECT 'unpriced_node' AS code, cluster, kind AS subject, from_ms, to_ms,
    format('{} {} of {} ({}, {}) cost nothing here, because no price fits: {:.1f} GPU-hours',
        nodes, CASE nodes WHEN 1 THEN 'node' ELSE 'nodes' END, kind, capacity_type, coalesce(region, 'no region'), gpu_hours) AS message,
    CASE WHEN $book IS NULL THEN 'set [prices] book in gpucost.toml to a file with' ELSE 'add to ' || $book END
        || ' the line ' || line || coalesce(',' || selector || ' (with a last column node_selector)', '') AS fix
FROM worded
UNION ALL
SELECT 'stale_price' AS code,
    CASE WHEN count(DISTINCT n.cluster) = 1 THEN any_value(n.cluster) END AS cluster,
    n.instance_type AS subject, min(p.from_ms) AS from_ms, max(p.to_ms) AS to_ms,
    format('the list price of {} ({}, {}) is from {}, {} days before its last use',
        n.instance_type, n.capacity_type, coalesce(n.region, 'any region'), p.price_as_of::VARCHAR,
        max(epoch_ms(p.to_ms)::DATE - p.price_as_of)) AS message,
    'gpucost collect prices; or add your own price to the price book ([prices] book in gpucost.toml)' AS fix
FROM node_prices AS p
JOIN nodes AS n USING (node_id)
WHERE p.price_source = 'catalog'
GROUP BY n.instance_type, n.capacity_type, n.region, p.price_as_of
HAVING max(epoch_ms(p.to_ms)::DATE - p.price_as_of) > $days;
