-- reads: report_facts, node_prices, nodes, collected, coverage_gaps; $from_ms, $to_ms bound the period
-- writes: nothing; answers the prices of the nodes that those asked for were on, within the period, where they count: in collected time, and a bill's beyond it
-- invariant: per node, half-open segments that do not overlap
WITH counted AS (
    SELECT n.node_id, c.from_ms, least(c.to_ms, n.up_to_ms) AS to_ms, true AS is_collected FROM nodes AS n JOIN collected AS c USING (cluster)
    UNION ALL
    SELECT n.node_id, g.from_ms, g.to_ms, false FROM nodes AS n JOIN coverage_gaps AS g USING (cluster) WHERE g.kind = 'not_collected'
)
SELECT p.node_id, greatest(p.from_ms, c.from_ms, $from_ms) AS from_ms, least(p.to_ms, c.to_ms, $to_ms) AS to_ms,
    p.price_per_hour, p.price_source, p.price_as_of
FROM node_prices AS p
JOIN counted AS c ON c.node_id = p.node_id AND (c.is_collected OR p.price_source = 'bill')
WHERE p.node_id IN (SELECT node_id FROM report_facts WHERE kind = 'allocated')
    AND greatest(p.from_ms, c.from_ms, $from_ms) < least(p.to_ms, c.to_ms, $to_ms)
ORDER BY p.node_id, p.from_ms, c.from_ms;
