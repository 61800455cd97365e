-- reads: told_sides (temporary): sides of a comparison, each a bill or one of its files, with batch (sides of one batch are not compared), provider, format and time; told_rows (temporary view): their rows
-- writes: bill_cells (temporary): money of comparable sides by account, UTC day, category, and resource or SKU, with the hours of its charges, in groups of one SKU; shared_cells (temporary): no rows yet
-- invariant: corrections add up
CREATE OR REPLACE TEMP TABLE bill_cells AS
WITH compared AS (
    SELECT a.side
    FROM told_sides AS a
    JOIN told_sides AS b ON b.provider = a.provider AND b.batch <> a.batch AND a.from_ms < b.to_ms AND b.from_ms < a.to_ms
), timed AS (
    SELECT *, date_trunc('hour', charge_period_start) AS starts,
        greatest(1, ceil(date_diff('second', starts, charge_period_end) / 3600)::BIGINT) AS length, CASE WHEN effective_cost = 0 THEN billed_cost ELSE effective_cost END AS total
    FROM told_rows
    SEMI JOIN compared USING (side)
    WHERE total <> 0 AND charge_class IS DISTINCT FROM 'Correction'
), daily AS (
    SELECT *, unnest(range(date_trunc('day', starts), starts + to_hours(length), INTERVAL 1 DAY)) AS day,
        greatest(0, date_diff('hour', day, starts)) AS from_hour, least(24, date_diff('hour', day, starts) + length) AS to_hour
    FROM timed
), cells AS (
    SELECT side, batch, provider, format, regexp_replace(format, '^azure-.*', 'azure') AS export, sub_account_id, billing_account_id, charge_category, kind, region, billing_currency,
        lower(regexp_replace(resource_id, '^arn:.*[:/]', '')) AS resource, sku_id, coalesce(sku_meter, sku_description, charge_description) AS sku, day,
        bit_or((1::BIGINT << to_hour) - (1::BIGINT << from_hour)) AS hours, min(length) AS length, sum((total * ((to_hour - from_hour) / length))::DECIMAL(38, 12)) AS cost
    FROM daily
    GROUP BY ALL
)
SELECT *, row_number() OVER () AS cell,
    hash(side, export, sub_account_id, billing_account_id, charge_category, kind, region, resource IS NULL, sku_id, sku, day) AS sku_group,
    sum(abs(cost)) OVER (PARTITION BY side, sub_account_id, billing_account_id) AS account_cost, sum(abs(cost)) OVER (PARTITION BY side) AS side_cost
FROM cells;

CREATE OR REPLACE TEMP TABLE shared_cells (one BIGINT, other BIGINT, one_cost DECIMAL(38, 12), other_cost DECIMAL(38, 12), currency VARCHAR,
    days TIMESTAMP[], machine VARCHAR, hours DOUBLE, part DOUBLE);
