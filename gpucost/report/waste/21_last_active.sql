-- reads: cost_daily, cost_hourly, allocations, allocation_traits; variables waste_from_ms, waste_to_ms bound the period
-- writes: waste_last_active, one row per development pod of the period that was ever active: the end of its last active hour, in all of the store
-- invariant: one row per (cluster, uid): a pod may have several allocations
CREATE OR REPLACE TEMP TABLE waste_last_active AS
WITH pods AS (
    SELECT a.allocation_id, a.cluster, a.uid FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
    QUALIFY bool_or(a.held_from_ms < getvariable('waste_to_ms') AND getvariable('waste_from_ms') < a.held_to_ms) OVER (PARTITION BY a.cluster, a.uid)
),
days AS (
    SELECT allocation_id, max(from_ms) AS from_ms, max(to_ms) AS to_ms
    FROM cost_daily SEMI JOIN pods USING (allocation_id)
    WHERE active_gpu_ms > 0
    GROUP BY ALL
)
SELECT p.cluster, p.uid, max(h.to_ms) AS active_to_ms
FROM cost_hourly AS h JOIN pods AS p USING (allocation_id) JOIN days AS d ON d.allocation_id = h.allocation_id AND h.from_ms >= d.from_ms AND h.to_ms <= d.to_ms
WHERE h.active_gpu_ms > 0
GROUP BY ALL;
