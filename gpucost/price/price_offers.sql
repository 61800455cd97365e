-- reads: price_list, fx_rates, $day, $midnight_ms (its local midnight)
-- writes: price_offers, the list prices of a day, in the config's currency; a price without a rate is left out
-- invariant: is_of_region is what counts where no zone is known, the region's own price or the median of its zones; one row per (provider, region, zone, instance_type, purchase_option, term_years, payment_option, offering)
CREATE OR REPLACE TEMP TABLE price_offers AS
SELECT p.* EXCLUDE (price_per_hour, currency, from_ms, to_ms), (p.price_per_hour * r.rate)::DECIMAL(24, 12) AS price_per_hour,
    row_number() OVER (
        PARTITION BY provider, region, instance_type, purchase_option, term_years, payment_option, offering
        ORDER BY CASE WHEN zone IS NULL THEN 0 WHEN zone = '*' THEN 1 ELSE 2 END
    ) = 1 AS is_of_region
FROM price_list AS p
JOIN fx_rates AS r ON r.currency = p.currency AND r.from_ms <= $midnight_ms AND $midnight_ms < r.to_ms
WHERE p.from_ms <= epoch_ms($day::DATE) AND epoch_ms($day::DATE) < p.to_ms AND r.rate IS NOT NULL;
