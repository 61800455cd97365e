-- reads: spot_prices, loads, priced_nodes, $carried_ms
-- writes: spot_steps, the spot price of an instance type in a zone, or of one instance (instance_id), over the known time
-- invariant: per (provider, region, zone, instance_type, instance_id), half-open intervals that do not overlap; text is in lower case
-- only with: spot_prices
-- otherwise: spot_steps (provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, instance_id VARCHAR, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(21, 12), currency VARCHAR, price_as_of DATE, origin VARCHAR)
CREATE OR REPLACE TEMP TABLE spot_steps AS
WITH spot_types AS (
    SELECT DISTINCT instance_type FROM priced_nodes WHERE capacity_type = 'spot'
),
collected AS (
    -- the last change may be long before the end of the query
    SELECT lower(s.provider) AS provider, lower(s.region) AS region, max(l.to_ms) AS until_ms
    FROM (SELECT DISTINCT provider, region, source FROM spot_prices) AS s
    JOIN loads AS l ON l.kind = 'spot' AND l.source = s.source
    GROUP BY ALL
),
quotes AS (
    SELECT lower(s.provider) AS provider, nullif(lower(s.region), '') AS region, nullif(lower(s.zone), '') AS zone,
        a.instance_type, nullif(lower(s.instance_id), '') AS instance_id, s.product, s.at_ms, s.to_ms, s.price_per_hour, s.currency,
        greatest(s.at_ms, c.until_ms) AS known_ms
    FROM spot_prices AS s
    JOIN spot_types AS a ON a.instance_type = lower(s.instance_type)
    LEFT JOIN collected AS c ON c.provider = lower(s.provider) AND c.region = lower(s.region)
    WHERE s.instance_id <> '' OR NOT regexp_matches(lower(s.product), 'windows|suse|red hat|rhel')
),
chosen AS (
    SELECT * FROM quotes
    QUALIFY instance_id IS NOT NULL OR rank() OVER (
        PARTITION BY provider, region, zone, instance_type, instance_id
        ORDER BY CASE product WHEN 'Linux/UNIX' THEN 0 WHEN 'Linux/UNIX (Amazon VPC)' THEN 1 ELSE 2 END, product
    ) = 1
),
steps AS (
    SELECT c.*, lead(c.at_ms) OVER (PARTITION BY provider, region, zone, instance_type, instance_id ORDER BY at_ms, price_per_hour) AS next_ms
    FROM chosen AS c
)
SELECT provider, region, zone, instance_type, instance_id, at_ms AS from_ms,
    -- least() ignores nulls
    coalesce(least(to_ms, next_ms), known_ms + $carried_ms) AS to_ms,
    price_per_hour, currency, epoch_ms(at_ms)::DATE AS price_as_of,
    coalesce(instance_id || '''s own charges', coalesce(zone, region, provider) || ' spot history') AS origin
FROM steps
WHERE at_ms < coalesce(least(to_ms, next_ms), known_ms + $carried_ms);
