-- reads: history_changes, history_steps
-- writes: history_zones: what a zone's price came to; price_ms is the sum of price x milliseconds, so price_ms / covered_ms its mean
-- invariant: one row per (provider, region, zone, currency) that any change is known of, covered or not
CREATE OR REPLACE TEMP TABLE history_zones AS
WITH sums AS (
    SELECT provider, region, zone, currency, sum(price_per_hour * (to_ms - from_ms)::DECIMAL(14, 0)) AS price_ms,
        sum(to_ms - from_ms)::BIGINT AS covered_ms, min(price_per_hour) AS lowest, max(price_per_hour) AS highest
    FROM history_steps
    GROUP BY ALL
)
SELECT z.provider, z.region, z.zone, z.instance_type, z.product, z.currency, s.price_ms, coalesce(s.covered_ms, 0) AS covered_ms,
    s.lowest, s.highest
FROM (SELECT DISTINCT provider, region, zone, instance_type, product, currency FROM history_changes) AS z
LEFT JOIN sums AS s USING (provider, region, zone, currency);
