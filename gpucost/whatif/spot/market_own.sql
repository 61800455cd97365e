-- reads: nodes, node_prices; $from_ms, $to_ms the period
-- writes: market_own, what own nodes of an instance type cost per hour in the period, weighted by time
-- invariant: one row per (instance_type, capacity_type); an instance type is lower-cased
CREATE OR REPLACE TEMP TABLE market_own AS
WITH parts AS (
    SELECT lower(n.instance_type) AS instance_type, n.capacity_type, p.price_per_hour,
        least(p.to_ms, $to_ms) - greatest(p.from_ms, $from_ms) AS span_ms
    FROM nodes AS n JOIN node_prices AS p USING (node_id)
    WHERE p.from_ms < $to_ms AND $from_ms < p.to_ms AND n.instance_type IS NOT NULL AND p.price_source <> 'none'
)
SELECT instance_type, capacity_type,
    (sum(price_per_hour * span_ms::DECIMAL(14, 0)) / sum(span_ms))::DECIMAL(24, 12) AS price_per_hour
FROM parts
WHERE span_ms > 0
GROUP BY instance_type, capacity_type;
