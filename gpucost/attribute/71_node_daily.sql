-- reads: node_hourly, local_days; the span [span_from_ms, span_to_ms)
-- writes: node_daily (stored), node_hourly summed by local day and price source
-- invariant: one row per (from_ms, node_id, price_source)
INSERT INTO node_daily BY NAME
SELECT
    d.from_ms, d.to_ms, h.node_id,
    sum(h.capacity_gpu_ms) AS capacity_gpu_ms,
    sum(h.over_allocated_gpu_ms) AS over_allocated_gpu_ms,
    sum(h.node_cost)::DECIMAL(38, 9) AS node_cost,
    h.price_source,
    min(h.price_as_of) AS price_as_of
FROM node_hourly AS h
JOIN local_days AS d ON d.from_ms <= h.from_ms AND h.from_ms < d.to_ms
WHERE h.from_ms >= getvariable('span_from_ms') AND h.from_ms < getvariable('span_to_ms')
GROUP BY ALL;
