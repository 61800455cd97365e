-- reads: listed_facts, listed_instances, price_list, place_rank, $today
-- writes: listed_prices, listed_facts with what the instance holds, the on-demand price of the same place, and a status
-- invariant: as many rows as listed_facts; one 'current' row per price at most, the one that holds today
CREATE OR REPLACE TEMP TABLE listed_prices AS
WITH ranked AS (
    SELECT *,
        -- a list price of spot and the zone's own history may both hold
        row_number() OVER (
            PARTITION BY holds, lower(provider), lower(region), lower(zone), lower(instance_type), purchase_option, term_years,
                payment_option, offering
            ORDER BY price_as_of DESC, origin = 'spot_history' DESC) AS age_rank,
        -- the catalog names zones by their id, which no collected zone does: its spot prices give way to their region's newer ones
        max(price_as_of) FILTER (holds AND origin <> 'catalog' AND purchase_option = 'spot') OVER (
            PARTITION BY lower(provider), lower(region), lower(instance_type)) AS spot_collected_on
    FROM listed_facts
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
