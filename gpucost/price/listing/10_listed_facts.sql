-- reads: price_list, spot_prices, loads, $today
-- writes: listed_facts, every list price that is known and whether it holds today, and the newest spot price of each zone; '' where a field does not apply
-- invariant: one row per fact of price_list, and one per (provider, zone, instance type) of spot_prices
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
SELECT provider, coalesce(region, '') AS region, coalesce(zone, '') AS zone, type_name AS instance_type, purchase_option,
    term_years, payment_option, offering, price_per_hour, currency, effective_start, price_as_of, origin, source,
    coalesce(from_ms <= epoch_ms($today::DATE) AND epoch_ms($today::DATE) < to_ms, false) AS holds
FROM price_list
WHERE origin <> 'median'
UNION ALL
SELECT n.provider, n.region, n.zone, n.instance_type, 'spot', 0, '', '',
    n.price_per_hour::DECIMAL(24, 12), n.currency, NULL, epoch_ms(greatest(n.at_ms, coalesce(s.seen_ms, n.at_ms)))::DATE,
    'spot_history', n.source, true
FROM spot_newest AS n
LEFT JOIN spot_seen AS s USING (source);
