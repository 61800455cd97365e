-- reads: billed_rows, billed_details, billed_nodes, nodes, bills, bill_details, fx_rates, $is_pooled
-- writes: billed_hours (stored), each bill's data of each machine and charge period, with the price per hour: effective cost / billed hours, of the machine or of its pool; machine_charges (view), the rows with their attributes; billed_parts, one row per (bill, machine, charge period, currency) of charge periods with several rows; billed_periods (view), one row per (machine, charge period, currency), over all bills: its attributes, hours and cost, and its bill if it has one row
-- invariant: hours > 0; is_priced is false if a part of the cost is missing, if it is zero without a reason, if only corrections of a missing bill are known, or if all hours of a machine without a node were taken back; over a pool, sum(price x hours) = sum(effective cost), up to the price's twelfth decimal; a price is not negative
CREATE OR REPLACE TEMP VIEW machine_charges AS
SELECT d.bill, r.machine, r.currency, r.from_ms, r.to_ms, d.provider_number, d.account_number, d.region_number, d.type_number, d.system_number, d.tenancy_number,
    d.reservation_number, d.is_spot AND NOT r.is_rider AS is_spot, d.is_block AND NOT r.is_rider AS is_block, d.is_reserved AND NOT r.is_rider AS is_reserved,
    -- a correction of the price repeats the hours, or has none; a correction that takes hours back has negative ones
    CASE WHEN NOT r.is_correction THEN r.instance_hours END AS reported_hours, CASE WHEN r.is_correction THEN r.instance_hours END AS corrected_hours,
    corrected_hours AS least_hours, r.effective_cost AS cost, r.discount_cost, CASE WHEN NOT r.is_rider THEN r.effective_cost - r.discount_cost END AS charged_cost,
    d.rate_id, r.is_correction AS is_correction_only, r.lacks_cost, r.is_free
FROM billed_rows AS r JOIN billed_details AS d USING (detail);

CREATE OR REPLACE TEMP TABLE billed_parts AS
SELECT bill, machine, currency, from_ms, to_ms, min(COLUMNS('_number')), bool_or(COLUMNS('is_(spot|block|reserved|free)|lacks_cost')),
    bool_and(is_correction_only) AS is_correction_only, sum(COLUMNS('(reported|corrected)_hours|^cost|(discount|charged)_cost')), min(least_hours) AS least_hours,
    min(rate_id) AS rate_id, max(rate_id) AS last_rate_id
FROM machine_charges
SEMI JOIN (SELECT machine, from_ms FROM billed_rows GROUP BY machine, from_ms HAVING count(*) > 1) AS several USING (machine, from_ms)
GROUP BY bill, machine, currency, from_ms, to_ms;

CREATE OR REPLACE TEMP VIEW billed_periods AS
WITH charged AS (
    -- nearly every charge period of a machine has one row, which needs no aggregate
    SELECT *, bill AS first_bill, CASE WHEN NOT is_correction_only THEN bill END AS own_bill
    FROM machine_charges ANTI JOIN billed_parts USING (machine, from_ms)
    UNION ALL BY NAME
    SELECT machine, currency, from_ms, to_ms, min(COLUMNS('_number')), bool_or(COLUMNS('is_(spot|block|reserved|free)|lacks_cost')),
        bool_and(is_correction_only) AS is_correction_only, sum(COLUMNS('(reported|corrected)_hours|^cost|charged_cost')), min(least_hours) AS least_hours,
        -- the hours are in one bill only: the first that does not only correct them
        min(bill) AS first_bill, min(bill) FILTER (NOT is_correction_only) AS own_bill
    FROM billed_parts
    GROUP BY machine, currency, from_ms, to_ms
),
summed AS (
    SELECT * REPLACE (CASE WHEN NOT is_spot THEN reservation_number END AS reservation_number),
        CASE WHEN is_spot THEN 'spot' WHEN is_block THEN 'capacity_block' WHEN is_reserved THEN 'reserved' ELSE 'on_demand' END AS capacity_type,
        coalesce(reported_hours, 0) + CASE WHEN coalesce(least_hours < 0, false) OR is_correction_only THEN coalesce(corrected_hours, 0) ELSE 0 END AS hours,
        lacks_cost OR is_free AND charged_cost = 0 AS is_unexplained
    FROM charged
),
machines AS (
    SELECT machine, any_value(instance_key) AS instance_key FROM billed_details GROUP BY machine
),
-- if the account's bill of a month exists without the machine, a later correction is its whole cost
told_months AS (
    SELECT DISTINCT d.account_number, b.billing_period
    FROM (SELECT DISTINCT account, account_number FROM billed_details WHERE is_correction) AS d
    JOIN bill_details AS r ON coalesce(r.sub_account_id, r.billing_account_id) = d.account
    JOIN bills AS b USING (bill_id)
    WHERE r.charge_class IS DISTINCT FROM 'Correction'
),
lived AS (
    SELECT h.machine, h.from_ms, h.to_ms,
        sum(greatest(0, least(n.up_to_ms, h.to_ms) - greatest(n.up_from_ms, h.from_ms)) * coalesce(n.gpu_count / n.machine_gpus, 1))::DECIMAL(38, 6)
            / 3600000::DECIMAL(38, 12) AS hours
    FROM (SELECT DISTINCT machine, from_ms, to_ms FROM summed WHERE hours <= 0) AS h
    JOIN machines AS m USING (machine)
    JOIN billed_nodes AS b USING (instance_key)
    JOIN nodes AS n USING (node_id)
    GROUP BY ALL
),
spot_machines AS (
    SELECT DISTINCT m.machine FROM machines AS m JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id) WHERE n.capacity_type = 'spot'
)
SELECT h.* EXCLUDE (hours), coalesce(h.own_bill, CASE WHEN m.billing_period IS NOT NULL THEN h.first_bill END) AS hours_bill,
    -- without billed hours: the up time of its nodes, or the whole charge period
    CASE WHEN h.hours > 0 THEN h.hours WHEN l.hours > 0 THEN l.hours ELSE (h.to_ms - h.from_ms) / 3600000.0 END::DECIMAL(38, 12) AS hours,
    NOT h.is_unexplained AND hours_bill IS NOT NULL AND (h.hours > 0 OR h.cost <> 0 OR l.hours > 0) AS is_priced,
    -- a spot node never takes the price of a machine launched otherwise
    h.type_number IS NULL OR s.machine IS NOT NULL AND h.capacity_type <> 'spot' AS is_alone
