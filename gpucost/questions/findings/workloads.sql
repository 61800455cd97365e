-- reads: cost_runs, activity_hours, hourly_costs, allocations, allocation_traits, nodes, waste_rows, activity_devices, activity_use, blocks; variable waste_has_services; $from_ms, $to_ms the period
-- writes: nothing; answers the workloads of the period: team, held time, cost, waste by bucket, activity, and active hours of services
-- invariant: one row per (cluster, namespace, workload); costs are the sums of its cells; p95 is of a service's device-hours, 0-1; unused_gpu_ms is the GPU time held of GPUs never in use
WITH runs AS MATERIALIZED (
    SELECT allocation_id, node_id, team, from_ms, to_ms, gpu_ms, cost,
        (least(hours, ($to_ms - to_ms) // 3600000 + 1) - greatest(0, ($from_ms - from_ms + 3599999) // 3600000))::BIGINT AS cells
    FROM cost_runs
    WHERE kind = 'allocated' AND to_ms <= $to_ms AND from_ms + (hours - 1) * 3600000 >= $from_ms
),
held AS (
    SELECT allocation_id, node_id, arg_max(team, from_ms) AS team, max(from_ms) AS last_ms, max(gpu_ms) AS most_gpu_ms,
        sum(gpu_ms::DECIMAL(38, 6) * cells) AS gpu_ms, sum(cost * cells) AS cost
    FROM runs
    WHERE cells > 0
    GROUP BY ALL
),
measured AS (
    SELECT allocation_id, sum((h.measured_gpu_ms - h.idle_gpu_ms)::DECIMAL(38, 6)) AS active_gpu_ms, sum(h.idle_gpu_ms::DECIMAL(38, 6)) AS idle_gpu_ms,
        sum(h.utilization_gpu_ms::DECIMAL(38, 6)) AS utilization_gpu_ms,
        max(h.from_ms + r.to_ms - r.from_ms) FILTER (h.measured_gpu_ms > h.idle_gpu_ms) AS active_to_ms
    FROM activity_hours AS h JOIN runs AS r USING (allocation_id)
    WHERE r.from_ms = h.run_from_ms AND h.from_ms >= $from_ms AND h.from_ms + r.to_ms - r.from_ms <= $to_ms
    GROUP BY ALL
),
pods AS MATERIALIZED (
    SELECT a.cluster, a.namespace, a.workload, a.gpus, a.held_from_ms, a.held_to_ms, coalesce(t.workload_type, 'other') AS workload_type,
        n.capacity_type, n.node, h.*, m.* EXCLUDE (allocation_id)
    FROM held AS h
    LEFT JOIN measured AS m USING (allocation_id)
    JOIN allocations AS a USING (allocation_id)
    JOIN nodes AS n ON n.node_id = h.node_id
    LEFT JOIN allocation_traits AS t USING (allocation_id)
    WHERE a.gpus > 0
),
workloads AS (
    SELECT cluster, namespace, workload,
        arg_max(team, last_ms) AS team,
        arg_max(workload_type, most_gpu_ms) AS workload_type,
        max(gpus) AS gpus_per_pod,
        greatest(min(held_from_ms), $from_ms) AS from_ms,
        least(max(held_to_ms), $to_ms) AS to_ms,
        total_ms(gpu_ms) AS held_gpu_ms,
        coalesce(total_ms(active_gpu_ms), 0) AS active_gpu_ms,
        coalesce(total_ms(idle_gpu_ms), 0) AS idle_gpu_ms,
        coalesce(total_ms(utilization_gpu_ms), 0) AS utilization_gpu_ms,
        max(active_to_ms) AS active_to_ms,
        list(DISTINCT node ORDER BY node) AS nodes,
        sum(cost)::DECIMAL(38, 9) AS cost,
        coalesce(sum(gpu_ms) FILTER (capacity_type = 'on_demand'), 0)::DOUBLE AS on_demand_gpu_ms
    FROM pods GROUP BY ALL
),
-- the most pods at one moment; a pod that replaces another counts as one
pods_at_once AS (
    SELECT cluster, namespace, workload, max(pods) AS most_pods
    FROM (
        SELECT cluster, namespace, workload, sum(step) OVER (PARTITION BY cluster, namespace, workload ORDER BY at_ms, step) AS pods
        FROM (
            SELECT DISTINCT cluster, namespace, workload, allocation_id, unnest([held_from_ms, held_to_ms]) AS at_ms, unnest([1, -1]) AS step
            FROM pods
        )
    )
    GROUP BY ALL
),
wasted AS (
    SELECT cluster, namespace, workload, bucket, total_ms(gpu_ms) AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost
    FROM waste_rows WHERE allocation_id IS NOT NULL GROUP BY ALL
),
buckets AS (
    SELECT cluster, namespace, workload, map_from_entries(list((bucket, (gpu_ms, cost)))) AS buckets FROM wasted GROUP BY ALL
),
services AS (
    FROM workloads WHERE workload_type = 'inference'
),
hours AS (
    SELECT a.cluster, a.namespace, a.workload, c.from_ms // 3600000 AS hour,
        total_ms(c.active_gpu_ms) AS active_gpu_ms, total_ms(c.idle_gpu_ms) AS idle_gpu_ms
    FROM hourly_costs($from_ms, $to_ms) AS c JOIN allocations AS a USING (allocation_id)
    SEMI JOIN services USING (cluster, namespace, workload)
    WHERE getvariable('waste_has_services') AND c.kind = 'allocated' AND a.gpus > 0
    GROUP BY ALL
),
served AS (
    SELECT cluster, namespace, workload,
        list({'hour': hour, 'active_gpu_ms': active_gpu_ms, 'idle_gpu_ms': idle_gpu_ms} ORDER BY hour) AS hours
    FROM hours GROUP BY ALL
),
unused AS (
    SELECT a.cluster, a.namespace, a.workload, max(a.gpus) AS asked, max(u.used) AS most_used,
        sum((u.devices - u.used) * h.gpu_ms::DOUBLE / a.gpus) AS unused_gpu_ms
    FROM (SELECT allocation_id, count(*) AS devices, count(*) FILTER (is_used) AS used FROM activity_use GROUP BY ALL) AS u
    JOIN allocations AS a USING (allocation_id) JOIN pods AS h USING (allocation_id)
    -- a pod that used no GPU at all is idle, which is another finding
    WHERE a.gpus > 1 AND u.used BETWEEN 1 AND u.devices - 1
    GROUP BY ALL
),
busy AS (
    SELECT a.cluster, a.namespace, a.workload, quantile_cont(b.value_sum / b.samples * d.scale, 0.95) AS p95
    FROM activity_devices AS d
    JOIN pods AS a USING (allocation_id)
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
    SEMI JOIN services USING (cluster, namespace, workload)
    WHERE d.kind = 'activity'
    GROUP BY ALL
)
SELECT w.*, m.most_pods::INTEGER AS most_pods, coalesce(k.buckets, MAP {}) AS buckets, coalesce(s.hours, []) AS hours,
    b.p95, u.asked, u.most_used, coalesce(u.unused_gpu_ms, 0) AS unused_gpu_ms
FROM workloads AS w
JOIN pods_at_once AS m USING (cluster, namespace, workload)
LEFT JOIN buckets AS k USING (cluster, namespace, workload)
LEFT JOIN served AS s USING (cluster, namespace, workload)
LEFT JOIN busy AS b USING (cluster, namespace, workload)
LEFT JOIN unused AS u USING (cluster, namespace, workload)
ORDER BY cluster, namespace, workload;
