-- reads: bill_rows, bills, billed_nodes, catalog_instances
-- writes: billed_rows, the charges of machines with GPUs, each with the machine's charge period [from_ms, to_ms) that it belongs to
-- invariant: charge periods of a machine do not overlap; a charge counts once; where exports of two formats tell of a machine's time in one billing period, the newer load counts
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
    SELECT row_number() OVER () AS row_id, r.bill_id, r.instance_key, b.provider, b.billing_period, b.format, b.load_id,
        coalesce(r.sub_account_id, r.billing_account_id) AS account, lower(r.region) AS region, lower(r.instance_type) AS instance_type,
        r.billing_currency AS currency, epoch_ms(r.charge_period_start) AS start_ms, epoch_ms(r.charge_period_end) AS end_ms,
        r.instance_hours::DECIMAL(38, 12) AS instance_hours, r.effective_cost,
        coalesce(r.pricing_category = 'Dynamic', false) AS is_spot, r.capacity_reservation_id IS NOT NULL AS is_reserved,
        coalesce(r.charge_class = 'Correction', false) AS is_correction,
        -- one part of a machine without its cost, the cores whose commitment's fee is not there: the other parts alone are no price
        r.cost_cause = 'fee_missing'
            OR r.effective_cost = 0 AND r.cost_cause IN ('zero_unexplained', 'reservation_cost_missing', 'commitment_cost_missing') AS lacks_cost,
        r.effective_cost = 0 AND r.cost_cause = 'same' AS is_free
    FROM bill_rows AS r JOIN bills AS b USING (bill_id)
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
)
SELECT c.* EXCLUDE (row_id, format, load_id, start_ms, end_ms), p.from_ms, p.to_ms
FROM counted AS c JOIN periods AS p USING (instance_key, start_ms);
