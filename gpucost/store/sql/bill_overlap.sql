-- reads: bills, bill_rows, bill_lines, bill_details
-- writes: amortized_fees (temporary), bill_lines, bill_details, bills: deletes Azure's actual costs that its amortized costs of the same days contain, and bills without remaining rows; sets the effective cost of commitment purchases that amortized costs spread to 0
-- invariant: a day of a subscription is in the store once; purchases and refunds of commitments, which amortized costs
-- lack, stay; billed cost stays; rows counts the rows of bill_rows
DELETE FROM bill_lines AS l
USING bill_details AS d, bills AS b
WHERE l.batch_id = d.batch_id AND l.detail_id = d.detail_id AND d.kind <> 'commitment_fee'
  AND b.bill_id = d.bill_id AND b.format = 'azure-actual'
  AND (b.billing_period, coalesce(d.sub_account_id, ''), l.charge_period_start) IN (
      SELECT (b.billing_period, coalesce(r.sub_account_id, ''), r.charge_period_start)
      FROM bill_rows AS r
      JOIN bills AS b USING (bill_id)
      WHERE b.format = 'azure-amortized'
  );

CREATE OR REPLACE TEMP TABLE amortized_fees AS
SELECT DISTINCT d.batch_id, d.detail_id
FROM bill_lines AS l
JOIN bill_details AS d USING (batch_id, detail_id)
JOIN bills AS a USING (bill_id)
JOIN bills AS m ON m.billing_period = a.billing_period AND m.billing_account_id = a.billing_account_id
WHERE d.kind = 'commitment_fee' AND l.effective_cost <> 0 AND a.format = 'azure-actual' AND m.format = 'azure-amortized';

UPDATE bill_lines
SET effective_cost = 0
WHERE (batch_id, detail_id) IN (SELECT (batch_id, detail_id) FROM amortized_fees);

UPDATE bill_details
SET cost_cause = 'fee_amortized'
WHERE (batch_id, detail_id) IN (SELECT (batch_id, detail_id) FROM amortized_fees);

UPDATE bills
SET rows = (SELECT count(*) FROM bill_rows AS r WHERE r.bill_id = bills.bill_id)
WHERE format = 'azure-actual';

DELETE FROM bills
WHERE format = 'azure-actual' AND rows = 0;
