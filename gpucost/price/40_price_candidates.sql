-- reads: priced_nodes, purchase_fits, price_list, place_rank, spot_steps, bill_candidates, book_fits
-- writes: price_candidates, every possible price of a node at a moment of its life, per hour of the whole node
-- invariant: per (node, rank), half-open intervals that do not overlap, within [up_from_ms, up_to_ms), a bill's within [up_from_ms, billed_to_ms); the highest rank wins
CREATE OR REPLACE TEMP TABLE price_candidates AS
WITH zones AS (
    SELECT provider, region, instance_type, from_ms, to_ms, price_per_hour, currency, price_as_of, region || ' spot history' AS origin
    FROM spot_steps SEMI JOIN (FROM priced_nodes WHERE zone IS NULL OR is_moved) USING (region, instance_type)
    WHERE zone IS NOT NULL AND instance_id IS NULL
),
edges AS (
    SELECT provider, region, instance_type, from_ms AS at_ms FROM zones
    UNION SELECT provider, region, instance_type, to_ms FROM zones
),
pieces AS (
    SELECT provider, region, instance_type, at_ms AS from_ms,
        lead(at_ms) OVER (PARTITION BY provider, region, instance_type ORDER BY at_ms) AS to_ms
    FROM edges
),
zone_medians AS (
    -- the lower median of spot prices of a region's zones at each moment, for nodes that may move or lack a zone
    SELECT provider, region, instance_type, p.from_ms, p.to_ms,
        quantile_disc(z.price_per_hour, 0.5) AS price_per_hour, min(z.currency) AS currency, min(z.price_as_of) AS price_as_of,
        'lower median of ' || count(*) || CASE count(*) WHEN 1 THEN ' zone' ELSE ' zones' END || ', ' || min(z.origin) AS origin
    FROM pieces AS p
    JOIN zones AS z USING (provider, region, instance_type)
    WHERE z.from_ms <= p.from_ms AND p.from_ms < z.to_ms
    GROUP BY ALL
),
named_zones AS (
    SELECT DISTINCT provider, zone, instance_type FROM spot_steps WHERE instance_id IS NULL
),
spot_nodes AS (
    -- a source with zone names wins over one with zone ids
    SELECT n.*, CASE WHEN z.zone IS NULL THEN n.zone_id ELSE n.zone END AS zone_name
    FROM priced_nodes AS n
    LEFT JOIN named_zones AS z ON z.provider = n.seller AND z.zone = n.zone AND z.instance_type = n.instance_type
    WHERE n.capacity_type = 'spot'
),
spot_candidates AS (
    -- spot price history by node: own charges (rank 103), zone (102), region (101), median of the region's zones (100)
    SELECT n.node_id, s.from_ms, s.to_ms, 103 AS rank, s.price_per_hour, s.currency, s.price_as_of, s.origin
    FROM spot_nodes AS n
    JOIN spot_steps AS s ON s.instance_id = n.instance_id AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
    UNION ALL
    SELECT n.node_id, s.from_ms, s.to_ms, 102, s.price_per_hour, s.currency, s.price_as_of, s.origin
    FROM spot_nodes AS n
    JOIN spot_steps AS s ON s.provider = n.seller AND s.zone = n.zone_name AND s.instance_type = n.instance_type
        AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
    WHERE s.instance_id IS NULL
    UNION ALL
    SELECT n.node_id, s.from_ms, s.to_ms, 101, s.price_per_hour, s.currency, s.price_as_of, s.origin
    FROM spot_nodes AS n
    JOIN spot_steps AS s ON s.provider = n.seller AND s.region = n.region AND s.instance_type = n.instance_type
        AND s.from_ms < n.up_to_ms AND n.up_from_ms < s.to_ms
    WHERE s.zone IS NULL AND s.instance_id IS NULL
    UNION ALL
    SELECT n.node_id, m.from_ms, m.to_ms, 100, m.price_per_hour, m.currency, m.price_as_of, m.origin
    FROM spot_nodes AS n
    JOIN zone_medians AS m ON m.provider = n.seller AND m.region = n.region AND m.instance_type = n.instance_type
        AND m.from_ms < n.up_to_ms AND n.up_from_ms < m.to_ms
    WHERE n.zone IS NULL OR n.is_moved
),
places AS (
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
),
list_candidates AS (
    -- list prices by node: first by the fit of the purchase option (5 and up), then by place_rank
    SELECT n.node_id, l.from_ms, l.to_ms, l.rank, l.price_per_hour, l.currency, l.price_as_of, l.purchase_option, l.origin
    FROM priced_nodes AS n
    JOIN listed AS l
        ON l.seller = n.seller AND l.instance_type = n.instance_type AND l.capacity_type = n.capacity_type
        AND l.region IS NOT DISTINCT FROM n.region AND l.zone IS NOT DISTINCT FROM n.zone AND l.zone_id IS NOT DISTINCT FROM n.zone_id
        AND l.from_ms < n.up_to_ms AND n.up_from_ms < l.to_ms
),
book_candidates AS (
    -- only a later row with equal specificity ends a row of the price book; a higher rank is more specific
    SELECT node_id, start_ms AS from_ms,
        coalesce(lead(start_ms) OVER (PARTITION BY node_id, specificity ORDER BY start_ms), 4611686018427387904) AS to_ms,
        1000000 + specificity AS rank, price_per_hour, currency, price_source, price_as_of, purchase_option,
        'price book line ' || line AS origin
    FROM book_fits
),
offered AS (
    FROM bill_candidates
    UNION ALL BY NAME
    FROM book_candidates
    UNION ALL BY NAME
    SELECT *, 'spot_history' AS price_source, 'spot' AS purchase_option FROM spot_candidates
    UNION ALL BY NAME
    SELECT *, 'catalog' AS price_source FROM list_candidates
)
SELECT o.node_id, greatest(o.from_ms, n.up_from_ms) AS from_ms, least(o.to_ms, n.up_to_ms) AS to_ms,
    -- the price book's rows already cover only the node's GPUs
    o.rank, (o.price_per_hour * CASE WHEN o.price_source LIKE '%price_book' THEN 1 ELSE n.machine_share END)::DECIMAL(38, 12) AS price_per_hour, o.currency, o.rate, o.price_source, o.price_as_of, o.purchase_option, o.origin
FROM offered AS o
JOIN (
    SELECT node_id, machine_share, up_from_ms, unnest([up_to_ms, billed_to_ms]) AS up_to_ms, unnest([false, true]) AS is_bill FROM priced_nodes
) AS n ON n.node_id = o.node_id AND n.is_bill = (o.price_source = 'bill')
WHERE greatest(o.from_ms, n.up_from_ms) < least(o.to_ms, n.up_to_ms);
