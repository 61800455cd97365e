-- reads: nodes, node_prices
-- writes: nothing; returns one row per (instance_type, region, capacity_type), or per name of nodes without an instance type: their price
-- invariant: a price is the mean of the last prices of such nodes, over nodes that were up in the last 30 days of data; 'none' is not a price
WITH recent AS (
    SELECT n.*, p.price_per_hour
    FROM nodes AS n
    JOIN node_prices AS p USING (node_id)
    WHERE n.up_to_ms >= (SELECT max(up_to_ms) FROM nodes) - 30 * 86400000::BIGINT AND p.price_source <> 'none' AND p.from_ms < n.up_to_ms
    QUALIFY row_number() OVER (PARTITION BY n.node_id ORDER BY p.from_ms DESC) = 1
)
SELECT instance_type,
    CASE WHEN instance_type IS NOT NULL THEN region END AS region,
    CASE WHEN instance_type IS NOT NULL THEN capacity_type END AS capacity_type,
    CASE WHEN instance_type IS NULL THEN node END AS node,
    avg(price_per_hour)::DECIMAL(38, 9) AS per_hour
FROM recent
GROUP BY ALL
ORDER BY ALL;
