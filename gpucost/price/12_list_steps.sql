-- reads: catalog_prices, list_prices, priced_nodes
-- writes: list_steps, the list price of an instance type at each moment; no commitments: only the user knows that they were bought
-- invariant: per (provider, region, zone, instance_type, capacity_type), half-open intervals without gap or overlap; text is lower-cased
CREATE OR REPLACE TEMP TABLE list_steps AS
WITH facts AS (
    SELECT lower(provider) AS provider, lower(region) AS region, lower(zone) AS zone, lower(instance_type) AS instance_type,
        purchase_option AS capacity_type, price_per_hour, currency, price_as_of, price_as_of AS begins_on, false AS is_refreshed,
        'catalog of gpucost: ' || source_id AS origin
    FROM catalog_prices
    UNION ALL
    SELECT lower(provider), nullif(lower(region), ''), nullif(lower(zone), ''), lower(instance_type),
        purchase_option, price_per_hour, currency, price_as_of, coalesce(effective_start, price_as_of), true, source
    FROM list_prices
),
ranked AS (
    SELECT f.*, row_number() OVER (
        PARTITION BY provider, region, zone, instance_type, capacity_type
        ORDER BY price_as_of, begins_on, is_refreshed, price_per_hour DESC, origin
    ) AS newness
    FROM facts AS f SEMI JOIN priced_nodes AS n USING (instance_type, capacity_type)
    WHERE capacity_type IN ('on_demand', 'spot')
),
in_force AS (
    -- of what has begun, the newest fact holds
    SELECT * FROM ranked
    QUALIFY newness = max(newness) OVER (PARTITION BY provider, region, zone, instance_type, capacity_type ORDER BY begins_on)
)
SELECT provider, region, zone, instance_type, capacity_type,
    -- before the first fact, the first stands for what is not known
    CASE WHEN lag(begins_on) OVER steps IS NULL THEN -4611686018427387904 ELSE epoch_ms(begins_on) END AS from_ms,
    coalesce(epoch_ms(lead(begins_on) OVER steps), 4611686018427387904) AS to_ms,
    price_per_hour::DECIMAL(21, 12) AS price_per_hour, currency, price_as_of, origin
FROM in_force
WINDOW steps AS (PARTITION BY provider, region, zone, instance_type, capacity_type ORDER BY begins_on);
