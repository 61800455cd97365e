-- reads: spot_steps, priced_nodes
-- writes: zone_medians, the lower median of the spot prices of a region's zones at each moment, for nodes whose zone is not known
-- invariant: per (provider, region, instance_type), half-open intervals that do not overlap
CREATE OR REPLACE TEMP TABLE zone_medians AS
WITH zones AS (
    SELECT provider, region, instance_type, from_ms, to_ms, price_per_hour, currency, price_as_of, region || ' spot history' AS origin
    FROM spot_steps AS s
    SEMI JOIN (FROM priced_nodes WHERE zone IS NULL) AS n USING (region, instance_type, capacity_type)
    WHERE zone IS NOT NULL AND instance_id IS NULL
),
edges AS (
    SELECT provider, region, instance_type, from_ms AS at_ms FROM zones
    UNION SELECT provider, region, instance_type, to_ms FROM zones
),
pieces AS (
    SELECT provider, region, instance_type, at_ms AS from_ms,
        lead(at_ms) OVER (PARTITION BY provider, region, instance_type ORDER BY at_ms) AS to_ms
    FROM edges
)
SELECT provider, region, instance_type, p.from_ms, p.to_ms,
    quantile_disc(z.price_per_hour, 0.5) AS price_per_hour, min(z.currency) AS currency, min(z.price_as_of) AS price_as_of,
    'lower median of ' || count(*) || CASE count(*) WHEN 1 THEN ' zone' ELSE ' zones' END || ', ' || min(z.origin) AS origin
FROM pieces AS p
JOIN zones AS z USING (provider, region, instance_type)
WHERE z.from_ms <= p.from_ms AND p.from_ms < z.to_ms
GROUP BY ALL;
