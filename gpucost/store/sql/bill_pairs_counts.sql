-- reads: bill_rows
-- writes: bills.rows: of Azure's actual costs
-- invariant: rows counts what is in bill_rows
UPDATE bills
SET rows = (SELECT count(*) FROM bill_rows AS r WHERE r.bill_id = bills.bill_id)
WHERE format = 'azure-actual';
