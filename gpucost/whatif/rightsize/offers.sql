-- reads: price_offers, fx_rates, listed_instances, spot_prices, discounts, discount_fits, $now_ms
-- writes: nothing; answers what a GPU of an instance type with GPUs costs per hour less discounts, wherever in a region it runs
-- invariant: one row per (provider, region, instance_type, purchase_option); whole GPUs only
WITH last_spot AS (
    SELECT provider, region, zone, instance_type, currency, arg_max(price_per_hour, at_ms) AS price_per_hour, max(at_ms) AS at_ms
    FROM spot_prices
    WHERE instance_id = '' AND product LIKE 'Linux/UNIX%'
    GROUP BY ALL
),
prices AS (
    SELECT provider, region, instance_type, type_name, purchase_option, price_per_hour, price_as_of, 'catalog' AS source
    FROM price_offers
    WHERE is_of_region AND term_years = 0
    UNION ALL
    SELECT lower(s.provider), lower(s.region), lower(s.instance_type), s.instance_type, 'spot', s.price_per_hour * r.rate,
        epoch_ms(s.at_ms)::DATE, 'spot_history'
    FROM last_spot AS s
    JOIN fx_rates AS r ON r.currency = s.currency AND r.from_ms <= s.at_ms AND s.at_ms < r.to_ms AND r.rate IS NOT NULL
)
SELECT provider, region, type_name, gpu_model, gpu_count::INTEGER AS gpu_count, purchase_option,
    (price_per_hour / gpu_count * coalesce((
        SELECT product(d.factor) FROM discounts AS d
        WHERE discount_fits(d, p.provider, p.instance_type, p.gpu_model) AND list_contains(d.price_sources, p.source)
            AND coalesce(p.purchase_option IN (d.purchase_option, d.capacity_type), true)
            AND d.from_ms <= $now_ms AND $now_ms < d.to_ms
    ), 1))::DECIMAL(24, 12) AS price_per_gpu_hour, source, price_as_of::VARCHAR AS price_as_of
FROM (FROM prices JOIN listed_instances USING (provider, instance_type)) AS p
WHERE purchase_option IN ('on_demand', 'spot', 'flex_start') AND price_per_hour > 0 AND gpu_count >= 1 AND region IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY provider, region, instance_type, purchase_option
    ORDER BY price_as_of DESC, price_per_hour) = 1
ORDER BY ALL;
