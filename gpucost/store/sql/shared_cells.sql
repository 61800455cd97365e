-- reads: told_sides (temporary): sides of a comparison, each a bill or one of its files, the batch (sides of one are not compared), provider, format and time; told_rows (temporary view): their rows
-- writes: bill_cells (temporary): each side's money by account, UTC day, category, and resource or SKU, with the hours that its charges cover; may_be_one (macro): whether two cells can hold the same money, their resources apart; shared_cells (temporary): one row per two sides of different batches with money in the same cells and hours: sums, days
-- invariant: corrections add up; Azure's actual and amortized costs are two costs of one bill; where a side names no resource, SKUs are compared, and where exports of different kinds do, resources alone; unless $is_strict, only cells of which one side is another view count, if they hold half of an account's money: other row lengths or formats, resources on one side alone, or equal sums
CREATE OR REPLACE TEMP TABLE bill_cells AS
WITH compared AS (
    SELECT a.side
    FROM told_sides AS a
    JOIN told_sides AS b ON b.provider = a.provider AND b.batch <> a.batch AND a.from_ms < b.to_ms AND b.from_ms < a.to_ms
), spread AS (
    SELECT *, range(date_trunc('hour', charge_period_start), greatest(charge_period_end, charge_period_start + INTERVAL 1 SECOND), INTERVAL 1 HOUR) AS hours
    FROM told_rows
    SEMI JOIN compared USING (side)
    WHERE (billed_cost <> 0 OR effective_cost <> 0) AND charge_class IS DISTINCT FROM 'Correction'
), cells AS (
    SELECT side, batch, provider, format, regexp_replace(format, '^azure-.*', 'azure') AS export, sub_account_id, billing_account_id, charge_category, kind, region, billing_currency,
        lower(regexp_replace(resource_id, '^arn:.*[:/]', '')) AS resource, sku_id, coalesce(sku_meter, sku_description, charge_description) AS sku, date_trunc('day', hour) AS day,
        bit_or(1 << date_part('hour', hour)) AS hours, min(length) AS length, sum(cost) AS cost
    FROM (
        SELECT *, unnest(hours) AS hour, len(hours) AS length, (CASE WHEN effective_cost = 0 THEN billed_cost ELSE effective_cost END / length)::DECIMAL(38, 12) AS cost
        FROM spread
    )
    GROUP BY ALL
)
SELECT *, row_number() OVER () AS cell, sum(abs(cost)) OVER (PARTITION BY side, sub_account_id, billing_account_id) AS account_cost
FROM cells;

CREATE OR REPLACE TEMP MACRO may_be_one(a, b) AS
    a.batch > b.batch AND a.hours & b.hours <> 0 AND coalesce(a.region = b.region, true)
    AND coalesce(a.sub_account_id = b.sub_account_id, a.billing_account_id = b.billing_account_id, true)
    AND (a.format = b.format OR NOT starts_with(a.format, 'azure-a') OR NOT starts_with(b.format, 'azure-a'));

CREATE OR REPLACE TEMP TABLE shared_cells AS
WITH matched AS (
    SELECT a AS one, b AS other
    FROM bill_cells AS a
    JOIN bill_cells AS b USING (provider, day, charge_category, resource)
    WHERE may_be_one(a, b) AND (a.export <> b.export OR a.kind = b.kind AND coalesce(a.sku_id = b.sku_id, a.sku = b.sku, true))
    UNION ALL
    SELECT a, b
    FROM bill_cells AS a
    JOIN bill_cells AS b USING (provider, day, charge_category)
    WHERE may_be_one(a, b) AND (a.resource IS NULL OR b.resource IS NULL) AND coalesce(a.sku_id = b.sku_id, a.export <> b.export OR a.sku = b.sku, true)
), flagged AS (
    SELECT DISTINCT one.side AS one, other.side AS other, unnest([one.cell, other.cell]) AS cell
    FROM matched
    WHERE $is_strict OR one.length <> other.length OR one.format <> other.format OR (one.resource IS NULL) <> (other.resource IS NULL)
        OR abs(one.cost - other.cost) <= abs(one.cost) * 0.001
), accounts AS (
    SELECT one, other, side, min(billing_currency) AS currency, sum(cost) AS cost, sum(abs(cost)) >= 0.5 * min(account_cost) AS is_most, list(DISTINCT day) AS days
    FROM flagged
    JOIN bill_cells USING (cell)
    GROUP BY one, other, side, sub_account_id, billing_account_id
)
SELECT one, other, sum(cost) FILTER (side = one) AS one_cost, sum(cost) FILTER (side = other) AS other_cost, min(currency) AS currency,
    list_sort(list_distinct(flatten(list(days)))) AS days, NULL::VARCHAR AS machine, NULL::DOUBLE AS hours
FROM accounts
GROUP BY one, other
HAVING $is_strict OR bool_or(is_most);
