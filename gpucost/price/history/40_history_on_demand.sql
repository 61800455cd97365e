-- reads: history_zones, list_prices, catalog_prices
-- writes: history_on_demand: the on-demand list price in each zone at the end of the period ($on_day)
-- invariant: one row per (provider, region, zone, currency) at most; of the facts that had begun the newest, before the first the earliest
CREATE OR REPLACE TEMP TABLE history_on_demand AS
WITH facts AS (
    SELECT provider, region, zone, instance_type, price_per_hour, currency, coalesce(effective_start, price_as_of) AS begins, price_as_of
    FROM list_prices WHERE purchase_option = 'on_demand'
    UNION ALL
    SELECT provider, region, coalesce(zone, ''), instance_type, price_per_hour::DECIMAL(21, 12), currency, price_as_of, price_as_of
    FROM catalog_prices WHERE purchase_option = 'on_demand'
)
SELECT z.provider, z.region, z.zone, z.currency, f.price_per_hour, f.price_as_of
FROM history_zones AS z
JOIN facts AS f ON f.provider = z.provider AND f.region = z.region AND f.instance_type = z.instance_type
    AND f.currency = z.currency AND f.zone IN ('', z.zone)
QUALIFY row_number() OVER (
    PARTITION BY z.provider, z.region, z.zone, z.currency
    ORDER BY f.zone = '', f.begins > $on_day, CASE WHEN f.begins <= $on_day THEN f.price_as_of END DESC NULLS LAST, f.begins
) = 1;
