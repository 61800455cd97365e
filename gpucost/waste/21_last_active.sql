-- reads: cost_daily, cost_hourly, allocations, allocation_traits; variables waste_from_ms, waste_to_ms bound the period
-- writes: waste_last_active, one row per development pod of the period that was ever active: the end of its last active hour, in all of the store
-- invariant: one row per allocation_id
CREATE OR REPLACE TEMP TABLE waste_last_active AS
WITH pods AS (
    SELECT a.allocation_id FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
        AND a.held_from_ms < getvariable('waste_to_ms') AND getvariable('waste_from_ms') < a.held_to_ms
),
days AS (
    SELECT allocation_id, max(from_ms) AS from_ms, max(to_ms) AS to_ms
    FROM cost_daily SEMI JOIN pods USING (allocation_id)
    WHERE active_gpu_ms > 0
    GROUP BY ALL
)
SELECT h.allocation_id, max(h.to_ms) AS active_to_ms
FROM cost_hourly AS h JOIN days AS d ON d.allocation_id = h.allocation_id AND h.from_ms >= d.from_ms AND h.to_ms <= d.to_ms
WHERE h.active_gpu_ms > 0
GROUP BY ALL;
