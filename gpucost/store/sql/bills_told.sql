-- reads: charges_read (the mapped rows of a load)
-- writes: bills_told (temporary): which bills each file of a load tells of, and whether it says that they are final
-- invariant: every row belongs to exactly one of them
CREATE OR REPLACE TEMP TABLE bills_told AS
SELECT source_file AS file, provider, billing_period, coalesce(billing_account_id, '') AS account, format,
       count(is_invoiced) > 0 AS tells_invoices, bool_and(coalesce(is_invoiced, false) OR billed_cost = 0) AS is_invoiced, count(*) AS rows
FROM charges_read AS c
GROUP BY ALL;
