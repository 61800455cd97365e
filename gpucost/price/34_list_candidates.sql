-- reads: priced_nodes, purchase_fits, price_list, place_rank
-- writes: list_candidates, list prices by node: by the purchase option that fits first (5 and up), and in it by place_rank
-- invariant: per (node, rank), half-open intervals that do not overlap; no commitments: only the user knows that they were bought
CREATE OR REPLACE TEMP TABLE list_candidates AS
WITH places AS (
    SELECT DISTINCT seller, region, zone, zone_id, instance_type, capacity_type FROM priced_nodes
),
listed AS (
    SELECT n.*, s.from_ms, s.to_ms, 5 * o.preference + place_rank(s.region, s.zone, n.region, n.zone, n.zone_id) AS rank,
        s.price_per_hour, s.currency, s.price_as_of, s.purchase_option,
        CASE s.origin WHEN 'catalog' THEN 'catalog of gpucost: ' ELSE '' END || s.source AS origin
    FROM places AS n
    JOIN purchase_fits AS o ON o.capacity_type = n.capacity_type AND o.is_list
    JOIN price_list AS s
        ON s.provider = n.seller AND s.instance_type = n.instance_type AND s.purchase_option = o.purchase_option
        AND place_rank(s.region, s.zone, n.region, n.zone, n.zone_id) IS NOT NULL
    WHERE s.from_ms IS NOT NULL AND s.term_years = 0 AND s.payment_option = '' AND s.offering = ''
)
SELECT n.node_id, l.from_ms, l.to_ms, l.rank, l.price_per_hour, l.currency, l.price_as_of, l.purchase_option, l.origin
FROM priced_nodes AS n
JOIN listed AS l
    ON l.seller = n.seller AND l.instance_type = n.instance_type AND l.capacity_type = n.capacity_type
    AND l.region IS NOT DISTINCT FROM n.region AND l.zone IS NOT DISTINCT FROM n.zone AND l.zone_id IS NOT DISTINCT FROM n.zone_id
    AND l.from_ms < n.up_to_ms AND n.up_from_ms < l.to_ms;
