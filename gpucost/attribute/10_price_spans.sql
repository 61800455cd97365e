-- reads: nodes, node_prices, basis_spans; the span [span_from_ms, span_to_ms)
-- writes: price_spans, one row per (node, span of one price); spans without a price have a null price, spans without a split null fractions
-- invariant: a node's spans cover its life within the span without gap or overlap
CREATE OR REPLACE TEMP TABLE price_spans AS
WITH priced AS (
    SELECT * FROM node_prices WHERE from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < to_ms
),
edges AS (
    SELECT node_id, up_from_ms AS at_ms FROM nodes
    UNION SELECT node_id, up_to_ms FROM nodes
    UNION SELECT node_id, from_ms FROM priced
    UNION SELECT node_id, to_ms FROM priced
    UNION SELECT node_id, from_ms FROM basis_spans
    UNION SELECT node_id, to_ms FROM basis_spans
),
pieces AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
)
SELECT i.node_id, i.from_ms, i.to_ms, p.price_per_hour, coalesce(p.price_source, 'none') AS price_source, p.price_as_of,
    b.gpu_fraction, b.cpu_fraction
FROM pieces AS i
LEFT JOIN priced AS p ON p.node_id = i.node_id AND p.from_ms <= i.from_ms AND i.from_ms < p.to_ms
LEFT JOIN basis_spans AS b ON b.node_id = i.node_id AND b.from_ms <= i.from_ms AND i.from_ms < b.to_ms
WHERE i.to_ms IS NOT NULL;
