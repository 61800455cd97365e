-- reads: catalog_prices, catalog_instances, list_prices, instance_types, spot_prices
-- writes: gpu_offers, what an instance type with GPUs costs per hour: the newest price of each place and purchase option
-- invariant: one row per (provider, region, instance_type, purchase_option, currency); whole GPUs only
CREATE OR REPLACE TEMP TABLE gpu_offers AS
WITH kinds AS (
    SELECT provider, instance_type, gpu_model, gpu_count::DOUBLE AS gpu_count FROM catalog_instances
    UNION ALL
    SELECT t.provider, t.instance_type, t.gpu_model, arg_max(t.gpu_count, t.seen_on)
    FROM instance_types AS t ANTI JOIN catalog_instances AS c USING (provider, instance_type)
    GROUP BY ALL
),
last_spot AS (
    SELECT provider, region, zone, instance_type, currency, arg_max(price_per_hour, at_ms) AS price_per_hour, max(at_ms) AS at_ms
    FROM spot_prices
    WHERE instance_id = '' AND product LIKE 'Linux/UNIX%'
    GROUP BY ALL
),
prices AS (
    SELECT provider, region, instance_type, purchase_option, price_per_hour, currency, price_as_of, 'catalog' AS source
    FROM catalog_prices
    UNION ALL
    SELECT provider, region, instance_type, purchase_option, price_per_hour, currency, price_as_of, 'catalog'
    FROM list_prices WHERE coalesce(effective_start, price_as_of) <= price_as_of
    UNION ALL
    SELECT provider, region, instance_type, 'spot', price_per_hour, currency, make_timestamp(at_ms * 1000)::DATE, 'spot_history'
    FROM last_spot
)
SELECT p.provider, p.region, p.instance_type, k.gpu_model, k.gpu_count::INTEGER AS gpu_count, p.purchase_option,
    p.price_per_hour::DECIMAL(24, 12) AS price_per_hour, p.currency, p.price_as_of, p.source
FROM prices AS p JOIN kinds AS k USING (provider, instance_type)
WHERE p.purchase_option IN ('on_demand', 'spot') AND p.price_per_hour > 0 AND k.gpu_count >= 1 AND p.region IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY p.provider, p.region, p.instance_type, p.purchase_option, p.currency
    ORDER BY p.price_as_of DESC, p.price_per_hour) = 1;
