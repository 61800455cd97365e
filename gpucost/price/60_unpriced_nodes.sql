-- reads: nodes, node_prices, $currency, $book
-- writes: warnings (stored), code unpriced_node: one row per kind of node that has no price for part of its life
-- invariant: fix holds the price book line that would price it
DELETE FROM warnings WHERE code = 'unpriced_node';
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
FROM worded;
