-- reads: incoming, bills_by_file, the macro charge_detail
-- writes: nothing; answers one row per two files of one load that tell of common charges
-- invariant: each pair once, the sizes counted in charges
WITH keys AS (
    SELECT DISTINCT provider, coalesce(billing_account_id, '') AS billing_account_id, billing_period, format, source_file, charge_key,
           charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, charge_description, pricing_quantity) AS detail
    FROM incoming
), sizes AS (
    SELECT provider, coalesce(billing_account_id, '') AS billing_account_id, billing_period, format, source_file,
           count(DISTINCT hash(charge_key, charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, charge_description,
                                                         pricing_quantity))) AS charges,
           min(charge_period_start) AS earliest, max(charge_period_start) AS latest
    FROM incoming
    GROUP BY ALL
), files AS (
    SELECT s.*, CASE WHEN t.tells_invoices THEN t.is_invoiced END AS is_final
    FROM sizes AS s
    JOIN bills_by_file AS t ON t.file = s.source_file AND t.provider = s.provider AND t.billing_period = s.billing_period
                        AND t.account = s.billing_account_id AND t.format IS NOT DISTINCT FROM s.format
), shared AS (
    -- One account's charge told of under another account's number is the same charge.
    SELECT a.provider, a.billing_period, a.billing_account_id AS a_account, a.source_file AS a_source, a.format AS a_format,
           b.billing_account_id AS b_account, b.source_file AS b_source, b.format AS b_format,
           count(DISTINCT hash(charge_key, a.detail)) AS common
    FROM keys AS a
    JOIN keys AS b USING (charge_key)
    WHERE a.provider = b.provider AND a.billing_period = b.billing_period AND a.source_file < b.source_file
      AND (a.detail = b.detail OR a.detail IS NULL OR b.detail IS NULL)
    GROUP BY ALL
)
SELECT s.*, a.is_final AS a_is_final, a.charges AS a_charges, a.earliest AS a_earliest, a.latest AS a_latest,
       b.is_final AS b_is_final, b.charges AS b_charges, b.earliest AS b_earliest, b.latest AS b_latest
FROM shared AS s
JOIN files AS a ON a.provider = s.provider AND a.billing_period = s.billing_period AND a.billing_account_id = s.a_account
               AND a.source_file = s.a_source AND a.format IS NOT DISTINCT FROM s.a_format
JOIN files AS b ON b.provider = s.provider AND b.billing_period = s.billing_period AND b.billing_account_id = s.b_account
               AND b.source_file = s.b_source AND b.format IS NOT DISTINCT FROM s.b_format
ORDER BY ALL;
