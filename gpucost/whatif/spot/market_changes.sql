-- reads: spot_prices; $instance_types (lower-cased), $currency
-- writes: market_changes, changes of the market's spot prices with Linux, as each zone calls it
-- invariant: one row per (provider, region, zone, instance_type, at_ms); an instance type is lower-cased
CREATE OR REPLACE TEMP TABLE market_changes AS
WITH market AS (
    SELECT provider, region, zone, lower(instance_type) AS instance_type, product, at_ms, price_per_hour, source,
        -- the first of these two names in the alphabet is also the one to prefer
        min(product) OVER (PARTITION BY provider, region, zone, lower(instance_type)) AS wanted
    FROM spot_prices
    WHERE instance_id = '' AND currency = $currency AND list_contains($instance_types::VARCHAR[], lower(instance_type))
        AND product IN ('Linux/UNIX', 'Linux/UNIX (Amazon VPC)')
)
SELECT provider, region, zone, instance_type, at_ms, price_per_hour, source
FROM market
WHERE product = wanted
QUALIFY row_number() OVER (PARTITION BY provider, region, zone, instance_type, at_ms ORDER BY price_per_hour, source) = 1;
