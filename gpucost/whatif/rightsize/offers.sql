-- reads: price_offers, fx_rates, catalog_instances, instance_types, spot_prices
-- writes: nothing; answers what a GPU of an instance type with GPUs costs per hour, wherever in a region it runs
-- invariant: one row per (provider, region, instance_type, purchase_option); whole GPUs only
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
    SELECT provider, region, instance_type, purchase_option, price_per_hour, price_as_of, 'catalog' AS source
    FROM price_offers
    WHERE is_of_region AND term_years = 0
    UNION ALL
    SELECT lower(s.provider), lower(s.region), lower(s.instance_type), 'spot', s.price_per_hour * r.rate,
        epoch_ms(s.at_ms)::DATE, 'spot_history'
    FROM last_spot AS s
    JOIN fx_rates AS r ON r.currency = s.currency AND r.from_ms <= s.at_ms AND s.at_ms < r.to_ms AND r.rate IS NOT NULL
)
SELECT p.provider, p.region, k.instance_type, k.gpu_model, k.gpu_count::INTEGER AS gpu_count, p.purchase_option,
    (p.price_per_hour / k.gpu_count)::DECIMAL(24, 12) AS price_per_gpu_hour, p.source, p.price_as_of::VARCHAR AS price_as_of
FROM prices AS p JOIN kinds AS k ON lower(k.provider) = p.provider AND lower(k.instance_type) = p.instance_type
WHERE p.purchase_option IN ('on_demand', 'spot', 'flex_start') AND p.price_per_hour > 0 AND k.gpu_count >= 1 AND p.region IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY p.provider, p.region, p.instance_type, p.purchase_option
    ORDER BY p.price_as_of DESC, p.price_per_hour) = 1
ORDER BY ALL;
