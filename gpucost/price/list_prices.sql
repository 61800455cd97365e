-- reads: catalog_prices, list_prices, $instance_types (in lower case; null: all)
-- writes: price_list, the only source of list prices: by type and purchase option, in a zone, a region (zone null), anywhere (region null), and the lower median of a region's zones (zone '*') in their most frequent currency
-- invariant: per place, type and option, [from_ms, to_ms) has no gap or overlap, and covers all time unless the first price was announced ahead; a price that is never valid has neither; text is in lower case, except type_name
CREATE OR REPLACE TEMP TABLE price_list AS
WITH facts AS (
    SELECT provider, region, zone, instance_type, purchase_option, coalesce(term_years, 0) AS term_years,
        coalesce(payment_option, '') AS payment_option, offering, price_per_hour::DECIMAL(24, 12) AS price_per_hour, currency,
        NULL::DATE AS effective_start, price_as_of, 'catalog' AS origin, source_id AS source
    FROM catalog_prices
    UNION ALL
    SELECT provider, nullif(region, ''), nullif(zone, ''), instance_type, purchase_option, term_years,
        payment_option, offering, price_per_hour::DECIMAL(24, 12), currency, effective_start, price_as_of, 'store', source
    FROM list_prices
),
spelled AS (
    SELECT * REPLACE (lower(provider) AS provider, lower(region) AS region, lower(zone) AS zone, lower(instance_type) AS instance_type),
        instance_type AS type_name, coalesce(effective_start, price_as_of) AS begins_on
    FROM facts
    WHERE coalesce(list_contains($instance_types::VARCHAR[], lower(instance_type)), true)
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY provider, region, zone, instance_type, purchase_option, term_years, payment_option, offering
        ORDER BY price_as_of, begins_on, origin, price_per_hour DESC, source -- collected prices win over the catalog's of the day
    ) AS newness
    FROM spelled
),
in_force AS (
    -- the newest price that has begun is valid
    SELECT *, newness = max(newness) OVER (
        PARTITION BY provider, region, zone, instance_type, purchase_option, term_years, payment_option, offering ORDER BY begins_on
    ) AS holds
    FROM ranked
),
dated AS (
    SELECT * EXCLUDE (newness, holds, begins_on),
        -- the first price also applies to earlier times, unless it was announced in advance: it then replaced another one
        CASE
            WHEN holds AND lag(begins_on) OVER steps IS NULL AND begins_on <= price_as_of THEN -4611686018427387904
            WHEN holds THEN epoch_ms(begins_on)
        END AS from_ms,
        CASE WHEN holds THEN coalesce(epoch_ms(lead(begins_on) OVER steps), 4611686018427387904) END AS to_ms
    FROM in_force
    WINDOW steps AS (
        PARTITION BY holds, provider, region, zone, instance_type, purchase_option, term_years, payment_option, offering ORDER BY begins_on
    )
),
zones AS (
    SELECT * FROM dated WHERE zone IS NOT NULL AND region IS NOT NULL AND from_ms IS NOT NULL AND term_years = 0
),
edges AS (
    SELECT provider, region, instance_type, purchase_option, payment_option, offering, from_ms AS at_ms FROM zones
    UNION SELECT provider, region, instance_type, purchase_option, payment_option, offering, to_ms FROM zones
),
pieces AS (
    SELECT * EXCLUDE (at_ms), at_ms AS begins_ms, lead(at_ms) OVER (
        PARTITION BY provider, region, instance_type, purchase_option, payment_option, offering ORDER BY at_ms) AS ends_ms
    FROM edges
)
FROM dated
UNION ALL BY NAME
SELECT provider, region, '*' AS zone, instance_type, min(z.type_name) AS type_name, purchase_option, 0 AS term_years, payment_option, offering,
    quantile_disc(z.price_per_hour, 0.5) AS price_per_hour, z.currency, min(z.price_as_of) AS price_as_of, 'median' AS origin,
    'lower median of ' || count(*) || CASE count(*) WHEN 1 THEN ' zone' ELSE ' zones' END || ', ' || min(CASE z.origin WHEN 'catalog' THEN 'catalog of gpucost: ' ELSE '' END || z.source) AS source,
    p.begins_ms AS from_ms, p.ends_ms AS to_ms
FROM pieces AS p
JOIN zones AS z USING (provider, region, instance_type, purchase_option, payment_option, offering)
WHERE z.from_ms <= p.begins_ms AND p.begins_ms < z.to_ms
GROUP BY provider, region, instance_type, purchase_option, payment_option, offering, z.currency, p.begins_ms, p.ends_ms
-- the most frequent currency of the zones; none on a tie, because rank counts a row's peers
QUALIFY count(*) OVER (
    PARTITION BY provider, region, instance_type, purchase_option, payment_option, offering, p.begins_ms ORDER BY count(*) DESC
) = 1;
