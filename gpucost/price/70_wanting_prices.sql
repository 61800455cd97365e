-- reads: nodes, node_prices, loads, $from_ms, $to_ms, $now_ms, $days
-- writes: nothing; answers (what, provider): providers whose spot history or list prices would improve the prices of the period
-- invariant: prices of a bill or the price book need no others; list prices are collected once per UTC day
WITH used AS (
    SELECT n.provider, n.capacity_type, coalesce(p.price_source, 'none') AS source, epoch_ms(p.to_ms)::DATE - p.price_as_of AS age
    FROM nodes AS n
    LEFT JOIN node_prices AS p ON p.node_id = n.node_id AND p.from_ms < $to_ms AND p.to_ms > $from_ms
    WHERE n.up_from_ms < $to_ms AND n.up_to_ms > $from_ms AND n.gpu_count > 0
)
SELECT DISTINCT 'spot' AS what, provider FROM used
WHERE provider IN ('aws', 'azure') AND capacity_type = 'spot' AND source NOT IN ('bill', 'price_book', 'final_price_book')
UNION ALL
SELECT DISTINCT 'prices', provider FROM used
WHERE provider IN ('aws', 'gcp', 'azure') AND (source = 'none' OR (source = 'catalog' AND age > $days))
    AND provider NOT IN (
        SELECT source FROM loads WHERE kind = 'prices' AND epoch_ms(to_ms - 1)::DATE >= epoch_ms($now_ms)::DATE
    )
ORDER BY ALL;
