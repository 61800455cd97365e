-- reads: charges_read, bills_incoming
-- writes: bill_rows
-- invariant: every row of the load is written once, under the number of its bill
INSERT INTO bill_rows BY NAME
SELECT b.bill_id, i.* EXCLUDE (provider, billing_period, is_invoiced, format)
FROM charges_read AS i
JOIN bills_incoming AS b
  ON b.provider = i.provider AND b.billing_account_id = coalesce(i.billing_account_id, '') AND b.billing_period = i.billing_period
 AND b.told_format IS NOT DISTINCT FROM i.format;
