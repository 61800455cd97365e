-- reads: series_facts
-- writes: nothing; answers GPU-milliseconds by moment and by what the GPUs did
-- invariant: active + idle + unmeasured is what was held
SELECT
    moment,
    sum(active_gpu_ms::DECIMAL(38, 6))::DOUBLE      AS active,
    sum(idle_gpu_ms::DECIMAL(38, 6))::DOUBLE        AS idle,
    sum(unmeasured_gpu_ms::DECIMAL(38, 6))::DOUBLE  AS unmeasured,
    sum(unallocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS unallocated
FROM series_facts
GROUP BY moment
ORDER BY moment;
