-- reads: history_zones, price_list, place_rank, $at_ms
-- writes: history_on_demand: the on-demand list price in each zone at the end of the period ($at_ms)
-- invariant: one row per (provider, region, zone, currency) at most
CREATE OR REPLACE TEMP TABLE history_on_demand AS
SELECT z.provider, z.region, z.zone, z.currency, p.price_per_hour, p.price_as_of
FROM history_zones AS z
JOIN price_list AS p
    ON p.provider = lower(z.provider) AND p.instance_type = lower(z.instance_type) AND p.currency = z.currency
    AND place_rank(p.region, p.zone, lower(z.region), lower(z.zone), NULL) IS NOT NULL
WHERE p.purchase_option = 'on_demand' AND p.from_ms <= $at_ms AND $at_ms < p.to_ms
QUALIFY row_number() OVER (
    PARTITION BY z.provider, z.region, z.zone, z.currency ORDER BY place_rank(p.region, p.zone, lower(z.region), lower(z.zone), NULL) DESC
) = 1;
