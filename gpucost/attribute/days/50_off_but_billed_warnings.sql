-- reads: unseen_time, nodes, coverage_gaps, settings
-- writes: warnings (stored), one row per cluster and month in which machines were billed while [[clusters]] declares it off: how long, and at what cost
-- invariant: hours and cost are those in unseen_time; hours that are off because nothing was billed are no part of it
INSERT INTO warnings BY NAME
WITH unseen AS (
    SELECT n.cluster, u.from_ms, u.to_ms, (u.to_ms - u.from_ms) * u.up_ratio / 3600000 AS hours, u.price_per_hour
    FROM unseen_time AS u JOIN nodes AS n USING (node_id)
),
declared AS (
    SELECT cluster, from_ms, to_ms FROM coverage_gaps WHERE kind = 'off' AND starts_with(reason, 'declared off')
),
parts AS (
    SELECT u.*, date_trunc('month', epoch_ms(u.from_ms)) AS month
    FROM unseen AS u ASOF JOIN declared AS d ON d.cluster = u.cluster AND u.from_ms >= d.from_ms
    WHERE u.from_ms < d.to_ms
)
SELECT 'off_but_billed' AS code, cluster, cluster AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('cluster {} was declared off, but billed: {:.1f} hours of its machines and {:.2f} {} between {}Z and {}Z, of which no metrics tell who used them',
        cluster, sum(hours), sum(hours * price_per_hour)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M')) AS message,
    'end machines that need not run; if they have to, declare those hours in [[clusters]]' AS fix
FROM parts CROSS JOIN settings AS c
GROUP BY cluster, month;
