-- reads: bill_details, bill_lines, discounted_details, machine_riders, billed_nodes, catalog_instances
-- writes: number_of (macro): a number for each text; billed_details, attributes of rows on GPU machines, machines and all text as numbers; machine_lines, these rows as billed; billed_rows, the charges of GPU machines, with fees and discounts on them, each with its machine's charge period [from_ms, to_ms)
-- invariant: numbers have the order of their values, null for null; charge periods of a machine do not overlap; a charge counts once; if exports of two formats have a machine's time in one billing period, the newer load counts; effective_cost is after discount_cost, fees and discounts have no hours
CREATE OR REPLACE TEMP MACRO number_of(word) AS CASE WHEN word IS NOT NULL THEN dense_rank() OVER (ORDER BY word) END;
CREATE OR REPLACE TEMP TABLE billed_details AS
WITH gpu_types AS (
    SELECT DISTINCT lower(instance_type) AS instance_type FROM catalog_instances WHERE gpu_count > 0
),
machines AS (
    SELECT instance_key FROM billed_nodes
    UNION
    SELECT instance_key FROM bill_details
    -- Google bills an attached GPU separately from its machine
    WHERE kind = 'instance' AND (lower(instance_type) IN (FROM gpu_types) OR regexp_matches(sku_description, '\bgpu\b|nvidia', 'i'))
),
told AS (
    SELECT batch_id, detail_id, instance_key, kind, format, load_id, bill_id, provider, billing_period, billing_currency AS currency,
        rate_id, discount_rate, cost_cause, coalesce(charge_class = 'Correction', false) AS is_correction,
        coalesce(pricing_category = 'Dynamic', false) AS is_spot, capacity_reservation_id IS NOT NULL AS is_reserved,
        coalesce(capacity_reservation_type = 'capacity_block', false) AS is_block,
        -- fees and discounts on a machine do not describe the machine
        CASE WHEN kind = 'instance' THEN {
            'provider': provider, 'account': coalesce(sub_account_id, billing_account_id), 'region': lower(region), 'instance_type': lower(instance_type),
            'operating_system': lower(operating_system), 'tenancy': tenancy, 'reservation': capacity_reservation_id} END AS place
    FROM discounted_details
    WHERE kind IN ('instance', 'node_fee', 'discount') AND instance_key IN (FROM machines)
)
SELECT * EXCLUDE (place, provider, billing_period, format), place.account, place.region, place.instance_type,
    (row_number() OVER ())::INTEGER AS detail,
    number_of(instance_key)::INTEGER AS machine,
    number_of((billing_period, bill_id))::INTEGER AS bill,
    number_of((billing_period, format)) AS export,
    number_of(format) AS format,
    number_of(billing_period) AS billing_month,
    number_of(place.provider) AS provider_number,
    number_of(place.account) AS account_number,
    number_of(place.region) AS region_number,
    number_of(place.instance_type) AS type_number,
    number_of(place.operating_system) AS system_number,
    number_of(place.tenancy) AS tenancy_number,
    number_of(place.reservation) AS reservation_number
FROM told;

