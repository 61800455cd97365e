-- reads: bills, bill_rows
-- writes: bill_rows: purchases of commitments that amortized costs spread have no effective cost of their own
-- invariant: billed cost stays
UPDATE bill_rows
SET effective_cost = 0, cost_cause = 'fee_amortized'
WHERE kind = 'commitment_fee' AND effective_cost <> 0
  AND bill_id IN (
      SELECT a.bill_id
      FROM bills AS a
      JOIN bills AS m USING (billing_period, billing_account_id)
      WHERE a.format = 'azure-actual' AND m.format = 'azure-amortized'
  );
