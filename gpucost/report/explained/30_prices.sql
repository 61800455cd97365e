-- reads: report_facts, node_prices; $from_ms, $to_ms bound the period
-- writes: nothing; answers the prices of the nodes that those asked for were on, within the period
-- invariant: per node, half-open segments that do not overlap
SELECT p.node_id, greatest(p.from_ms, $from_ms) AS from_ms, least(p.to_ms, $to_ms) AS to_ms, p.price_per_hour, p.price_source, p.price_as_of
FROM node_prices AS p
WHERE p.node_id IN (SELECT node_id FROM report_facts WHERE kind = 'allocated') AND p.from_ms < $to_ms AND $from_ms < p.to_ms
ORDER BY p.node_id, p.from_ms;
