-- reads: billed_rows, billed_periods, fx_rates, $is_pooled
-- writes: billed_hours (stored), what each bill says of each machine and charge period, with the price per hour: effective cost / billed hours, of the machine or of its pool
-- invariant: over a pool, sum(price x hours) = sum(effective cost), up to the price's twelfth decimal; a price is not negative
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
