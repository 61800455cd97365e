-- reads: node_prices, usage_pods; $from_ms, $to_ms the period, $all_nodes as in usage_nodes
-- writes: nothing; answers the price segments of these nodes in the period, in order of time
-- invariant: a stretch that nobody priced has no row
SELECT node_id, from_ms, to_ms, price_per_hour, price_source, price_as_of
FROM node_prices
WHERE from_ms < $to_ms AND $from_ms < to_ms AND ($all_nodes OR node_id IN (SELECT node_id FROM usage_pods))
ORDER BY node_id, from_ms;
