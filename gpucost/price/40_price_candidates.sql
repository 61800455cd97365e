-- reads: priced_nodes, bill_candidates, book_fits, spot_candidates, list_candidates
-- writes: price_candidates, every price that a node might have at a moment of its life, per hour of the whole node
-- invariant: per (node, rank), half-open intervals that do not overlap, within [up_from_ms, up_to_ms), a bill's within [up_from_ms, billed_to_ms); the highest rank wins
CREATE OR REPLACE TEMP TABLE price_candidates AS
WITH book_candidates AS (
    -- nothing ends a row of the price book but a later row as specific; a higher rank is more specific
    SELECT node_id, start_ms AS from_ms,
        coalesce(lead(start_ms) OVER (PARTITION BY node_id, specificity ORDER BY start_ms), 4611686018427387904) AS to_ms,
        1000000 + specificity AS rank, price_per_hour, currency, 'price_book' AS price_source, price_as_of, purchase_option,
        'price book line ' || line AS origin
    FROM book_fits
),
offered AS (
    SELECT node_id, from_ms, to_ms, rank, price_per_hour, currency, price_source, price_as_of, NULL AS purchase_option, origin FROM bill_candidates
    UNION ALL
    SELECT node_id, from_ms, to_ms, rank, price_per_hour, currency, price_source, price_as_of, purchase_option, origin FROM book_candidates
    UNION ALL
    SELECT node_id, from_ms, to_ms, rank, price_per_hour, currency, 'spot_history', price_as_of, 'spot', origin FROM spot_candidates
    UNION ALL
    SELECT node_id, from_ms, to_ms, rank, price_per_hour, currency, 'catalog', price_as_of, purchase_option, origin FROM list_candidates
)
SELECT o.node_id, greatest(o.from_ms, n.up_from_ms) AS from_ms, least(o.to_ms, n.up_to_ms) AS to_ms,
    o.rank, o.price_per_hour::DECIMAL(38, 12) AS price_per_hour, o.currency, o.price_source, o.price_as_of, o.purchase_option, o.origin
FROM offered AS o
JOIN (
    SELECT node_id, up_from_ms, unnest([up_to_ms, billed_to_ms]) AS up_to_ms, unnest([false, true]) AS is_bill FROM priced_nodes
) AS n ON n.node_id = o.node_id AND n.is_bill = (o.price_source = 'bill')
WHERE greatest(o.from_ms, n.up_from_ms) < least(o.to_ms, n.up_to_ms);
