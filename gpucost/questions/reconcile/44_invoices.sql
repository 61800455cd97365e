-- reads: bills, effective_rows; $month
-- writes: nothing; returns bill rows, billed and effective cost by provider, paying account, invoice and currency of the bill
-- invariant: each bill row of the billing period is in one invoice
SELECT b.provider, coalesce(r.billing_account_id, nullif(b.billing_account_id, '')) AS account, r.invoice_id, r.billing_currency AS currency, count(*) AS rows,
    sum(r.billed_cost) AS billed_cost, sum(r.effective_cost) AS effective_cost
FROM effective_rows AS r JOIN bills AS b USING (bill_id)
WHERE b.billing_period = $month
GROUP BY ALL
ORDER BY ALL;
