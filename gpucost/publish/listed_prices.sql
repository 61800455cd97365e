-- reads: price_offers, purchase_fits, catalog_instances
-- writes: nothing; returns one row per (instance_type, capacity_type): the list price of a node
-- invariant: the median over regions, each of which counts once for each provider
WITH fitting AS (
    SELECT p.provider, p.type_name, p.instance_type, p.region, f.capacity_type, arg_max(p.price_per_hour, f.preference) AS price_per_hour
    FROM price_offers AS p
    JOIN purchase_fits AS f ON f.purchase_option = p.purchase_option AND f.is_list
    WHERE p.is_of_region AND p.term_years = 0
    GROUP BY ALL
)
SELECT type_name AS instance_type, capacity_type, median(price_per_hour)::DECIMAL(38, 9) AS per_hour
FROM fitting
WHERE instance_type IN (SELECT lower(instance_type) FROM catalog_instances WHERE gpu_count > 0)
GROUP BY ALL
ORDER BY ALL;
