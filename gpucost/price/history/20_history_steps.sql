-- reads: history_changes, spot_prices, loads
-- writes: history_steps: what held from when to when inside [$from_ms, $to_ms)
-- invariant: half-open, no overlap; to the next change, at most $stale_ms past the end of what was collected before it, or $now_ms
CREATE OR REPLACE TEMP TABLE history_steps AS
WITH collected AS (
    SELECT DISTINCT s.provider, s.region, l.from_ms, l.to_ms
    FROM loads AS l
    JOIN (SELECT DISTINCT provider, region, source FROM spot_prices WHERE instance_id = '') AS s USING (source)
    WHERE l.kind = 'spot'
),
followed AS (
    SELECT *, lead(at_ms) OVER (PARTITION BY provider, region, zone ORDER BY at_ms) AS next_ms FROM history_changes
),
held AS (
    SELECT f.*, least(coalesce(f.next_ms, $now_ms), $now_ms, (
        SELECT coalesce(max(c.to_ms), f.at_ms) + $stale_ms FROM collected AS c
        WHERE c.provider = f.provider AND c.region = f.region AND c.from_ms < coalesce(f.next_ms, $now_ms)
    )) AS until_ms
    FROM followed AS f
)
SELECT provider, region, zone, instance_type, product, currency, price_per_hour,
    greatest(at_ms, coalesce($from_ms, at_ms)) AS from_ms, least(until_ms, coalesce($to_ms, until_ms)) AS to_ms
FROM held
WHERE greatest(at_ms, coalesce($from_ms, at_ms)) < least(until_ms, coalesce($to_ms, until_ms));
