-- reads: charges_read (the mapped rows of a load)
-- writes: bills_told (temporary): which bills each file of a load tells of, and whether it says that they are final
-- invariant: every row belongs to exactly one of them; lacking counts rows that lack what every charge has
CREATE OR REPLACE TEMP TABLE bills_told AS
SELECT source_file AS file, provider, billing_period, coalesce(billing_account_id, '') AS account, format,
       count(is_invoiced) > 0 AS tells_invoices, bool_and(coalesce(is_invoiced, false) OR billed_cost = 0) AS is_invoiced, count(*) AS rows,
       count(*) FILTER (charge_period_start IS NULL OR charge_period_end IS NULL OR billing_period IS NULL OR billed_cost IS NULL
                        OR effective_cost IS NULL OR billing_currency IS NULL OR charge_category IS NULL OR provider IS NULL
                        OR kind IS NULL OR cost_cause IS NULL OR charge_key IS NULL) AS lacking
FROM charges_read
GROUP BY ALL;
