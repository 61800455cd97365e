-- reads: bills, effective_rows; $month
-- writes: nothing; returns billed and effective cost, and their difference, of all charges of the billing period, by provider, currency, kind and cause
-- invariant: billed sums equal the sums of the view charges; so do effective sums, over the months of an upfront fee's discount
SELECT b.provider, r.billing_currency AS currency, r.kind, r.cost_cause AS cause, count(*) AS rows,
    sum(r.billed_cost) AS billed_cost, sum(r.effective_cost) AS effective_cost,
    sum(r.billed_cost) - sum(r.effective_cost) AS difference,
    -- for an export without a final mark: one loaded during the month was not complete
    bool_and(coalesce(b.is_final, b.loaded_at >= strptime(b.billing_period, '%Y-%m') + INTERVAL 1 MONTH)) AS is_final
FROM effective_rows AS r JOIN bills AS b USING (bill_id)
WHERE b.billing_period = $month
GROUP BY ALL
ORDER BY ALL;
