-- reads: bills, bill_rows, incoming_bills, the macro charge_detail
-- writes: nothing; answers one row per incoming bill (n) and stored bill (o) of its provider and billing period that it could replace
-- invariant: `common` counts charges, not rows: a key that stands twice in a file is one
WITH sides AS (
    SELECT bill_id, true AS is_new
    FROM incoming_bills
    UNION ALL
    SELECT bill_id, false
    FROM bills
    SEMI JOIN incoming_bills USING (provider, billing_period)
), keys AS MATERIALIZED (
    SELECT bill_id, is_new, charge_key, min(charge_period_start) AS earliest, max(charge_period_start) AS latest,
           charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, charge_description, pricing_quantity) AS detail
    FROM bill_rows
    JOIN sides USING (bill_id)
    GROUP BY ALL
), sizes AS (
    SELECT bill_id, count(*) AS charges, min(earliest) AS earliest, max(latest) AS latest
    FROM keys
    GROUP BY bill_id
), shared AS (
    SELECT arriving.bill_id AS new_id, known.bill_id AS old_id, count(DISTINCT hash(charge_key, arriving.detail)) AS common
    FROM (FROM keys WHERE NOT is_new) AS known
    JOIN (FROM keys WHERE is_new) AS arriving USING (charge_key)
    WHERE known.detail = arriving.detail OR known.detail IS NULL OR arriving.detail IS NULL
    GROUP BY ALL
)
SELECT o.provider, o.billing_period, coalesce(shared.common, 0) AS common,
       n.bill_id AS new_id, n.source AS new_source, n.format AS new_format, n.billing_account_id AS new_account, n.is_final AS new_is_final,
       new_sizes.charges AS new_charges, new_sizes.earliest AS new_earliest, new_sizes.latest AS new_latest,
       o.bill_id AS old_id, o.source AS old_source, o.format AS old_format, o.billing_account_id AS old_account, o.is_final AS old_is_final,
       o.is_whole AS old_is_whole, o.digest AS old_digest,
       coalesce(old_sizes.charges, 0) AS old_charges, old_sizes.earliest AS old_earliest, old_sizes.latest AS old_latest
FROM incoming_bills AS n
JOIN bills AS o ON o.provider = n.provider AND o.billing_period = n.billing_period
JOIN sizes AS new_sizes ON new_sizes.bill_id = n.bill_id
LEFT JOIN sizes AS old_sizes ON old_sizes.bill_id = o.bill_id
LEFT JOIN shared ON shared.new_id = n.bill_id AND shared.old_id = o.bill_id
ORDER BY new_id, old_id;