FROM summed AS h
LEFT JOIN lived AS l USING (machine, from_ms, to_ms)
LEFT JOIN told_months AS m ON h.hours > 0 AND h.cost > 0 AND m.account_number = h.account_number AND m.billing_period = strftime(epoch_ms(h.from_ms), '%Y-%m')
LEFT JOIN spot_machines AS s USING (machine);

DELETE FROM billed_hours;
INSERT INTO billed_hours BY NAME
WITH pools AS (
    -- clouds assign commitment discounts to machines by lot: machines of one kind share them, each block or
    -- reservation of capacity is separate
    SELECT *, $is_pooled AND NOT is_alone AS is_shared,
        CASE WHEN is_shared
            THEN hash(provider_number, account_number, region_number, type_number, system_number, tenancy_number, capacity_type, reservation_number, currency, from_ms, to_ms)
            ELSE hash(machine, currency, from_ms, to_ms) END AS pool,
        CASE WHEN is_priced AND NOT is_shared THEN (greatest(cost, 0) / hours)::DECIMAL(38, 12) END AS own_price
    FROM billed_periods
),
prices AS (
    SELECT pool, (greatest(sum(cost), 0) / sum(hours))::DECIMAL(38, 12) AS price_per_hour
    FROM pools
    WHERE is_priced AND is_shared
    GROUP BY pool
),
rates AS (
    SELECT bill, machine, currency, from_ms, list(DISTINCT rate_id) AS discount_rates
    FROM machine_charges
    SEMI JOIN (FROM billed_parts WHERE rate_id < last_rate_id) AS p USING (machine, from_ms)
    WHERE rate_id IS NOT NULL
    GROUP BY ALL
),
parts AS (
    SELECT *, CASE WHEN rate_id IS NOT NULL THEN [rate_id] END AS discount_rates FROM pools WHERE bill IS NOT NULL
    UNION ALL BY NAME
    SELECT p.* REPLACE (t.bill AS bill, t.cost AS cost, t.discount_cost AS discount_cost, t.rate_id AS rate_id),
        CASE WHEN t.rate_id < t.last_rate_id THEN l.discount_rates WHEN t.rate_id IS NOT NULL THEN [t.rate_id] END AS discount_rates
    FROM billed_parts AS t
    JOIN pools AS p USING (machine, currency, from_ms)
    LEFT JOIN rates AS l ON l.bill = t.bill AND l.machine = t.machine AND l.currency = t.currency AND l.from_ms = t.from_ms
)
SELECT b.bill_id, m.instance_key, b.provider, b.billing_period, a.account, g.region, k.instance_type, p.capacity_type, p.from_ms, p.to_ms,
    CASE WHEN p.hours_bill = p.bill THEN p.hours::DOUBLE ELSE 0 END AS instance_hours, p.cost::DECIMAL(38, 12) AS effective_cost, p.discount_cost::DECIMAL(38, 12) AS discount_cost,
    p.discount_rates, p.currency, p.pool, p.is_unexplained, r.rate, CASE WHEN p.is_priced THEN coalesce(p.own_price, s.price_per_hour) END AS price_per_hour
FROM parts AS p
JOIN (SELECT DISTINCT bill, bill_id, provider, billing_period FROM billed_details JOIN bills USING (bill_id)) AS b USING (bill)
JOIN (SELECT DISTINCT machine, instance_key FROM billed_details) AS m USING (machine)
LEFT JOIN (SELECT DISTINCT account_number, account FROM billed_details) AS a ON a.account_number = p.account_number
LEFT JOIN (SELECT DISTINCT region_number, region FROM billed_details) AS g ON g.region_number = p.region_number
LEFT JOIN (SELECT DISTINCT type_number, instance_type FROM billed_details) AS k ON k.type_number = p.type_number
LEFT JOIN prices AS s USING (pool)
LEFT JOIN fx_rates AS r ON r.currency = p.currency AND r.from_ms <= p.from_ms AND p.from_ms < r.to_ms;
