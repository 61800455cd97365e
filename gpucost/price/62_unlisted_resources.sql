-- reads: unlisted_holdings, price_segments, $currency
-- writes: warnings (stored), code unsupported_resource: one row per (cluster, resource that no table lists)
-- invariant: names the hours that it was held, and the cost of its part of the nodes; attributes no cost
-- only with: unlisted_holdings
INSERT INTO warnings BY NAME
WITH priced AS (
    SELECT h.node_id, h.uid, h.resource, sum(p.price_per_hour * h.part * (least(h.to_ms, p.to_ms) - greatest(h.from_ms, p.from_ms)) / 3600000) AS cost
    FROM unlisted_holdings AS h
    JOIN price_segments AS p ON p.node_id = h.node_id AND p.from_ms < h.to_ms AND h.from_ms < p.to_ms
    GROUP BY ALL
),
held AS (
    SELECT h.cluster, h.resource, sum(h.units * (h.to_ms - h.from_ms)) / 3600000 AS hours, count(DISTINCT h.uid) AS pods,
        count(DISTINCT h.node_id) AS nodes, string_agg(DISTINCT h.namespace, ', ' ORDER BY h.namespace) AS namespaces,
        min(h.from_ms) AS from_ms, max(h.to_ms) AS to_ms
    FROM unlisted_holdings AS h
    GROUP BY ALL
),
costs AS (
    SELECT h.cluster, p.resource, sum(p.cost) AS cost
    FROM priced AS p JOIN (SELECT DISTINCT cluster, uid, node_id FROM unlisted_holdings) AS h USING (uid, node_id)
    GROUP BY ALL
)
SELECT 'unsupported_resource' AS code, h.cluster, h.resource AS subject, h.from_ms, h.to_ms,
    format('the resource {} is not supported, so it is not attributed: {:.1f} hours held by {} of {} on {}, {}, {}Z to {}Z',
        h.resource, h.hours, CASE h.pods WHEN 1 THEN '1 pod' ELSE h.pods || ' pods' END, h.namespaces,
        CASE h.nodes WHEN 1 THEN '1 node' ELSE h.nodes || ' nodes' END,
        CASE WHEN c.cost IS NULL THEN 'without a price' ELSE format('{:.2f} {} of the nodes'' cost', c.cost::DOUBLE, $currency::VARCHAR) END,
        strftime(epoch_ms(h.from_ms), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(h.to_ms), '%Y-%m-%dT%H:%M')) AS message,
    NULL AS fix
FROM held AS h LEFT JOIN costs AS c USING (cluster, resource);
