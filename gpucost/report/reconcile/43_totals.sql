-- reads: row_classes; $currency the report's
-- writes: nothing; answers bill rows, billed and effective cost of the billing period by currency, the report's first
-- invariant: they are those of all its bill rows
SELECT currency, sum(rows)::BIGINT AS rows, sum(billed_cost) AS billed_cost, sum(effective_cost) AS effective_cost
FROM row_classes
GROUP BY currency
ORDER BY currency <> $currency, currency;
