-- reads: spot_incoming, spot_prices
-- writes: nothing; answers how many facts are new, and how many are known with another price
-- invariant: a fact is counted once at most
SELECT
    count(*) FILTER (k.price_per_hour IS NULL) AS new,
    count(*) FILTER (k.price_per_hour IS NOT NULL
        AND (k.price_per_hour, k.currency, k.to_ms) IS DISTINCT FROM (i.price_per_hour, i.currency, i.to_ms)) AS corrected
FROM spot_incoming AS i
LEFT JOIN spot_prices AS k USING (provider, region, zone, instance_type, product, instance_id, at_ms);
