-- reads: list_prices, catalog_prices, $provider, and new prices as parallel lists
-- writes: nothing; answers each new price beside the newest that was known of the same thing, if any
-- invariant: one row per new price
WITH fresh AS (
    SELECT unnest($region::VARCHAR[]) AS region, unnest($zone::VARCHAR[]) AS zone, unnest($instance_type::VARCHAR[]) AS instance_type,
        unnest($purchase_option::VARCHAR[]) AS purchase_option, unnest($term_years::INTEGER[]) AS term_years,
        unnest($payment_option::VARCHAR[]) AS payment_option, unnest($offering::VARCHAR[]) AS offering,
        unnest($price_per_hour::VARCHAR[])::DECIMAL(21, 12) AS price_per_hour, unnest($currency::VARCHAR[]) AS currency
),
known AS (
    SELECT region, zone, lower(instance_type) AS instance_type, purchase_option, term_years, payment_option, offering, currency,
        price_per_hour, price_as_of
    FROM list_prices WHERE provider = $provider
    UNION ALL
    SELECT coalesce(region, ''), coalesce(zone, ''), lower(instance_type), purchase_option, coalesce(term_years, 0),
        coalesce(payment_option, ''), offering, currency,
        price_per_hour::DECIMAL(21, 12), price_as_of
    FROM catalog_prices WHERE provider = $provider
),
newest AS (
    SELECT * EXCLUDE (price_per_hour, price_as_of), max(price_as_of) AS price_as_of, arg_max(price_per_hour, price_as_of) AS price_per_hour
    FROM known
    GROUP BY ALL
)
SELECT f.region, f.instance_type, f.purchase_option, f.term_years, f.payment_option, f.offering, f.currency,
    f.price_per_hour AS new_price_per_hour, k.price_per_hour AS old_price_per_hour, k.price_as_of AS old_price_as_of
FROM fresh AS f
LEFT JOIN newest AS k ON k.region = f.region AND k.zone = f.zone AND k.instance_type = lower(f.instance_type)
    AND k.purchase_option = f.purchase_option AND k.term_years = f.term_years AND k.payment_option = f.payment_option
    AND k.offering = f.offering AND k.currency = f.currency;
