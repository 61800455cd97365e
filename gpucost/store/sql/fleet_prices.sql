-- reads: nodes; the price steps of a described fleet, bound as one list per column
-- writes: node_prices
-- invariant: a step holds from from_ms (null: since ever) until the node's next one
INSERT INTO node_prices BY NAME
WITH steps AS (
    SELECT unnest($cluster::VARCHAR[]) AS cluster, unnest($node::VARCHAR[]) AS node, unnest($from_ms::BIGINT[]) AS from_ms,
        unnest($price_per_hour::VARCHAR[])::DECIMAL(38, 9) AS price_per_hour, unnest($price_source::VARCHAR[]) AS price_source
),
held AS (
    SELECT n.node_id, n.up_from_ms, n.up_to_ms, coalesce(s.from_ms, n.up_from_ms) AS from_ms,
        coalesce(lead(coalesce(s.from_ms, n.up_from_ms)) OVER (PARTITION BY n.node_id ORDER BY s.from_ms NULLS FIRST), n.up_to_ms) AS to_ms,
        s.price_per_hour, s.price_source
    FROM steps AS s JOIN nodes AS n USING (cluster, node)
)
SELECT node_id, greatest(from_ms, up_from_ms) AS from_ms, least(to_ms, up_to_ms) AS to_ms, price_per_hour, price_source, NULL AS price_as_of
FROM held
WHERE greatest(from_ms, up_from_ms) < least(to_ms, up_to_ms);
