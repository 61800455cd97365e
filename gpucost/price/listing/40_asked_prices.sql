-- reads: listed_prices, $gpu_models, $instance_types, $providers, $regions, $purchase_options (empty: any), $superseded
-- writes: asked_prices, the rows of listed_prices that were asked for
-- invariant: a subset of listed_prices
CREATE OR REPLACE TEMP TABLE asked_prices AS
SELECT provider, region, zone, instance_type, gpu_model, gpu_count, purchase_option, term_years, payment_option, offering,
    price_per_hour, currency, on_demand_price_per_hour, price_as_of, effective_start, source, origin, status
FROM listed_prices
WHERE (status = 'current' OR $superseded)
    AND passes($gpu_models, gpu_model)
    AND (len($instance_types::VARCHAR[]) = 0 OR list_contains($instance_types::VARCHAR[], lower(instance_type)))
    AND (len($providers::VARCHAR[]) = 0 OR list_contains($providers::VARCHAR[], lower(provider)))
    AND (len($regions::VARCHAR[]) = 0 OR list_bool_or(list_transform($regions::VARCHAR[], lambda r: lower(region) GLOB r)))
    AND passes($purchase_options, purchase_option);