CREATE OR REPLACE TEMP TABLE machine_lines AS
SELECT d.detail, d.machine, d.is_correction, d.currency, epoch_ms(l.charge_period_start) AS start_ms, epoch_ms(l.charge_period_end) AS end_ms,
    l.instance_hours::DECIMAL(38, 12) AS instance_hours, (l.effective_cost * d.discount_rate)::DECIMAL(38, 12) AS discount_cost,
    l.effective_cost + discount_cost AS effective_cost, false AS is_rider,
    -- a part of a machine lacks its cost (as cores without their commitment's fee): the other parts are not its price
    d.cost_cause = 'fee_missing'
        OR l.effective_cost = 0 AND d.cost_cause IN ('zero_unexplained', 'reservation_cost_missing', 'commitment_cost_missing', 'dedicated_host') AS lacks_cost,
    l.effective_cost = 0 AND d.cost_cause = 'same' AS is_free
FROM bill_lines AS l
JOIN billed_details AS d USING (batch_id, detail_id)
WHERE d.kind = 'instance' AND l.charge_period_start < l.charge_period_end AND NOT (coalesce(l.instance_hours = 0, false) AND l.effective_cost = 0)
UNION ALL BY NAME
-- Like a correction of the price: it has no hours, and is not a price by itself. Discounts reduce a fee's product, too.
SELECT d.detail, d.machine, true AS is_correction, d.currency, epoch_ms(r.charge_period_start) AS start_ms, epoch_ms(r.charge_period_end) AS end_ms,
    NULL AS instance_hours, CASE WHEN d.kind = 'discount' THEN r.effective_cost ELSE (r.effective_cost * d.discount_rate)::DECIMAL(38, 12) END AS discount_cost,
    CASE WHEN d.kind = 'discount' THEN r.effective_cost ELSE r.effective_cost + discount_cost END AS effective_cost, true AS is_rider, false AS lacks_cost, false AS is_free
FROM machine_riders AS r
JOIN billed_details AS d USING (batch_id, detail_id)
WHERE r.effective_cost <> 0;

CREATE OR REPLACE TEMP TABLE billed_rows AS
WITH told AS (
    SELECT rowid AS line, * FROM machine_lines
),
twice AS (
    SELECT machine, billing_month FROM billed_details SEMI JOIN (FROM told WHERE NOT is_rider) AS t USING (detail) GROUP BY ALL HAVING count(DISTINCT format) > 1
),
days AS (
    SELECT t.line, t.machine, t.start_ms, t.end_ms, t.is_correction, d.billing_month, d.format, d.load_id,
        unnest(range(t.start_ms // 86400000, (t.end_ms - 1) // 86400000 + 1)) AS day
    FROM told AS t
    JOIN (FROM billed_details SEMI JOIN twice USING (machine, billing_month)) AS d USING (detail)
    WHERE NOT t.is_rider
),
superseded AS (
    SELECT DISTINCT o.line
    FROM days AS o
    JOIN days AS n ON n.machine = o.machine AND n.billing_month = o.billing_month AND n.day = o.day
        AND n.format <> o.format AND n.load_id > o.load_id AND n.start_ms < o.end_ms AND o.start_ms < n.end_ms
    WHERE NOT n.is_correction
),
counted AS NOT MATERIALIZED (
    SELECT * FROM told ANTI JOIN superseded USING (line) WHERE NOT is_rider
),
-- periods of one length, each at a multiple of it, are equal or disjoint
uneven AS (
    SELECT machine FROM counted GROUP BY machine
    HAVING min(end_ms - start_ms) < max(end_ms - start_ms) OR bool_or(start_ms % (end_ms - start_ms) <> 0)
),
spans AS (
    SELECT machine, start_ms, max(end_ms) AS end_ms FROM counted SEMI JOIN uneven USING (machine) GROUP BY ALL
),
starts AS (
    -- partly overlapping charges, such as an hour's and a day's, are one period: the cost of both, over both
    SELECT *, coalesce(start_ms >= max(end_ms) OVER (PARTITION BY machine ORDER BY start_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS opens
    FROM spans
),
numbered AS (
    SELECT *, count(*) FILTER (opens) OVER (PARTITION BY machine ORDER BY start_ms) AS number FROM starts
),
periods AS (
    SELECT machine, start_ms, min(start_ms) OVER w AS from_ms, max(end_ms) OVER w AS to_ms
    FROM numbered
    WINDOW w AS (PARTITION BY machine, number)
),
charged AS NOT MATERIALIZED (
    SELECT c.*, coalesce(p.from_ms, c.start_ms) AS from_ms, coalesce(p.to_ms, c.end_ms) AS to_ms
    FROM counted AS c LEFT JOIN periods AS p USING (machine, start_ms)
),
riders AS (
    SELECT t.*, d.export FROM told AS t JOIN billed_details AS d USING (detail) WHERE t.is_rider
),
ridden AS (
    SELECT c.machine, d.export, c.currency, c.from_ms, c.to_ms, greatest(sum(c.effective_cost), 0) AS cost
    FROM charged AS c JOIN billed_details AS d USING (detail)
    SEMI JOIN riders AS r ON r.machine = c.machine
    GROUP BY ALL
),
fitting AS (
    SELECT r.line, c.from_ms, c.to_ms
    FROM riders AS r
    ASOF JOIN ridden AS c ON c.machine = r.machine AND c.export = r.export AND c.currency = r.currency AND r.start_ms >= c.from_ms
    WHERE r.start_ms < c.to_ms AND r.end_ms <= c.to_ms
),
-- a charge of a day or a month is spread over its hours, by their cost
overlapping AS (
    SELECT r.line, c.from_ms, c.to_ms, c.cost, (least(r.end_ms, c.to_ms) - greatest(r.start_ms, c.from_ms)) / (c.to_ms - c.from_ms) AS part
    FROM (FROM riders ANTI JOIN fitting USING (line)) AS r
    JOIN ridden AS c ON c.machine = r.machine AND c.export = r.export AND c.currency = r.currency AND c.from_ms < r.end_ms AND r.start_ms < c.to_ms
),
-- a charge outside all hours is spread over the whole bill
outside AS MATERIALIZED (
    FROM riders ANTI JOIN fitting USING (line) ANTI JOIN overlapping USING (line)
),
placed AS (
    SELECT line, from_ms, to_ms, 1 AS share FROM fitting
    UNION ALL
    SELECT line, from_ms, to_ms, CASE WHEN sum(part * cost) OVER w > 0 THEN part * cost / sum(part * cost) OVER w ELSE part / sum(part) OVER w END
    FROM (FROM overlapping UNION ALL SELECT r.line, c.from_ms, c.to_ms, c.cost, 1 FROM outside AS r JOIN ridden AS c USING (machine, export, currency))
    WINDOW w AS (PARTITION BY line)
)
SELECT detail, machine, currency, from_ms, to_ms, instance_hours, effective_cost, discount_cost, is_correction, is_rider, lacks_cost, is_free FROM charged
UNION ALL
SELECT r.detail, r.machine, r.currency, p.from_ms, p.to_ms, NULL, (r.effective_cost * p.share)::DECIMAL(38, 12), (r.discount_cost * p.share)::DECIMAL(38, 12),
    r.is_correction, r.is_rider, r.lacks_cost, r.is_free
FROM placed AS p JOIN riders AS r USING (line)
WHERE p.share <> 0;
