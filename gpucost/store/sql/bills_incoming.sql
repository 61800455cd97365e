-- reads: bills_told, bills
-- writes: bills_incoming (temporary): one row per bill that the load holds
-- invariant: every row of the load belongs to exactly one of them; the numbers follow those in bills
CREATE OR REPLACE TEMP TABLE bills_incoming AS
SELECT (SELECT coalesce(max(bill_id), 0) FROM bills)
           + row_number() OVER (ORDER BY provider, billing_account_id, billing_period, told_format)::INTEGER AS bill_id,
       provider,
       coalesce($source, provider || CASE WHEN billing_account_id = '' THEN '' ELSE '/' || billing_account_id END) AS source,
       told_format, coalesce(told_format, $format) AS format, billing_account_id, billing_period, is_final, rows
FROM (
    SELECT provider, account AS billing_account_id, billing_period, format AS told_format,
           CASE WHEN bool_or(tells_invoices) THEN bool_and(is_invoiced) END AS is_final,
           sum(rows)::BIGINT AS rows
    FROM bills_told
    GROUP BY ALL
);
