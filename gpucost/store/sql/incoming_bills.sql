-- reads: charges_split (the mapped rows of a load, at least the rows in first_rows), first_rows, bills
-- writes: incoming_details (temporary): details that rows of the load share; without_account (temporary): files with one account, which rows without an account get; bills_by_file (temporary): the bills in each file of a load, and whether the file states that they are final; incoming_bills (temporary): one row per bill in the load
-- invariant: every row of the load belongs to exactly one row of each table; bill numbers continue the numbers in bills
CREATE OR REPLACE TEMP TABLE incoming_details AS
SELECT detail_id, COLUMNS(lambda name: NOT list_contains(getvariable('line_columns'), name))
FROM charges_split
JOIN first_rows USING (detail_id, source_row);

CREATE OR REPLACE TEMP TABLE without_account AS
SELECT source_file, provider, max(billing_account_id) AS account, sum(rows) FILTER (billing_account_id IS NULL) AS unnamed
FROM incoming_details
GROUP BY ALL
HAVING unnamed > 0 AND count(DISTINCT billing_account_id) = 1;

UPDATE incoming_details
SET billing_account_id = account
FROM without_account
WHERE billing_account_id IS NULL
  AND (incoming_details.source_file, incoming_details.provider) = (without_account.source_file, without_account.provider);

CREATE OR REPLACE TEMP TABLE bills_by_file AS
SELECT source_file AS file, provider, billing_period, coalesce(billing_account_id, '') AS account, format,
       count(is_invoiced) > 0 AS tells_invoices, bool_and(coalesce(is_invoiced, false) OR is_free) AS is_invoiced, min(coalesce(issuer, provider)) AS first_issuer, max(coalesce(issuer, provider)) AS last_issuer, sum(rows)::BIGINT AS rows
FROM incoming_details
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE incoming_bills AS
SELECT (SELECT coalesce(max(bill_id), 0) FROM bills)
           + row_number() OVER (ORDER BY provider, billing_account_id, billing_period, told_format)::INTEGER AS bill_id,
       provider,
       coalesce($source, provider || CASE WHEN billing_account_id = '' THEN '' ELSE '/' || billing_account_id END) AS source,
       told_format, coalesce(told_format, $format) AS format, billing_account_id, billing_period, is_final, nullif(issuer, provider) AS issuer, rows
FROM (
    SELECT provider, account AS billing_account_id, billing_period, format AS told_format,
           CASE WHEN bool_or(tells_invoices) THEN bool_and(is_invoiced) END AS is_final,
           CASE WHEN min(first_issuer) = max(last_issuer) THEN min(first_issuer) END AS issuer,
           sum(rows)::BIGINT AS rows
    FROM bills_by_file
    GROUP BY ALL
);
