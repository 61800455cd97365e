-- reads: incoming
-- writes: nothing; answers one row per incoming bill and currency
-- invariant: sums are exact decimals
SELECT bill_id, billing_currency AS currency, sum(billed_cost) AS billed, sum(effective_cost) AS effective
FROM incoming
GROUP BY ALL
ORDER BY ALL;
