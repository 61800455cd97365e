-- reads: priced_nodes, list_steps, zone_medians
-- writes: list_candidates, list prices by node: of its zone (by id rank 4, by name 3), of its region (2), the median of its region's zones (1), of any region (0)
-- invariant: per (node, rank), half-open intervals that do not overlap
CREATE OR REPLACE TEMP TABLE list_candidates AS
SELECT n.node_id, s.from_ms, s.to_ms, CASE WHEN s.zone = n.zone_id THEN 4 ELSE 3 END AS rank, s.price_per_hour, s.currency, s.price_as_of, s.origin
FROM priced_nodes AS n
JOIN list_steps AS s ON s.provider = n.seller AND s.region = n.region
    AND s.instance_type = n.instance_type AND s.capacity_type = n.capacity_type
WHERE s.zone IN (n.zone, n.zone_id)
UNION ALL
SELECT n.node_id, s.from_ms, s.to_ms, CASE WHEN s.region IS NULL THEN 0 ELSE 2 END, s.price_per_hour, s.currency, s.price_as_of, s.origin
FROM priced_nodes AS n
JOIN list_steps AS s ON s.provider = n.seller AND s.instance_type = n.instance_type AND s.capacity_type = n.capacity_type
WHERE s.zone IS NULL AND coalesce(s.region = n.region, s.region IS NULL)
UNION ALL
SELECT n.node_id, m.from_ms, m.to_ms, 1, m.price_per_hour, m.currency, m.price_as_of, m.origin
FROM priced_nodes AS n
JOIN zone_medians AS m ON m.provider = n.seller AND m.region = n.region
    AND m.instance_type = n.instance_type AND m.capacity_type = n.capacity_type
WHERE m.price_source = 'catalog';
