-- reads: bills, effective_rows; $month
-- writes: nothing; answers billed and effective cost, and their difference, of all charges of the billing period, by provider, currency, kind and cause
-- invariant: billed sums are those of the view charges; effective ones are, over the months that an upfront fee's discount is spread over
SELECT b.provider, r.billing_currency AS currency, r.kind, r.cost_cause AS cause, count(*) AS rows,
    sum(r.billed_cost) AS billed_cost, sum(r.effective_cost) AS effective_cost,
    sum(r.billed_cost) - sum(r.effective_cost) AS difference,
    -- of an export that does not say: what was loaded while the month ran was not all
    bool_and(coalesce(b.is_final, b.loaded_at >= strptime(b.billing_period, '%Y-%m') + INTERVAL 1 MONTH)) AS is_final
FROM effective_rows AS r JOIN bills AS b USING (bill_id)
WHERE b.billing_period = $month
GROUP BY ALL
ORDER BY ALL;
