-- reads: spot_prices, listed_instances, discounts, discount_fits, discount_in_force; $instance_types (lower-cased), $currency, $now_ms
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
    QUALIFY product = wanted
        AND row_number() OVER (PARTITION BY provider, region, zone, lower(instance_type), at_ms, product ORDER BY price_per_hour, source) = 1
)
SELECT c.* EXCLUDE (product, wanted) REPLACE ((c.price_per_hour * coalesce((
    SELECT product(d.factor) FROM discounts AS d
    WHERE discount_fits(d, c.provider, c.instance_type, i.gpu_model) AND discount_in_force(d, 'spot', 'spot_history', $now_ms)
), 1)::DECIMAL(13, 12))::DECIMAL(38, 12) AS price_per_hour)
FROM market AS c LEFT JOIN listed_instances AS i USING (provider, instance_type);
