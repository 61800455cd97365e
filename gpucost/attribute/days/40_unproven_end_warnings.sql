-- reads: cost_runs, unproven_ends, settings
-- writes: warnings (stored), one row per cluster and month in which pods without phases may have been charged after they ended: at most how much
-- invariant: hours and cost are those in cost_runs
INSERT INTO warnings BY NAME
WITH cells AS (
    SELECT allocation_id, from_ms + later_ms AS from_ms, to_ms + later_ms AS to_ms, gpu_ms, cost
    FROM (SELECT *, unnest(range(hours)) * 3600000 AS later_ms FROM cost_runs SEMI JOIN unproven_ends USING (allocation_id))
),
parts AS (
    SELECT u.cluster, u.allocation_id, date_trunc('month', epoch_ms(h.from_ms)) AS month,
        greatest(h.from_ms, u.from_ms) AS from_ms, least(h.to_ms, u.to_ms) AS to_ms,
        (least(h.to_ms, u.to_ms) - greatest(h.from_ms, u.from_ms)) / (h.to_ms - h.from_ms) AS part, h.gpu_ms, h.cost
    FROM cells AS h JOIN unproven_ends AS u ON u.allocation_id = h.allocation_id AND u.from_ms < h.to_ms AND h.from_ms < u.to_ms
)
SELECT 'unproven_end' AS code, cluster, 'kube_pod_status_phase' AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('cluster {}: up to {:.1f} GPU-hours and {:.2f} {} between {}Z and {}Z may be charged too much: the phase of {} {} not scraped, '
        'so they count as running until their requests are no longer listed',
        cluster, sum(part * gpu_ms) / 3600000, sum(part * cost)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M'),
        count(DISTINCT allocation_id), CASE count(DISTINCT allocation_id) WHEN 1 THEN 'pod was' ELSE 'pods was' END) AS message,
    'kube-state-metrics: keep kube_pod_status_phase in --metric-allowlist' AS fix
FROM parts CROSS JOIN settings AS c
GROUP BY cluster, month;
