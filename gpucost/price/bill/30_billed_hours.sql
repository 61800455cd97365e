-- reads: billed_rows, billed_details, billed_nodes, nodes, bills, bill_details, fx_rates, $is_pooled
-- writes: billed_parts, one row per (bill, machine, charge period, currency); billed_periods, one row per (machine, charge period, currency), over all bills: its attributes, hours and cost; billed_hours (stored), each bill's data of each machine and charge period, with the price per hour: effective cost / billed hours, of the machine or of its pool
-- invariant: hours > 0; is_priced is false if a part of the cost is missing, if it is zero without a reason, if only corrections of a missing bill are known, or if all hours of a machine without a node were taken back; over a pool, sum(price x hours) = sum(effective cost), up to the price's twelfth decimal; a price is not negative
CREATE OR REPLACE TEMP TABLE billed_parts AS
SELECT d.bill, r.machine, r.currency, r.from_ms, r.to_ms, min(d.provider_number) AS provider_number, min(d.account_number) AS account_number, min(d.region_number) AS region_number,
    min(d.type_number) AS type_number, min(d.system_number) AS system_number, min(d.tenancy_number) AS tenancy_number, min(d.reservation_number) AS reservation_number,
    bool_or(d.is_spot AND NOT r.is_rider) AS is_spot, bool_or(d.is_block AND NOT r.is_rider) AS is_block, bool_or(d.is_reserved AND NOT r.is_rider) AS is_reserved,
    -- a correction of the price repeats the hours, or has none; a correction that takes hours back has negative ones
    sum(r.instance_hours) FILTER (NOT r.is_correction) AS told_hours,
    sum(r.instance_hours) FILTER (r.is_correction) AS corrected_hours,
    min(r.instance_hours) FILTER (r.is_correction) AS least_hours,
    sum(r.effective_cost) AS cost, sum(r.discount_cost) AS discount_cost, sum(r.effective_cost - r.discount_cost) FILTER (NOT r.is_rider) AS charged_cost,
    min(d.rate_id) AS rate_id, max(d.rate_id) AS last_rate_id,
    bool_and(r.is_correction) AS is_correction_only, bool_or(r.lacks_cost) AS lacks_cost, bool_or(r.is_free) AS is_free
FROM billed_rows AS r JOIN billed_details AS d USING (detail)
GROUP BY d.bill, r.machine, r.currency, r.from_ms, r.to_ms;

