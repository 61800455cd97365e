-- reads: bill_cells (temporary): the money of the sides of a comparison
-- writes: bill_groups (temporary): cells of one SKU; may_be_one (macro): whether two cells or groups can hold the same money, apart from their resources; shared_cells (temporary): one row per two sides of different batches with money in the same cells and hours: sums, days, and the part of the smaller side
-- invariant: Azure's actual and amortized costs are two costs of one bill; SKUs are compared if a side does not name
-- resources, and only resources if exports of different kinds do; unless $is_strict, cells count only if one side is
-- another view (other row lengths or formats, resources on one side only, or equal sums) and if they hold half of an
-- account's money
-- only with: bill_cells
CREATE OR REPLACE TEMP TABLE bill_groups AS
SELECT sku_group, side, batch, provider, format, export, sub_account_id, billing_account_id, charge_category, kind, region,
    resource IS NULL AS is_bare, sku_id, sku, day, bit_or(hours) AS hours, min(length) AS length, sum(cost) AS cost
FROM bill_cells
GROUP BY ALL;

CREATE OR REPLACE TEMP MACRO may_be_one(a, b) AS
    a.batch <> b.batch AND a.hours & b.hours <> 0 AND coalesce(a.region = b.region, true)
    AND coalesce(a.sub_account_id = b.sub_account_id, a.billing_account_id = b.billing_account_id, true)
    AND (a.format = b.format OR NOT starts_with(a.format, 'azure-a') OR NOT starts_with(b.format, 'azure-a'));

INSERT INTO shared_cells
WITH resources AS (
    SELECT a.side AS one, b.side AS other, a.cell AS one_cell, b.cell AS other_cell
    FROM bill_cells AS a
    JOIN bill_cells AS b USING (provider, day, charge_category, resource)
    WHERE a.batch > b.batch AND may_be_one(a, b) AND (a.export <> b.export OR a.kind = b.kind AND coalesce(a.sku_id = b.sku_id, a.sku = b.sku, true))
        AND ($is_strict OR a.length <> b.length OR a.format <> b.format OR abs(a.cost - b.cost) <= abs(a.cost) * 0.001)
), keyed AS (
    -- payers have thousands of groups: use these only if a side does not name accounts
    SELECT *, coalesce(sku_id, sku) AS sku_key,
        unnest([sub_account_id, CASE WHEN (SELECT bool_or(sub_account_id IS NULL) FROM bill_groups) THEN coalesce(billing_account_id, '') END]) AS account
    FROM bill_groups WHERE (SELECT bool_or(is_bare) FROM bill_groups)
), alike AS (
    SELECT a, b FROM keyed AS a JOIN keyed AS b USING (provider, day, charge_category, account, export, sku_key)
    UNION ALL
    -- cells without a resource and SKU, and SKUs named by another export, may match any
    SELECT a, b
    FROM (FROM keyed WHERE is_bare AND (sku_key IS NULL OR (SELECT count(DISTINCT export) > 1 FROM keyed))) AS a
    JOIN keyed AS b USING (provider, day, charge_category, account)
    WHERE a.export <> b.export OR a.sku_key IS NULL
), skus AS (
    SELECT CASE WHEN a.batch > b.batch THEN [a.side, b.side] ELSE [b.side, a.side] END AS sides, [a.sku_group, b.sku_group] AS sku_groups
    FROM alike
    WHERE (a.is_bare OR b.is_bare) AND may_be_one(a, b) AND coalesce(a.sku_id = b.sku_id, true)
        AND ($is_strict OR a.length <> b.length OR a.format <> b.format OR a.is_bare <> b.is_bare OR abs(a.cost - b.cost) <= abs(a.cost) * 0.001)
), flagged AS (
    SELECT one, other, unnest([one_cell, other_cell]) AS cell FROM resources
    UNION
    SELECT sides[1], sides[2], cell FROM (SELECT sides, unnest(sku_groups) AS sku_group FROM skus) JOIN bill_cells USING (sku_group)
), accounts AS (
    SELECT one, other, side, min(billing_currency) AS currency, sum(cost) AS cost, sum(abs(cost)) AS held, sum(abs(cost)) >= 0.5 * min(account_cost) AS is_most,
        min(side_cost) AS side_cost, list(DISTINCT day) AS days
    FROM flagged
    JOIN bill_cells USING (cell)
    GROUP BY one, other, side, sub_account_id, billing_account_id
)
SELECT one, other, sum(cost) FILTER (side = one) AS one_cost, sum(cost) FILTER (side = other) AS other_cost, min(currency) AS currency,
    list_sort(list_distinct(flatten(list(days)))) AS days, NULL::VARCHAR AS machine, NULL::DOUBLE AS hours,
    (least(sum(held) FILTER (side = one), sum(held) FILTER (side = other)) / min(side_cost))::DOUBLE AS part
FROM accounts
GROUP BY one, other
HAVING $is_strict OR bool_or(is_most);
