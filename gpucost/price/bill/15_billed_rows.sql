-- reads: bill_rows, discounted_rows, machine_riders, bills, billed_nodes, catalog_instances, discount_rates
-- writes: billed_rows, the charges of machines with GPUs, and fees and discounts on those machines, each with the machine's charge period [from_ms, to_ms) that it belongs to
-- invariant: charge periods of a machine do not overlap; a charge counts once; where exports of two formats tell of a machine's time in one billing period, the newer load counts; effective_cost is less discount_cost, fees and discounts have no hours
CREATE OR REPLACE TEMP TABLE billed_rows AS
WITH gpu_types AS (
    SELECT DISTINCT lower(instance_type) AS instance_type FROM catalog_instances WHERE gpu_count > 0
),
machines AS (
    SELECT instance_key FROM billed_nodes
    UNION
    SELECT r.instance_key FROM bill_rows AS r
    -- Google bills a GPU that is attached to a machine beside it
    WHERE r.kind = 'instance' AND (lower(r.instance_type) IN (FROM gpu_types) OR regexp_matches(r.sku_description, '\bgpu\b|nvidia', 'i'))
),
told AS (
    SELECT row_number() OVER () AS row_id, r.bill_id, r.instance_key, r.provider, r.billing_period, r.format, r.load_id,
        coalesce(r.sub_account_id, r.billing_account_id) AS account, lower(r.region) AS region, lower(r.instance_type) AS instance_type,
        lower(r.operating_system) AS operating_system, r.tenancy, r.capacity_reservation_id AS reservation,
        r.billing_currency AS currency, epoch_ms(r.charge_period_start) AS start_ms, epoch_ms(r.charge_period_end) AS end_ms,
        r.instance_hours::DECIMAL(38, 12) AS instance_hours, r.effective_cost AS gross_cost,
        r.discount_cost, r.rate_id,
        coalesce(r.pricing_category = 'Dynamic', false) AS is_spot, r.capacity_reservation_id IS NOT NULL AS is_reserved,
        coalesce(r.capacity_reservation_type = 'capacity_block', false) AS is_block,
        coalesce(r.charge_class = 'Correction', false) AS is_correction,
        -- one part of a machine without its cost, the cores whose commitment's fee is not there: the other parts alone are no price
        r.cost_cause = 'fee_missing'
            OR r.effective_cost = 0 AND r.cost_cause IN ('zero_unexplained', 'reservation_cost_missing', 'commitment_cost_missing') AS lacks_cost,
        r.effective_cost = 0 AND r.cost_cause = 'same' AS is_free
    FROM discounted_rows AS r
    WHERE r.kind = 'instance' AND r.instance_key IN (FROM machines) AND r.charge_period_start < r.charge_period_end
        AND NOT (coalesce(r.instance_hours = 0, false) AND r.effective_cost = 0)
),
twice AS (
    SELECT instance_key, billing_period FROM told GROUP BY ALL HAVING count(DISTINCT format) > 1
),
days AS (
    SELECT row_id, instance_key, billing_period, format, load_id, start_ms, end_ms, is_correction,
        unnest(range(start_ms // 86400000, (end_ms - 1) // 86400000 + 1)) AS day
    FROM told SEMI JOIN twice USING (instance_key, billing_period)
),
superseded AS (
    SELECT DISTINCT o.row_id
    FROM days AS o
    JOIN days AS n ON n.instance_key = o.instance_key AND n.billing_period = o.billing_period AND n.day = o.day
        AND n.format <> o.format AND n.load_id > o.load_id AND n.start_ms < o.end_ms AND o.start_ms < n.end_ms
    WHERE NOT n.is_correction
),
counted AS (
    SELECT * FROM told ANTI JOIN superseded USING (row_id)
),
spans AS (
    SELECT instance_key, start_ms, max(end_ms) AS end_ms FROM counted GROUP BY ALL
),
starts AS (
    -- charges that overlap in part, an hour's and a day's, are one period: the cost of both, over both
    SELECT *, coalesce(start_ms >= max(end_ms) OVER (PARTITION BY instance_key ORDER BY start_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS opens
    FROM spans
),
numbered AS (
    SELECT *, count(*) FILTER (opens) OVER (PARTITION BY instance_key ORDER BY start_ms) AS number FROM starts
),
periods AS (
    SELECT instance_key, start_ms, min(start_ms) OVER w AS from_ms, max(end_ms) OVER w AS to_ms
    FROM numbered
    WINDOW w AS (PARTITION BY instance_key, number)
),
charged AS (
    SELECT c.* EXCLUDE (row_id, load_id, start_ms, end_ms, gross_cost), c.gross_cost + c.discount_cost AS effective_cost, p.from_ms, p.to_ms, false AS is_rider
    FROM counted AS c JOIN periods AS p USING (instance_key, start_ms)
),
-- what is charged on a machine besides what runs it: a fee, a discount
riders AS (
    SELECT row_number() OVER () AS rider, r.bill_id, r.instance_key, b.provider, b.billing_period, b.format, r.billing_currency AS currency,
        epoch_ms(r.charge_period_start) AS start_ms, epoch_ms(r.charge_period_end) AS end_ms, (r.effective_cost * coalesce(u.discount_cost / u.discounted_cost, 0))::DECIMAL(38, 12) AS discount_on_fee,
        r.effective_cost + discount_on_fee AS effective_cost, CASE WHEN r.kind = 'discount' THEN r.effective_cost ELSE discount_on_fee END AS discount_cost, u.rate_id
    FROM machine_riders AS r
    JOIN bills AS b USING (bill_id)
    -- a fee's product has discounts as any other
    LEFT JOIN discount_rates AS u ON u.bill_id = CASE WHEN r.kind = 'node_fee' AND NOT coalesce(r.is_net, false) THEN r.bill_id END
        AND u.currency = r.billing_currency AND u.service IS NOT DISTINCT FROM coalesce(r.service_code, r.service_name)
        AND u.account IS NOT DISTINCT FROM coalesce(r.sub_account_id, r.billing_account_id) AND u.sku_description IS NOT DISTINCT FROM r.sku_description
    WHERE r.instance_key IN (FROM machines) AND r.effective_cost <> 0
),
ridden AS (
    SELECT instance_key, billing_period, format, currency, from_ms, to_ms, greatest(sum(effective_cost), 0) AS cost
    FROM charged SEMI JOIN riders USING (instance_key)
    GROUP BY ALL
),
fitting AS (
    SELECT r.*, c.from_ms, c.to_ms
    FROM riders AS r
    ASOF JOIN ridden AS c ON c.instance_key = r.instance_key AND c.billing_period = r.billing_period AND c.format = r.format AND c.currency = r.currency
        AND r.start_ms >= c.from_ms
    WHERE r.start_ms < c.to_ms AND r.end_ms <= c.to_ms
),
-- a day's or a month's is on the hours that it spans, by their cost
overlapping AS (
    SELECT r.*, c.from_ms, c.to_ms, c.cost, (least(r.end_ms, c.to_ms) - greatest(r.start_ms, c.from_ms)) / (c.to_ms - c.from_ms) AS part
    FROM (FROM riders ANTI JOIN fitting USING (rider)) AS r
    JOIN ridden AS c ON c.instance_key = r.instance_key AND c.billing_period = r.billing_period AND c.format = r.format AND c.currency = r.currency
        AND c.from_ms < r.end_ms AND r.start_ms < c.to_ms
),
-- one that spans none, on all of the bill
outside AS MATERIALIZED (
    FROM riders ANTI JOIN fitting USING (rider) ANTI JOIN overlapping USING (rider)
),
placed AS (
    SELECT rider, from_ms, to_ms, 1 AS share FROM fitting
    UNION ALL
    SELECT rider, from_ms, to_ms, CASE WHEN sum(part * cost) OVER w > 0 THEN part * cost / sum(part * cost) OVER w ELSE part / sum(part) OVER w END
    FROM (FROM overlapping UNION ALL SELECT r.*, c.from_ms, c.to_ms, c.cost, 1 FROM outside AS r JOIN ridden AS c USING (instance_key, billing_period, format, currency))
    WINDOW w AS (PARTITION BY rider)
)
FROM (SELECT * EXCLUDE (format) FROM charged)
UNION ALL BY NAME
SELECT r.bill_id, r.instance_key, r.provider, r.billing_period, r.currency, (r.effective_cost * p.share)::DECIMAL(38, 12) AS effective_cost,
    (r.discount_cost * p.share)::DECIMAL(38, 12) AS discount_cost, r.rate_id, p.from_ms, p.to_ms,
    -- as a correction of the price alone: it has no hours, and is no price by itself
    true AS is_correction, true AS is_rider, false AS lacks_cost, false AS is_free, false AS is_spot, false AS is_reserved, false AS is_block
FROM placed AS p JOIN riders AS r USING (rider)
WHERE p.share <> 0;