CREATE OR REPLACE TEMP TABLE billed_periods AS
WITH summed AS (
    SELECT machine, currency, from_ms, to_ms, min(provider_number) AS provider_number, min(account_number) AS account_number, min(region_number) AS region_number,
        min(type_number) AS type_number, min(system_number) AS system_number, min(tenancy_number) AS tenancy_number,
        CASE WHEN bool_or(is_spot) THEN 'spot' WHEN bool_or(is_block) THEN 'capacity_block' WHEN bool_or(is_reserved) THEN 'reserved' ELSE 'on_demand' END AS capacity_type,
        CASE WHEN NOT bool_or(is_spot) THEN min(reservation_number) END AS reservation_number,
        coalesce(sum(told_hours), 0) + CASE WHEN coalesce(min(least_hours) < 0, false) OR bool_and(is_correction_only) THEN coalesce(sum(corrected_hours), 0) ELSE 0 END AS hours,
        sum(cost) AS cost, min(bill) AS first_bill,
        -- the hours are in one bill only: the first that does not only correct them
        min(bill) FILTER (NOT is_correction_only) AS own_bill,
        bool_or(lacks_cost) OR bool_or(is_free) AND sum(charged_cost) = 0 AS is_unexplained
    FROM billed_parts
    GROUP BY machine, currency, from_ms, to_ms
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
SELECT h.* EXCLUDE (hours, own_bill, first_bill), coalesce(h.own_bill, CASE WHEN m.billing_period IS NOT NULL THEN h.first_bill END) AS hours_bill,
    -- without billed hours: the up time of its nodes, or the whole charge period
    CASE WHEN h.hours > 0 THEN h.hours WHEN l.hours > 0 THEN l.hours ELSE (h.to_ms - h.from_ms) / 3600000.0 END::DECIMAL(38, 12) AS hours,
    NOT h.is_unexplained AND hours_bill IS NOT NULL AND (h.hours > 0 OR h.cost <> 0 OR l.hours > 0) AS is_priced,
    -- a spot node never takes the price of a machine launched otherwise
    s.machine IS NOT NULL AND h.capacity_type <> 'spot' AS is_alone
FROM summed AS h
LEFT JOIN lived AS l USING (machine, from_ms, to_ms)
LEFT JOIN told_months AS m ON h.hours > 0 AND h.cost > 0 AND m.account_number = h.account_number AND m.billing_period = strftime(epoch_ms(h.from_ms), '%Y-%m')
LEFT JOIN spot_machines AS s USING (machine);

DELETE FROM billed_hours;
INSERT INTO billed_hours BY NAME
WITH pools AS (
    -- clouds assign commitment discounts to machines by lot: machines of one kind share them, each block or
    -- reservation of capacity is separate
    SELECT *,
        CASE WHEN $is_pooled AND NOT is_alone AND type_number IS NOT NULL
            THEN hash(provider_number, account_number, region_number, type_number, system_number, tenancy_number, capacity_type, reservation_number, currency, from_ms, to_ms)
            ELSE hash(machine, currency, from_ms, to_ms) END AS pool
    FROM billed_periods
),
prices AS (
    SELECT pool, (greatest(sum(cost), 0) / sum(hours))::DECIMAL(38, 12) AS price_per_hour
    FROM pools
    WHERE is_priced
    GROUP BY pool
),
rates AS (
    SELECT d.bill, r.machine, r.currency, r.from_ms, list(DISTINCT d.rate_id) AS discount_rates
    FROM billed_rows AS r JOIN billed_details AS d USING (detail)
    SEMI JOIN (FROM billed_parts WHERE rate_id < last_rate_id) AS p ON p.machine = r.machine AND p.from_ms = r.from_ms
    WHERE d.rate_id IS NOT NULL
    GROUP BY ALL
)
SELECT b.bill_id, m.instance_key, b.provider, b.billing_period, a.account, g.region, k.instance_type, p.capacity_type, t.from_ms, t.to_ms,
    CASE WHEN p.hours_bill = t.bill THEN p.hours::DOUBLE ELSE 0 END AS instance_hours, t.cost::DECIMAL(38, 12) AS effective_cost, t.discount_cost::DECIMAL(38, 12) AS discount_cost,
    CASE WHEN t.rate_id < t.last_rate_id THEN l.discount_rates WHEN t.rate_id IS NOT NULL THEN [t.rate_id] END AS discount_rates,
    t.currency, p.pool, p.is_unexplained, r.rate, CASE WHEN p.is_priced THEN s.price_per_hour END AS price_per_hour
FROM billed_parts AS t
JOIN pools AS p USING (machine, currency, from_ms)
JOIN (SELECT DISTINCT bill, bill_id, provider, billing_period FROM billed_details JOIN bills USING (bill_id)) AS b USING (bill)
JOIN (SELECT DISTINCT machine, instance_key FROM billed_details) AS m USING (machine)
LEFT JOIN (SELECT DISTINCT account_number, account FROM billed_details) AS a ON a.account_number = p.account_number
LEFT JOIN (SELECT DISTINCT region_number, region FROM billed_details) AS g ON g.region_number = p.region_number
LEFT JOIN (SELECT DISTINCT type_number, instance_type FROM billed_details) AS k ON k.type_number = p.type_number
LEFT JOIN prices AS s USING (pool)
LEFT JOIN rates AS l USING (bill, machine, currency, from_ms)
LEFT JOIN fx_rates AS r ON r.currency = t.currency AND r.from_ms <= t.from_ms AND t.from_ms < r.to_ms;
