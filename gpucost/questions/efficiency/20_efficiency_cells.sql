-- reads: hourly_costs, profile_hours, nodes, allocations, allocation_traits, label_spans; variables report_from_ms, report_to_ms bound the period; $by_gpus; variable filters
-- writes: efficiency_cells, one row per (cell, pod with GPUs): its cost, cut into five parts, and every dimension
-- invariant: cost = idle_cost + unmeasured_cost + active_cost and active_cost = sm_unmeasured_cost + sm_idle_cost + sm_cost, exactly; no part is negative
CREATE OR REPLACE TEMP TABLE efficiency_cells AS
WITH timed AS (
    SELECT c.*, least(coalesce(p.measured_gpu_ms, 0), c.active_gpu_ms) AS sm_gpu_ms, least(coalesce(p.value_gpu_ms, 0), sm_gpu_ms) AS busy_gpu_ms
    FROM hourly_costs(getvariable('report_from_ms'), getvariable('report_to_ms')) AS c
    LEFT JOIN (FROM profile_hours WHERE measure = 'sm') AS p USING (allocation_id, from_ms)
    WHERE c.kind = 'allocated' AND c.allocated_gpu_ms > 0
),
priced AS (
    SELECT *,
        CASE
            WHEN idle_gpu_ms <= 0 THEN 0
            WHEN active_gpu_ms + unmeasured_gpu_ms <= 0 THEN cost
            -- the report's own figure, unless cores and memory have a cost of their own
            WHEN $by_gpus THEN idle_cost
            ELSE least(cost, (cost * (idle_gpu_ms / allocated_gpu_ms))::DECIMAL(38, 9))
        END AS idle_part,
        CASE
            WHEN active_gpu_ms <= 0 THEN 0
            WHEN unmeasured_gpu_ms <= 0 THEN cost - idle_part
            ELSE least(cost - idle_part, (cost * (active_gpu_ms / allocated_gpu_ms))::DECIMAL(38, 9))
        END AS active_part,
        -- of the active cost, up to a part of a millisecond
        CASE WHEN sm_gpu_ms <= 0 THEN 0 WHEN active_gpu_ms - sm_gpu_ms < 0.01 THEN active_part
            ELSE (active_part * (sm_gpu_ms / active_gpu_ms))::DECIMAL(38, 9) END AS sm_measured_part,
        CASE WHEN busy_gpu_ms <= 0 THEN 0 WHEN sm_gpu_ms - busy_gpu_ms < 0.01 THEN sm_measured_part
            ELSE least(sm_measured_part, (active_part * (busy_gpu_ms / active_gpu_ms))::DECIMAL(38, 9)) END AS sm_part
    FROM timed
)
SELECT p.allocation_id, p.from_ms, n.cluster, a.namespace, p.team, a.workload, t.workload_type, n.gpu_model,
    p.allocated_gpu_ms AS held_gpu_ms, p.active_gpu_ms, p.sm_gpu_ms, p.cost AS held_cost, p.idle_part AS idle_cost,
    p.cost - p.idle_part - p.active_part AS unmeasured_cost, p.active_part AS active_cost,
    p.active_part - p.sm_measured_part AS sm_unmeasured_cost, p.sm_measured_part - p.sm_part AS sm_idle_cost, p.sm_part AS sm_cost
FROM priced AS p
JOIN nodes AS n USING (node_id)
JOIN allocations AS a USING (allocation_id)
LEFT JOIN allocation_traits AS t USING (allocation_id)
LEFT JOIN label_spans AS l ON l.node_id = p.node_id AND l.allocation_id = p.allocation_id
    AND l.from_ms <= p.from_ms AND p.from_ms < l.to_ms
WHERE is_selected(n.cluster, a.namespace, p.team, a.workload, a."user", l.is_selected);
