-- reads: priced_nodes, spot_steps, zone_medians
-- writes: spot_candidates, spot price history by node: its own charges (rank 103), its zone (102), its region (101), the median of its zones (100)
-- invariant: per (node, rank), half-open intervals that do not overlap; spot nodes only
CREATE OR REPLACE TEMP TABLE spot_candidates AS
WITH named AS (
    SELECT DISTINCT provider, zone, instance_type FROM spot_steps WHERE instance_id IS NULL
),
spot AS (
    -- a source that spells zones by name wins over one that spells them by id
    SELECT n.*, CASE WHEN z.zone IS NULL THEN n.zone_id ELSE n.zone END AS told_zone
    FROM priced_nodes AS n
    LEFT JOIN named AS z ON z.provider = n.seller AND z.zone = n.zone AND z.instance_type = n.instance_type
    WHERE n.capacity_type = 'spot'
)
SELECT n.node_id, s.from_ms, s.to_ms, 103 AS rank, s.price_per_hour, s.currency, s.price_as_of, s.origin
FROM spot AS n
JOIN spot_steps AS s ON s.instance_id = n.instance_id AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
UNION ALL
SELECT n.node_id, s.from_ms, s.to_ms, 102, s.price_per_hour, s.currency, s.price_as_of, s.origin
FROM spot AS n
JOIN spot_steps AS s ON s.provider = n.seller AND s.zone = n.told_zone AND s.instance_type = n.instance_type
    AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
WHERE s.instance_id IS NULL
UNION ALL
SELECT n.node_id, s.from_ms, s.to_ms, 101, s.price_per_hour, s.currency, s.price_as_of, s.origin
FROM spot AS n
JOIN spot_steps AS s ON s.provider = n.seller AND s.region = n.region AND s.instance_type = n.instance_type
    AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
WHERE s.zone IS NULL AND s.instance_id IS NULL
UNION ALL
SELECT n.node_id, m.from_ms, m.to_ms, 100, m.price_per_hour, m.currency, m.price_as_of, m.origin
FROM spot AS n
JOIN zone_medians AS m ON m.provider = n.seller AND m.region = n.region AND m.instance_type = n.instance_type
    AND m.from_ms < n.up_to_ms AND n.up_from_ms < m.to_ms
WHERE n.zone IS NULL;
