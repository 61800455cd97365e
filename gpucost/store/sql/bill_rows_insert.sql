-- reads: incoming, bills_incoming
-- writes: bill_rows
-- invariant: every row of the incoming bills named in $bill_ids is written once
INSERT INTO bill_rows BY NAME
SELECT b.bill_id, i.* EXCLUDE (provider, billing_period, is_invoiced, format)
FROM incoming AS i
JOIN bills_incoming AS b
  ON b.provider = i.provider AND b.billing_account_id = coalesce(i.billing_account_id, '') AND b.billing_period = i.billing_period
 AND b.told_format IS NOT DISTINCT FROM i.format
WHERE list_contains($bill_ids, b.bill_id);
