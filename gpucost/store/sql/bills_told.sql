-- reads: charges_read (the mapped rows of a load), the macro charge_lack
-- writes: bills_told (temporary): which bills each file of a load tells of, and whether it says that they are final
-- invariant: every row belongs to exactly one of them; lacking counts rows that lack what every charge has
CREATE OR REPLACE TEMP TABLE bills_told AS
SELECT source_file AS file, provider, billing_period, coalesce(billing_account_id, '') AS account, format,
       count(is_invoiced) > 0 AS tells_invoices, bool_and(coalesce(is_invoiced, false) OR billed_cost = 0) AS is_invoiced, count(*) AS rows,
       count(*) FILTER (charge_lack(c) IS NOT NULL) AS lacking
FROM charges_read AS c
GROUP BY ALL;
