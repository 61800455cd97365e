-- reads: incoming (the mapped rows of a load), the macro charge_detail
-- writes: bills_incoming (temporary): one row per bill that the load holds
-- invariant: every incoming row belongs to exactly one of them; the numbers follow those in bills
CREATE OR REPLACE TEMP TABLE bills_incoming AS
SELECT (SELECT coalesce(max(bill_id), 0) FROM bills)
           + row_number() OVER (ORDER BY provider, billing_account_id, billing_period, told_format)::INTEGER AS bill_id,
       provider,
       coalesce($source, provider || CASE WHEN billing_account_id = '' THEN '' ELSE '/' || billing_account_id END) AS source,
       told_format, coalesce(told_format, $format) AS format, billing_account_id, billing_period, is_final, rows, charges, earliest, latest
FROM (
    SELECT provider, coalesce(billing_account_id, '') AS billing_account_id, billing_period, format AS told_format,
           CASE WHEN count(is_invoiced) > 0 THEN bool_and(coalesce(is_invoiced, false) OR billed_cost = 0) END AS is_final,
           count(*) AS rows,
           count(DISTINCT hash(charge_key, charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, charge_description,
                                                         pricing_quantity))) AS charges,
           min(charge_period_start) AS earliest, max(charge_period_start) AS latest
    FROM incoming
    GROUP BY ALL
);
