-- reads: $facts, columns as parallel lists
-- writes: list_prices
-- invariant: one row per element; prices of more than twelve decimals are rounded
INSERT INTO list_prices
SELECT
    $provider,
    unnest($region::VARCHAR[]),
    unnest($zone::VARCHAR[]),
    unnest($instance_type::VARCHAR[]),
    unnest($purchase_option::VARCHAR[]),
    unnest($term_years::INTEGER[]),
    unnest($payment_option::VARCHAR[]),
    unnest($offering::VARCHAR[]),
    unnest($price_per_hour::VARCHAR[])::DECIMAL(21, 12),
    unnest($currency::VARCHAR[]),
    unnest($effective_start::DATE[]),
    $price_as_of,
    unnest($source::VARCHAR[]);
