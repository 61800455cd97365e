-- reads: nodes, price_fits
-- writes: node_prices (stored), the one price of each node at each moment of its life
-- invariant: per node, half-open segments that do not overlap, within [up_from_ms, up_to_ms); where nothing fits there is no row
DELETE FROM node_prices;
INSERT INTO node_prices BY NAME
WITH ranked AS (
    -- nothing ends a row but a row as specific or more: the one in force has the highest specificity that has begun
    SELECT f.*, max(f.specificity) OVER (PARTITION BY f.node_id ORDER BY f.start_ms) AS highest
    FROM price_fits AS f
),
in_force AS (
    SELECT r.*, lead(r.start_ms) OVER (PARTITION BY r.node_id ORDER BY r.start_ms) AS next_ms
    FROM ranked AS r
    WHERE r.specificity = r.highest
),
clipped AS (
    SELECT i.node_id, greatest(i.start_ms, n.up_from_ms) AS from_ms, least(coalesce(i.next_ms, n.up_to_ms), n.up_to_ms) AS to_ms,
        i.price_per_hour, i.price_source, i.price_as_of
    FROM in_force AS i
    JOIN nodes AS n USING (node_id)
    WHERE greatest(i.start_ms, n.up_from_ms) < least(coalesce(i.next_ms, n.up_to_ms), n.up_to_ms)
),
changes AS (
    SELECT c.*, (c.price_per_hour, c.price_source, c.price_as_of) IS DISTINCT FROM lag((c.price_per_hour, c.price_source, c.price_as_of))
        OVER (PARTITION BY c.node_id ORDER BY c.from_ms) AS changed
    FROM clipped AS c
),
runs AS (
    SELECT c.*, count(*) FILTER (c.changed) OVER (PARTITION BY c.node_id ORDER BY c.from_ms) AS run
    FROM changes AS c
)
SELECT node_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms, price_per_hour, price_source, price_as_of
FROM runs
GROUP BY node_id, run, price_per_hour, price_source, price_as_of
ORDER BY node_id, from_ms;
