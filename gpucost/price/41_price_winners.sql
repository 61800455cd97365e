-- reads: priced_nodes, price_candidates, purchase_fits
-- writes: price_winners, the candidate with the highest rank at each moment of a node's life, and whether it is an on-demand price
-- invariant: per node, half-open intervals that do not overlap; no row for time without a candidate
CREATE OR REPLACE TEMP TABLE price_winners AS
WITH ranks AS (
    SELECT c.node_id, c.rank, sum(greatest(0, least(c.to_ms, n.up_to_ms) - c.from_ms)) = n.up_to_ms - n.up_from_ms AS is_whole_life
    FROM price_candidates AS c
    JOIN priced_nodes AS n USING (node_id)
    GROUP BY c.node_id, c.rank, n.up_from_ms, n.up_to_ms
),
contending AS (
    -- a rank that prices a node's whole life hides all lower ones
    SELECT node_id, rank, count(*) OVER (PARTITION BY node_id) = 1 AS is_alone
    FROM (
        SELECT * FROM ranks
        QUALIFY rank >= coalesce(max(rank) FILTER (is_whole_life) OVER (PARTITION BY node_id), 0)
    )
),
contenders AS (
    SELECT c.*, a.is_alone,
        coalesce(c.purchase_option IN (SELECT purchase_option FROM purchase_fits WHERE capacity_type = 'on_demand'), false) AS is_on_demand
    FROM price_candidates AS c JOIN contending AS a USING (node_id, rank)
),
rivals AS (
    SELECT * FROM contenders WHERE NOT is_alone
),
edges AS (
    SELECT node_id, from_ms AS at_ms FROM rivals
    UNION SELECT node_id, to_ms FROM rivals
),
pieces AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
),
moments AS (
    SELECT p.*, a.rank FROM pieces AS p JOIN contending AS a USING (node_id) WHERE p.to_ms IS NOT NULL
)
SELECT * EXCLUDE (is_alone) FROM contenders WHERE is_alone
UNION ALL
SELECT * FROM (
    SELECT r.* EXCLUDE (is_alone) REPLACE (m.from_ms AS from_ms, m.to_ms AS to_ms)
    FROM moments AS m
    ASOF JOIN rivals AS r ON r.node_id = m.node_id AND r.rank = m.rank AND m.from_ms >= r.from_ms
    WHERE m.from_ms < r.to_ms
    QUALIFY r.rank = max(r.rank) OVER (PARTITION BY m.node_id, m.from_ms)
);
