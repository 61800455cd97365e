-- reads: nodes, node_prices, $days
-- writes: warnings (stored), code stale_price: one row per kind of node priced from a list price that was old when it was used
-- invariant: the age is that at the last moment the price was used
DELETE FROM warnings WHERE code = 'stale_price';
INSERT INTO warnings BY NAME
SELECT 'stale_price' AS code,
    CASE WHEN count(DISTINCT n.cluster) = 1 THEN any_value(n.cluster) END AS cluster,
    n.instance_type AS subject, min(p.from_ms) AS from_ms, max(p.to_ms) AS to_ms,
    format('the list price of {} ({}, {}) is of {}, {} days before it was last used',
        n.instance_type, n.capacity_type, coalesce(n.region, 'any region'), p.price_as_of::VARCHAR,
        max(epoch_ms(p.to_ms)::DATE - p.price_as_of)) AS message,
    'gpucost collect prices; or put your own price of it into the price book ([prices] book in gpucost.toml)' AS fix
FROM node_prices AS p
JOIN nodes AS n USING (node_id)
WHERE p.price_source = 'catalog'
GROUP BY n.instance_type, n.capacity_type, n.region, p.price_as_of
HAVING max(epoch_ms(p.to_ms)::DATE - p.price_as_of) > $days;
