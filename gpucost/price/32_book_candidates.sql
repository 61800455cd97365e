-- reads: book_fits
-- writes: book_candidates, price book rows by node; nothing ends a row but a later row as specific
-- invariant: per (node, rank), half-open intervals that do not overlap; a higher rank is more specific
CREATE OR REPLACE TEMP TABLE book_candidates AS
SELECT node_id, start_ms AS from_ms,
    coalesce(lead(start_ms) OVER (PARTITION BY node_id, specificity ORDER BY start_ms), 4611686018427387904) AS to_ms,
    1000000 + specificity AS rank, price_per_hour, currency, 'price_book' AS price_source, price_as_of, purchase_option,
    'price book line ' || line AS origin
FROM book_fits;
