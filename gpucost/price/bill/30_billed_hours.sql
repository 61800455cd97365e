-- reads: billed_rows, billed_nodes, nodes, fx_rates, $is_pooled
-- writes: billed_periods, one row per (machine, charge period, currency), whichever bills tell of it: what it is, its hours and their cost; billed_hours (stored), what each bill says of each machine and charge period, with the price per hour: effective cost / billed hours, of the machine or of its pool
-- invariant: hours > 0; is_priced is false where a part of the cost is missing or it cost nothing, and nothing says why, and where only corrections of it are known; over a pool, sum(price x hours) = sum(effective cost), up to the price's twelfth decimal; a price is not negative
CREATE OR REPLACE TEMP TABLE billed_periods AS
WITH summed AS (
    SELECT instance_key, currency, from_ms, to_ms, min(provider) AS provider, min(account) AS account, min(region) AS region,
        min(instance_type) AS instance_type, min(operating_system) AS operating_system, min(tenancy) AS tenancy,
        CASE WHEN bool_or(is_spot) THEN 'spot' WHEN bool_or(is_block) THEN 'capacity_block' WHEN bool_or(is_reserved) THEN 'reserved' ELSE 'on_demand' END AS capacity_type,
        CASE WHEN NOT bool_or(is_spot) THEN min(reservation) END AS reservation,
        -- a correction of the price repeats the hours, or has none; one that takes hours back has them below 0
        sum(instance_hours) FILTER (NOT is_correction) AS told_hours,
        sum(instance_hours) FILTER (is_correction) AS corrected_hours,
        coalesce(min(instance_hours) FILTER (is_correction) < 0, false) AS takes_back,
        sum(effective_cost) AS cost,
        bool_and(is_correction) AS is_correction_only,
        bool_or(lacks_cost) OR bool_or(is_free) AND sum(effective_cost - discount_cost) FILTER (NOT is_rider) = 0 AS is_unexplained
    FROM billed_rows
    GROUP BY instance_key, currency, from_ms, to_ms
),
hours AS (
    SELECT *, coalesce(told_hours, 0) + CASE WHEN takes_back THEN corrected_hours ELSE 0 END AS hours FROM summed
),
lived AS (
    SELECT h.instance_key, h.from_ms, h.to_ms,
        sum(greatest(0, least(n.up_to_ms, h.to_ms) - greatest(n.up_from_ms, h.from_ms))) / 3600000::DECIMAL(38, 12) AS hours
    FROM (SELECT DISTINCT instance_key, from_ms, to_ms FROM hours WHERE hours <= 0) AS h
    JOIN billed_nodes AS b USING (instance_key)
    JOIN nodes AS n USING (node_id)
    GROUP BY ALL
),
spot_nodes AS (
    SELECT DISTINCT b.instance_key FROM billed_nodes AS b JOIN nodes AS n USING (node_id) WHERE n.capacity_type = 'spot'
)
SELECT h.* EXCLUDE (told_hours, corrected_hours, takes_back, is_correction_only, hours),
    -- a bill that tells no hours is of those that its nodes were up, or of the whole charge period
    CASE WHEN h.hours > 0 THEN h.hours WHEN l.hours > 0 THEN l.hours ELSE (h.to_ms - h.from_ms) / 3600000.0 END::DECIMAL(38, 12) AS hours,
    NOT h.is_unexplained AND NOT h.is_correction_only AS is_priced,
    -- no price of a machine that was launched otherwise may be that of a spot node
    s.instance_key IS NOT NULL AND h.capacity_type <> 'spot' AS is_alone
FROM hours AS h
LEFT JOIN lived AS l USING (instance_key, from_ms, to_ms)
LEFT JOIN spot_nodes AS s USING (instance_key);

DELETE FROM billed_hours;
INSERT INTO billed_hours BY NAME
WITH pools AS (
    -- clouds assign a commitment's discounts to machines by lot: those of one kind share them, each block or reservation of capacity by itself
    SELECT *,
        CASE WHEN $is_pooled AND NOT is_alone AND instance_type IS NOT NULL
            THEN hash(provider, account, region, instance_type, operating_system, tenancy, capacity_type, reservation, currency, from_ms, to_ms)
            ELSE hash(instance_key, currency, from_ms, to_ms) END AS pool
    FROM billed_periods
),
prices AS (
    SELECT pool, (greatest(sum(cost), 0) / sum(hours))::DECIMAL(38, 12) AS price_per_hour
    FROM pools
    WHERE is_priced
    GROUP BY pool
),
told AS (
    SELECT bill_id, instance_key, currency, from_ms, to_ms, min(billing_period) AS billing_period, min(provider) AS provider,
        sum(effective_cost)::DECIMAL(38, 12) AS effective_cost, sum(discount_cost)::DECIMAL(38, 12) AS discount_cost,
        list(DISTINCT rate_id) FILTER (rate_id IS NOT NULL) AS discount_rates,
        -- the hours stand once, in the first of the bills that does not only correct them
        NOT bool_and(is_correction) AND row_number() OVER (
            PARTITION BY instance_key, currency, from_ms ORDER BY bool_and(is_correction), min(billing_period), bill_id) = 1 AS has_hours
    FROM billed_rows
    GROUP BY bill_id, instance_key, currency, from_ms, to_ms
)
SELECT t.bill_id, t.instance_key, t.provider, t.billing_period, p.account, p.region, p.instance_type, p.capacity_type, t.from_ms, t.to_ms,
    CASE WHEN t.has_hours THEN p.hours::DOUBLE ELSE 0 END AS instance_hours,
    t.effective_cost, t.discount_cost, t.discount_rates, t.currency, p.pool, p.is_unexplained, r.rate, CASE WHEN p.is_priced THEN s.price_per_hour END AS price_per_hour
FROM told AS t
JOIN pools AS p USING (instance_key, currency, from_ms)
LEFT JOIN prices AS s USING (pool)
LEFT JOIN fx_rates AS r ON r.currency = t.currency AND r.from_ms <= t.from_ms AND t.from_ms < r.to_ms;
