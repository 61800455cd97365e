-- reads: listed_instances, price_list, spot_prices, loads, place_rank; $today
-- writes: listed_prices, every known list price and the newest spot price of each zone, with the instance's GPUs, the on-demand price of the same place, and a status; '' if a field does not apply
-- invariant: one row per row of price_list, and one per (provider, zone, instance type) of spot_prices; at most one 'current' row per price, the one valid today
CREATE OR REPLACE TEMP TABLE listed_prices AS
WITH spot_seen AS (
    -- a price is valid until the next change, so it is as new as the last query
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
),
facts AS (
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
    LEFT JOIN spot_seen AS s USING (source)
),
ranked AS (
    SELECT *,
        -- a list price of spot and the zone's own history may both be valid
        row_number() OVER (
            PARTITION BY holds, lower(provider), lower(region), lower(zone), lower(instance_type), purchase_option, term_years,
                payment_option, offering
            ORDER BY price_as_of DESC, origin = 'spot_history' DESC) AS age_rank,
        -- the catalog names zones by id, unlike collected zones: its spot prices give way to newer ones of their region
        max(price_as_of) FILTER (holds AND origin <> 'catalog' AND purchase_option = 'spot') OVER (
            PARTITION BY lower(provider), lower(region), lower(instance_type)) AS spot_collected_on
    FROM facts
),
settled AS (
    SELECT * EXCLUDE (age_rank, holds, spot_collected_on),
        CASE
            WHEN NOT holds AND coalesce(effective_start, price_as_of) > $today::DATE THEN 'upcoming'
            WHEN NOT holds OR age_rank > 1 THEN 'superseded'
            WHEN origin = 'catalog' AND purchase_option = 'spot' AND coalesce(spot_collected_on >= price_as_of, false) THEN 'superseded'
            ELSE 'current'
        END AS status
    FROM ranked
),
on_demand AS (
    SELECT s.provider, s.region, s.zone, s.instance_type, s.currency,
        arg_max(p.price_per_hour, place_rank(p.region, p.zone, lower(s.region), lower(s.zone), lower(s.zone))) AS price_per_hour
    FROM (SELECT DISTINCT provider, region, zone, instance_type, currency FROM settled WHERE purchase_option = 'spot') AS s
    JOIN price_list AS p
        ON p.provider = lower(s.provider) AND p.instance_type = lower(s.instance_type) AND p.currency = s.currency
        AND place_rank(p.region, p.zone, lower(s.region), lower(s.zone), lower(s.zone)) IS NOT NULL
    WHERE p.purchase_option = 'on_demand' AND p.from_ms <= epoch_ms($today::DATE) AND epoch_ms($today::DATE) < p.to_ms
    GROUP BY ALL
)
SELECT s.*, i.gpu_model, i.gpu_count, d.price_per_hour AS on_demand_price_per_hour
FROM settled AS s
LEFT JOIN on_demand AS d USING (provider, region, zone, instance_type, currency)
LEFT JOIN listed_instances AS i ON i.provider = lower(s.provider) AND i.instance_type = lower(s.instance_type);
