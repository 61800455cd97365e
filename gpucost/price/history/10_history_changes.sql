-- reads: spot_prices
-- writes: history_changes, changes of one instance type's market price; without $product Linux, as each zone calls it
-- invariant: a price told again is no change: neighbors in (provider, region, zone) differ
CREATE OR REPLACE TEMP TABLE history_changes AS
WITH market AS (
    SELECT provider, region, zone, instance_type, product, currency, at_ms, price_per_hour,
        coalesce($product, min(product) OVER (PARTITION BY provider, region, zone)) AS wanted
    FROM spot_prices
    WHERE instance_id = '' AND lower(instance_type) = lower($instance_type)
        AND coalesce(zone = $zone, true) AND coalesce(region = $region, true)
        -- the first of these two names in the alphabet is also the one to prefer
        AND (lower(product) = lower($product) OR $product IS NULL AND product IN ('Linux/UNIX', 'Linux/UNIX (Amazon VPC)'))
)
SELECT provider, region, zone, instance_type, product, currency, at_ms, price_per_hour
FROM market
WHERE lower(product) = lower(wanted)
QUALIFY (price_per_hour, currency) IS DISTINCT FROM
    lag((price_per_hour, currency)) OVER (PARTITION BY provider, region, zone ORDER BY at_ms);
