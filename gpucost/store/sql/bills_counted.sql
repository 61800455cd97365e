-- reads: bill_rows
-- writes: bills_incoming.rows, counted again
-- invariant: rows counts what is in bill_rows
UPDATE bills_incoming AS b
SET rows = (SELECT count(*) FROM bill_rows AS r WHERE r.bill_id = b.bill_id);
