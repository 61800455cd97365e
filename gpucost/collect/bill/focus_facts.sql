-- reads: raw (FOCUS cost and usage rows as text)
-- writes: focus_facts: whether the file says invoices, as FOCUS does since 1.2
-- invariant: one row
CREATE OR REPLACE TEMP TABLE focus_facts AS
SELECT count(invoice_id) > 0 AS tells_invoices
FROM raw;
