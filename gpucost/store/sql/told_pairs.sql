-- reads: told_sides (temporary): sides of a comparison, each a bill or one of its files, and the batch (sides of one batch are not compared); told_rows (temporary view): their rows; the macro charge_detail
-- writes: nothing; returns one row per two sides of a provider and billing period: the number of common charges, and each side with its size; for files only pairs with common charges
-- invariant: each pair once, the later batch first; `common` counts charges, not rows: a key that occurs twice in a
-- file is one
WITH keys AS MATERIALIZED (
    SELECT side, batch, charge_key, min(charge_period_start) AS earliest, max(charge_period_start) AS latest,
           charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, charge_description, pricing_quantity) AS detail
    FROM told_rows
    GROUP BY ALL
), sizes AS (
    SELECT s.*, count(*) AS charges, min(earliest) AS earliest, max(latest) AS latest
    FROM keys
    JOIN told_sides AS s USING (side)
    GROUP BY ALL
), shared AS (
    -- A charge of one account that is reported under another account's number is the same charge.
    SELECT a.side AS one, b.side AS other, count(DISTINCT hash(charge_key, a.detail)) AS common
    FROM keys AS a
    JOIN keys AS b USING (charge_key)
    WHERE a.batch > b.batch AND (a.detail = b.detail OR a.detail IS NULL OR b.detail IS NULL)
    GROUP BY ALL
)
SELECT coalesce(common, 0) AS common, a AS one, b AS other
FROM sizes AS a
JOIN sizes AS b ON b.provider = a.provider AND b.billing_period = a.billing_period AND a.batch > b.batch
LEFT JOIN shared AS s ON s.one = a.side AND s.other = b.side
WHERE common > 0 OR a.file IS NULL
ORDER BY a.side, b.side;
