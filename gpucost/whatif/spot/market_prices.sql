-- reads: catalog_prices, list_prices; $instance_types (lower-cased), $currency
-- writes: market_prices, the newest on-demand and spot list price of each place; '' where it holds for any region or zone
-- invariant: one row per (provider, region, zone, instance_type, purchase_option); an instance type is lower-cased
CREATE OR REPLACE TEMP TABLE market_prices AS
WITH facts AS (
    SELECT provider, coalesce(region, '') AS region, coalesce(zone, '') AS zone, lower(instance_type) AS instance_type, purchase_option,
        price_per_hour::DECIMAL(24, 12) AS price_per_hour, currency, price_as_of, 'catalog, ' || source_id AS source
    FROM catalog_prices
    UNION ALL
    SELECT provider, region, zone, lower(instance_type), purchase_option, price_per_hour::DECIMAL(24, 12), currency, price_as_of, source
    FROM list_prices
)
SELECT * FROM facts
WHERE list_contains($instance_types::VARCHAR[], instance_type) AND currency = $currency AND purchase_option IN ('on_demand', 'spot')
QUALIFY row_number() OVER (
    PARTITION BY provider, region, zone, instance_type, purchase_option ORDER BY price_as_of DESC, price_per_hour, source
) = 1;
