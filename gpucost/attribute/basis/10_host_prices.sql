-- reads: catalog_components, component_prices
-- writes: host_prices, a cloud's on-demand price per hour for one core, one GiB and one GPU (gpu_model '': for core and GiB) of a family in a region
-- invariant: one row per (provider, region, family, gpu_model, currency): the newest
CREATE OR REPLACE TEMP TABLE host_prices AS
WITH known AS (
    SELECT lower(provider) AS provider, lower(region) AS region, lower(family) AS family, component, coalesce(gpu_model, '') AS gpu_model,
        price_per_hour::DOUBLE AS price, currency, price_as_of
    FROM catalog_components
    WHERE purchase_option = 'on_demand'
    UNION ALL
    -- collected: 'a2/vcpu', 'gpu/L4'
    SELECT lower(provider), lower(region),
        CASE WHEN starts_with(component, 'gpu/') THEN '' ELSE lower(split_part(component, '/', 1)) END,
        CASE WHEN starts_with(component, 'gpu/') THEN 'gpu' ELSE split_part(component, '/', 2) END,
        CASE WHEN starts_with(component, 'gpu/') THEN substr(component, 5) ELSE '' END,
        price_per_hour::DOUBLE, currency, price_as_of
    FROM component_prices
    WHERE purchase_option = 'on_demand'
)
SELECT provider, region, family, gpu_model, currency,
    arg_max(price, price_as_of) FILTER (component IN ('vcpu', 'cpu')) AS core,
    arg_max(price, price_as_of) FILTER (component = 'memory_gib') AS gib,
    arg_max(price, price_as_of) FILTER (component = 'gpu') AS gpu
FROM known
WHERE component IN ('vcpu', 'cpu', 'memory_gib', 'gpu')
GROUP BY ALL;
