-- reads: spot_prices, listed_instances, discounts, discount_fits; $instance_types (lower-cased), $currency, $now_ms
-- writes: market_changes, changes of the market's spot prices with Linux less the discounts of today, as each zone calls it
-- invariant: one row per (provider, region, zone, instance_type, at_ms); an instance type is lower-cased
CREATE OR REPLACE TEMP TABLE market_changes AS
WITH market AS (
    SELECT provider, region, zone, lower(instance_type) AS instance_type, product, at_ms, price_per_hour, source,
        -- the first of these two names in the alphabet is also the one to prefer
        min(product) OVER (PARTITION BY provider, region, zone, lower(instance_type)) AS wanted
    FROM spot_prices
    WHERE instance_id = '' AND currency = $currency AND list_contains($instance_types::VARCHAR[], lower(instance_type))
        AND product IN ('Linux/UNIX', 'Linux/UNIX (Amazon VPC)')
),
changes AS (
    SELECT * FROM market WHERE product = wanted
    QUALIFY row_number() OVER (PARTITION BY provider, region, zone, instance_type, at_ms ORDER BY price_per_hour, source) = 1
)
SELECT provider, region, zone, instance_type, at_ms, source,
    (price_per_hour * coalesce(product(d.factor), 1)::DECIMAL(13, 12))::DECIMAL(38, 12) AS price_per_hour
FROM changes AS c
LEFT JOIN listed_instances AS i USING (provider, instance_type)
LEFT JOIN discounts AS d ON discount_fits(d, c.provider, c.instance_type, i.gpu_model) AND list_contains(d.price_sources, 'spot_history')
    AND coalesce(d.capacity_type = 'spot', true) AND d.from_ms <= $now_ms AND $now_ms < d.to_ms
GROUP BY provider, region, zone, instance_type, at_ms, source, price_per_hour;
