-- reads: waste_cells, waste_pods; variable waste_has_services: some pods are of services; $target_utilization
-- writes: waste_serving, one row per (serving workload, cell) that holds more GPUs than its peak needs: the surplus parts of its idle and of its active time
-- invariant: 0 <= idle_part, active_part <= 1; idle time counts first
CREATE OR REPLACE TEMP TABLE waste_serving AS
WITH cells AS (
    SELECT p.cluster, p.namespace, p.workload, c.from_ms, c.to_ms, max(p.gpus) AS replica_gpus,
        total_ms(c.active_gpu_ms) AS active,
        -- pulling an image is not serving
        sum(greatest(0, c.idle_gpu_ms - p.gpus * greatest(0, least(c.to_ms, p.started_ms) - greatest(c.from_ms, p.held_from_ms)))) AS idle,
        total_ms(c.utilization_gpu_ms) AS busy
    FROM waste_cells AS c JOIN waste_pods AS p USING (allocation_id)
    WHERE getvariable('waste_has_services') AND p.workload_type = 'inference'
    GROUP BY ALL
),
needs AS (
    SELECT cluster, namespace, workload, max(replica_gpus) AS replica_gpus,
        -- at least one replica; 1e-9 allows for the rounding of binary fractions
        greatest(1, ceil(max(busy / (to_ms - from_ms)) / ($target_utilization * max(replica_gpus)) - 1e-9)) * max(replica_gpus) AS gpus
    FROM cells
    GROUP BY ALL
),
excess AS (
    SELECT c.*, c.active + c.idle - n.gpus * (c.to_ms - c.from_ms) AS gpu_ms FROM cells AS c JOIN needs AS n USING (cluster, namespace, workload)
)
SELECT cluster, namespace, workload, from_ms,
    CASE WHEN idle > 0 THEN least(1, gpu_ms / idle) ELSE 0 END AS idle_part,
    CASE WHEN active > 0 THEN greatest(0, least(1, (gpu_ms - idle) / active)) ELSE 0 END AS active_part
FROM excess
WHERE gpu_ms > 1;
