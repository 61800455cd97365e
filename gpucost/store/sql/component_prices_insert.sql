-- reads: $facts, columns as parallel lists
-- writes: component_prices
-- invariant: one row per element; prices of more than twelve decimals are rounded
INSERT INTO component_prices
SELECT
    $provider,
    unnest($region::VARCHAR[]),
    unnest($component::VARCHAR[]),
    unnest($purchase_option::VARCHAR[]),
    unnest($term_years::INTEGER[]),
    unnest($price_per_hour::VARCHAR[])::DECIMAL(21, 12),
    unnest($currency::VARCHAR[]),
    $price_as_of,
    unnest($source::VARCHAR[]);
