-- reads: catalog_prices, list_prices, spot_prices, loads
-- writes: listed_facts, every list price that is known, and the newest spot price of each zone; '' where a field does not apply
-- invariant: as many rows as catalog_prices and list_prices have, and one per (provider, zone, instance type) of spot_prices
CREATE OR REPLACE TEMP TABLE listed_facts AS
WITH spot_seen AS (
    -- a price holds until the next change: it is as new as the last time it was asked for
    SELECT source, max(to_ms) - 1 AS seen_ms FROM loads WHERE kind = 'spot' GROUP BY source
),
spot_newest AS (
    SELECT provider, region, zone, instance_type, currency, at_ms, price_per_hour, source
    FROM spot_prices
    WHERE instance_id = '' AND NOT regexp_matches(lower(product), 'windows|suse|red hat|rhel')
    QUALIFY row_number() OVER (
        PARTITION BY provider, region, zone, lower(instance_type)
        ORDER BY CASE product WHEN 'Linux/UNIX' THEN 0 WHEN 'Linux/UNIX (Amazon VPC)' THEN 1 ELSE 2 END, product,
            at_ms DESC, price_per_hour) = 1
)
SELECT provider, coalesce(region, '') AS region, coalesce(zone, '') AS zone, instance_type, purchase_option,
    coalesce(term_years, 0) AS term_years, coalesce(payment_option, '') AS payment_option, '' AS offering,
    price_per_hour::DECIMAL(24, 12) AS price_per_hour, currency, NULL::DATE AS effective_start, price_as_of,
    'catalog' AS origin, source_id AS source
FROM catalog_prices
UNION ALL
SELECT provider, region, zone, instance_type, purchase_option, term_years, payment_option, offering,
    price_per_hour::DECIMAL(24, 12), currency, effective_start, price_as_of, 'store', source
FROM list_prices
UNION ALL
SELECT n.provider, n.region, n.zone, n.instance_type, 'spot', 0, '', '',
    n.price_per_hour::DECIMAL(24, 12), n.currency, NULL, epoch_ms(greatest(n.at_ms, coalesce(s.seen_ms, n.at_ms)))::DATE,
    'spot_history', n.source
FROM spot_newest AS n
LEFT JOIN spot_seen AS s USING (source);
