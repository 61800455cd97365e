-- reads: local_days, cuts; the span [span_from_ms, span_to_ms)
-- writes: billing_intervals, the span cut at every hour, local midnight and cut
-- invariant: billing_intervals cover the span without gap or overlap
CREATE OR REPLACE TEMP TABLE billing_intervals AS
WITH edges AS (
    SELECT unnest(range(getvariable('span_from_ms') // 3600000, getvariable('span_to_ms') // 3600000 + 1)) * 3600000 AS at_ms
    UNION SELECT from_ms FROM local_days
    UNION SELECT to_ms FROM local_days
    UNION SELECT at_ms FROM cuts
),
pairs AS (
    SELECT at_ms AS from_ms, lead(at_ms) OVER (ORDER BY at_ms) AS to_ms FROM edges
    WHERE at_ms >= getvariable('span_from_ms') AND at_ms <= getvariable('span_to_ms')
)
SELECT from_ms, to_ms FROM pairs WHERE to_ms IS NOT NULL;
