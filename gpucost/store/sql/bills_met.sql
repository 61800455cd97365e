-- reads: bills, bill_rows, incoming, bills_incoming, the macro charge_detail
-- writes: nothing; answers one row per incoming bill and stored bill of its provider and billing period that it could replace
-- invariant: `common` counts charges, not rows: a key that stands twice in a file is one
WITH known AS (
    SELECT DISTINCT b.bill_id, r.charge_key,
           charge_detail(r.line_item_id, r.resource_id, r.tags, r.zone, r.sku_id, r.sku_price_id, r.charge_description, r.pricing_quantity) AS detail
    FROM bill_rows AS r
    JOIN bills AS b USING (bill_id)
    WHERE EXISTS (FROM bills_incoming AS n WHERE n.provider = b.provider AND n.billing_period = b.billing_period)
), arriving AS (
    SELECT DISTINCT b.bill_id, i.charge_key,
           charge_detail(i.line_item_id, i.resource_id, i.tags, i.zone, i.sku_id, i.sku_price_id, i.charge_description, i.pricing_quantity) AS detail
    FROM incoming AS i
    JOIN bills_incoming AS b
      ON b.provider = i.provider AND b.billing_account_id = coalesce(i.billing_account_id, '')
     AND b.billing_period = i.billing_period AND b.told_format IS NOT DISTINCT FROM i.format
), shared AS (
    SELECT arriving.bill_id AS new_id, known.bill_id AS old_id, count(DISTINCT hash(charge_key, arriving.detail)) AS common
    FROM known
    JOIN arriving USING (charge_key)
    WHERE known.detail = arriving.detail OR known.detail IS NULL OR arriving.detail IS NULL
    GROUP BY ALL
), sizes AS (
    SELECT bill_id, count(*) AS charges
    FROM known
    GROUP BY bill_id
)
SELECT n.bill_id AS new_id, n.billing_account_id AS new_account, o.bill_id AS old_id, o.provider, o.billing_period, o.source, o.format, o.billing_account_id, o.is_whole, o.is_final, o.digest,
       coalesce(sizes.charges, 0) AS charges, coalesce(shared.common, 0) AS common,
       (SELECT min(r.charge_period_start) FROM bill_rows AS r WHERE r.bill_id = o.bill_id) AS earliest,
       (SELECT max(r.charge_period_start) FROM bill_rows AS r WHERE r.bill_id = o.bill_id) AS latest
FROM bills_incoming AS n
JOIN bills AS o ON o.provider = n.provider AND o.billing_period = n.billing_period
LEFT JOIN sizes ON sizes.bill_id = o.bill_id
LEFT JOIN shared ON shared.new_id = n.bill_id AND shared.old_id = o.bill_id
ORDER BY ALL;
