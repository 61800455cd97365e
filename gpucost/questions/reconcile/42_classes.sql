-- reads: row_classes, machine_parts, machine_shares, machine_hours; $currency the report's
-- writes: nothing; returns the classes of the billing period's rows with bill rows and amount, by basis ('billed', 'effective') and currency
-- invariant: per basis the bill rows add up to all rows; a row of a machine with several shares counts at its largest share
WITH machine_classes AS (
    SELECT 'billed' AS basis, line AS class, team, rows, billed_cost AS cost FROM machine_shares
    UNION ALL
    SELECT 'effective', line, team, rows, 0::DECIMAL(38, 12) FROM machine_shares
    UNION ALL
    SELECT 'effective', line, team, 0, cost::DECIMAL(38, 12) FROM machine_parts
    UNION ALL
    -- machines include their discounts in their cost; the discount of an upfront fee is no longer in a row of kind
    -- discount
    SELECT 'effective', 'discounts', NULL, 0, -discount_cost::DECIMAL(38, 12) FROM machine_hours WHERE discount_cost <> 0
    UNION ALL
    SELECT 'effective', 'discounts', NULL, 0, amortized_cost FROM row_classes WHERE place IS NOT NULL AND amortized_cost <> 0
)
SELECT basis, currency, class, team, sum(rows)::BIGINT AS rows, sum(cost)::DECIMAL(38, 12) AS cost
FROM (
    SELECT basis, $currency AS currency, class, team, rows, cost FROM machine_classes
    UNION ALL
    SELECT 'billed', currency, billed_class, NULL, rows, billed_cost FROM row_classes WHERE place IS NULL
    UNION ALL
    SELECT 'effective', currency, effective_class, NULL, rows, effective_cost + discount_cost FROM row_classes WHERE place IS NULL
    UNION ALL
    SELECT 'effective', currency, 'discounts', NULL, 0, -discount_cost FROM row_classes WHERE place IS NULL AND discount_cost <> 0
)
GROUP BY ALL
ORDER BY basis, currency, class, cost DESC, team;
