-- reads: node_runs, local_days; the span [span_from_ms, span_to_ms)
-- writes: node_daily (stored), the nodes' cells summed by local day and price source
-- invariant: one row per (from_ms, node_id, price_source)
INSERT INTO node_daily BY NAME
SELECT
    d.from_ms, d.to_ms, r.node_id,
    round(sum(r.hours * r.capacity_gpu_ms), 6) AS capacity_gpu_ms,
    round(sum(r.hours * r.over_allocated_gpu_ms), 6) AS over_allocated_gpu_ms,
    sum(r.hours * r.node_cost)::DECIMAL(38, 9) AS node_cost,
    r.price_source,
    min(r.price_as_of) AS price_as_of
FROM node_runs AS r
JOIN local_days AS d ON d.from_ms <= r.from_ms AND r.from_ms < d.to_ms
WHERE r.from_ms >= getvariable('span_from_ms') AND r.from_ms < getvariable('span_to_ms')
GROUP BY ALL;
