-- reads: price_segments, nodes
-- writes: node_prices (stored), the one price of each node at each moment of its life
-- invariant: per node, half-open segments that do not overlap, within [up_from_ms, up_to_ms), a bill's until billed_to_ms; no row for time without a price
DELETE FROM node_prices;
INSERT INTO node_prices BY NAME
WITH changes AS (
    SELECT s.*, lag(s.to_ms) OVER lives IS DISTINCT FROM s.from_ms
        OR (s.price_per_hour, s.price_source, s.price_as_of, s.purchase_option)
            IS DISTINCT FROM lag((s.price_per_hour, s.price_source, s.price_as_of, s.purchase_option)) OVER lives
        AS changed
    FROM price_segments AS s SEMI JOIN nodes USING (node_id)
    WINDOW lives AS (PARTITION BY s.node_id ORDER BY s.from_ms)
),
runs AS (
    SELECT c.*, count(*) FILTER (c.changed) OVER (PARTITION BY c.node_id ORDER BY c.from_ms) AS run
    FROM changes AS c
)
SELECT node_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms, price_per_hour, price_source, price_as_of, purchase_option
FROM runs
GROUP BY node_id, run, price_per_hour, price_source, price_as_of, purchase_option
ORDER BY node_id, from_ms;
