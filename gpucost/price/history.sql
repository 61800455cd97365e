-- reads: spot_prices, loads, price_list, place_rank; $instance_type, $zone, $region, $product, $from_ms, $to_ms, $now_ms, $stale_ms
-- writes: nothing; answers the price of an instance type in each zone inside [$from_ms, $to_ms) (null: all known time): its steps, their statistics, and the on-demand list price at the end; without $product for Linux, as each zone spells it
-- invariant: steps are half-open and do not overlap, and a repeated price is not a step; each is valid until the next change, at most $stale_ms past the end of the collected time before it, or $now_ms; price_ms is the sum of price x milliseconds, so price_ms / covered_ms is the mean
WITH market AS (
    SELECT provider, region, zone, instance_type, product, currency, at_ms, price_per_hour,
        coalesce($product, min(product) OVER (PARTITION BY provider, region, zone)) AS wanted
    FROM spot_prices
    WHERE instance_id = '' AND lower(instance_type) = lower($instance_type)
        AND coalesce(zone = $zone, true) AND coalesce(region = $region, true)
        -- the alphabetically first of these two names is also the preferred one
        AND (lower(product) = lower($product) OR $product IS NULL AND product IN ('Linux/UNIX', 'Linux/UNIX (Amazon VPC)'))
),
changes AS (
    SELECT * FROM market
    WHERE lower(product) = lower(wanted)
    QUALIFY (price_per_hour, currency) IS DISTINCT FROM
        lag((price_per_hour, currency)) OVER (PARTITION BY provider, region, zone ORDER BY at_ms)
),
collected AS (
    SELECT DISTINCT s.provider, s.region, l.from_ms, l.to_ms
    FROM loads AS l
    JOIN (SELECT DISTINCT provider, region, source FROM spot_prices WHERE instance_id = '') AS s USING (source)
    WHERE l.kind = 'spot'
),
followed AS (
    SELECT *, lead(at_ms) OVER (PARTITION BY provider, region, zone ORDER BY at_ms) AS next_ms FROM changes
),
held AS (
    SELECT f.*, least(coalesce(f.next_ms, $now_ms), $now_ms, (
        SELECT coalesce(max(c.to_ms), f.at_ms) + $stale_ms FROM collected AS c
        WHERE c.provider = f.provider AND c.region = f.region AND c.from_ms < coalesce(f.next_ms, $now_ms)
    )) AS until_ms
    FROM followed AS f
),
steps AS (
    SELECT provider, region, zone, currency, price_per_hour,
        greatest(at_ms, coalesce($from_ms, at_ms)) AS from_ms, least(until_ms, coalesce($to_ms, until_ms)) AS to_ms
    FROM held
    WHERE greatest(at_ms, coalesce($from_ms, at_ms)) < least(until_ms, coalesce($to_ms, until_ms))
),
bounds AS (
    SELECT coalesce($from_ms, min(from_ms), $now_ms - 1) AS start_ms, coalesce($to_ms, max(to_ms), $now_ms) AS end_ms FROM steps
),
sums AS (
    SELECT provider, region, zone, currency, sum(price_per_hour * (to_ms - from_ms)::DECIMAL(14, 0)) AS price_ms,
        sum(to_ms - from_ms)::BIGINT AS covered_ms, min(price_per_hour) AS min_price_per_hour, max(price_per_hour) AS max_price_per_hour,
        list((from_ms, to_ms, price_per_hour) ORDER BY from_ms) AS steps
    FROM steps GROUP BY ALL
),
zones AS (
    SELECT DISTINCT provider, region, zone, instance_type, product, currency FROM changes
),
on_demand AS (
    SELECT z.provider, z.region, z.zone, z.currency, p.price_per_hour AS on_demand_price_per_hour, p.price_as_of AS on_demand_price_as_of
    FROM (SELECT *, lower(region) AS region_name, lower(zone) AS zone_name FROM zones CROSS JOIN bounds) AS z
    JOIN price_list AS p ON p.provider = lower(z.provider) AND p.instance_type = lower(z.instance_type) AND p.currency = z.currency
        AND place_rank(p.region, p.zone, region_name, zone_name, NULL) IS NOT NULL
    WHERE p.purchase_option = 'on_demand' AND p.from_ms <= z.end_ms - 1 AND z.end_ms - 1 < p.to_ms
    QUALIFY row_number() OVER (PARTITION BY z.provider, z.region, z.zone, z.currency
        ORDER BY place_rank(p.region, p.zone, region_name, zone_name, NULL) DESC) = 1
)
FROM zones CROSS JOIN bounds
LEFT JOIN sums USING (provider, region, zone, currency)
LEFT JOIN on_demand USING (provider, region, zone, currency)
ORDER BY provider, region, zone, currency;
