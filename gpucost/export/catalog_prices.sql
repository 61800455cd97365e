-- reads: catalog_prices, catalog_instances
-- writes: nothing; answers one row per (instance type with GPUs, capacity type): the median of its list prices over regions
-- invariant: only prices in $currency, only on demand and spot
SELECT instance_type, NULL AS region, NULL AS node, purchase_option AS capacity_type,
    median(price_per_hour)::DECIMAL(38, 9) AS price_per_hour
FROM catalog_prices
WHERE currency = $currency AND purchase_option IN ('on_demand', 'spot')
    AND instance_type IN (SELECT instance_type FROM catalog_instances WHERE gpu_count > 0)
GROUP BY ALL
ORDER BY ALL;
