-- reads: cost_daily, waste_pods, waste_serving; variables report_from_ms, report_to_ms bound the period, report_by_day: whole local days, nothing finer asked for; variable waste_by_gpus: all cost rides on GPUs
-- writes: waste_days, one row per (pod, local day of the period): whether its hours are to be looked at, or the day tells as much
-- invariant: empty where not whole days are asked for
CREATE OR REPLACE TEMP TABLE waste_days AS
SELECT c.allocation_id, c.from_ms, c.to_ms,
    -- hours of one day may differ in price: the day tells as much where its cost falls to idle time and to one other part
    (NOT getvariable('waste_by_gpus') OR (c.unmeasured_gpu_ms > 0 AND c.active_gpu_ms > 0)
        OR (c.from_ms < p.started_ms AND p.held_from_ms < p.started_ms)
        OR (c.from_ms < p.forgotten_from_ms AND p.forgotten_from_ms < c.to_ms)
        OR (c.from_ms < p.lost_from_ms AND p.lost_from_ms < c.to_ms)
        OR (p.workload_type = 'inference' AND (p.cluster, p.namespace, p.workload) IN (SELECT (cluster, namespace, workload) FROM waste_serving))) IS TRUE
        AS is_fine
FROM cost_daily AS c JOIN waste_pods AS p USING (allocation_id)
WHERE getvariable('report_by_day') AND c.from_ms >= getvariable('report_from_ms') AND c.to_ms <= getvariable('report_to_ms');
