-- reads: bill_rows, bills_incoming
-- writes: incoming (view): the rows of a load as they are written, and which bill each is of
-- invariant: rows that the load leaves out are not among them once they are removed
CREATE OR REPLACE TEMP VIEW incoming AS
SELECT b.provider, b.billing_period, b.told_format AS format, r.*
FROM bill_rows AS r
JOIN bills_incoming AS b USING (bill_id);
