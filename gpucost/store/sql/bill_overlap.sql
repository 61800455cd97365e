-- reads: bills, bill_rows
-- writes: bill_rows, bills: takes out of Azure's actual costs what the amortized costs of the same days tell of, too, and bills of which nothing is left; purchases of commitments that amortized costs spread have no effective cost of their own
-- invariant: a day of a subscription stands once; purchases and refunds of commitments, which amortized costs lack, stay; billed cost stays; rows counts what is in bill_rows
DELETE FROM bill_rows
WHERE kind <> 'commitment_fee'
  AND bill_id IN (SELECT bill_id FROM bills WHERE format = 'azure-actual')
  AND ((SELECT billing_period FROM bills AS b WHERE b.bill_id = bill_rows.bill_id), coalesce(sub_account_id, ''), charge_period_start) IN (
      SELECT (b.billing_period, coalesce(r.sub_account_id, ''), r.charge_period_start)
      FROM bill_rows AS r
      JOIN bills AS b USING (bill_id)
      WHERE b.format = 'azure-amortized'
  );

UPDATE bill_rows
SET effective_cost = 0, cost_cause = 'fee_amortized'
WHERE kind = 'commitment_fee' AND effective_cost <> 0
  AND bill_id IN (
      SELECT a.bill_id
      FROM bills AS a
      JOIN bills AS m USING (billing_period, billing_account_id)
      WHERE a.format = 'azure-actual' AND m.format = 'azure-amortized'
  );

UPDATE bills
SET rows = (SELECT count(*) FROM bill_rows AS r WHERE r.bill_id = bills.bill_id)
WHERE format = 'azure-actual';

DELETE FROM bills
WHERE format = 'azure-actual' AND rows = 0;
