-- reads: bills, bill_rows
-- writes: bill_rows: takes out of Azure's actual costs what the amortized costs of the same days tell of, too
-- invariant: a day of a subscription stands once; purchases and refunds of commitments, which amortized costs lack, stay
DELETE FROM bill_rows
WHERE kind <> 'commitment_fee'
  AND bill_id IN (SELECT bill_id FROM bills WHERE format = 'azure-actual')
  AND ((SELECT billing_period FROM bills AS b WHERE b.bill_id = bill_rows.bill_id), coalesce(sub_account_id, ''), charge_period_start) IN (
      SELECT (b.billing_period, coalesce(r.sub_account_id, ''), r.charge_period_start)
      FROM bill_rows AS r
      JOIN bills AS b USING (bill_id)
      WHERE b.format = 'azure-amortized'
  );
