-- reads: incoming, bills_incoming
-- writes: nothing; answers one row per incoming bill and currency
-- invariant: sums are exact decimals
SELECT b.bill_id, i.billing_currency AS currency, sum(i.billed_cost) AS billed, sum(i.effective_cost) AS effective
FROM incoming AS i
JOIN bills_incoming AS b
  ON b.provider = i.provider AND b.billing_account_id = coalesce(i.billing_account_id, '') AND b.billing_period = i.billing_period
 AND b.told_format IS NOT DISTINCT FROM i.format
GROUP BY ALL
ORDER BY ALL;
