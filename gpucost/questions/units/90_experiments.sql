-- reads: unit_run_places, unit_pieces, unit_cells
-- writes: unit_experiments, the cost of each tracker run, of its workload outside runs, and of each job without a tracker; moments are milliseconds
-- invariant: the claims of unit_pieces are the runs with a known workload, numbered from 0 in order of their beginning
CREATE OR REPLACE TEMP TABLE unit_experiments AS
WITH runs AS (
    SELECT *, row_number() OVER (ORDER BY started_ms, run_id) - 1 AS claim_id FROM unit_run_places WHERE workload IS NOT NULL
),
sums AS (
    SELECT claim_id, cluster, namespace, workload, string_agg(DISTINCT team, ', ' ORDER BY team) AS team, sum(cost) AS cost, sum(idle_cost) AS idle_cost,
        sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
    FROM unit_pieces
    GROUP BY ALL
),
jobs AS (
    SELECT cluster, namespace, workload, string_agg(DISTINCT team, ', ' ORDER BY team) AS team, min(held_from_ms) AS from_ms, max(held_to_ms) AS to_ms,
        count(DISTINCT allocation_id) AS pods, sum(cost) AS cost, sum(idle_cost) AS idle_cost,
        sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
    FROM unit_cells ANTI JOIN sums USING (cluster, namespace, workload)
    WHERE is_selected
    GROUP BY cluster, namespace, workload
    -- experiments even without a tracker
    HAVING any_value(workload_type) IN ('training', 'batch')
)
SELECT CASE WHEN r.run_id IS NULL THEN 'outside_runs' ELSE 'run' END AS kind, r.experiment, coalesce(r.name, s.workload) AS name, r.run_id, r.parent_id,
    s.cluster, s.namespace, s.workload, s.team, r.status, r.started_ms AS "from", r.ended_ms AS "to", NULL AS hours, NULL AS pods,
    s.cost, s.idle_cost, s.allocated_gpu_ms, s.active_gpu_ms
FROM sums AS s LEFT JOIN runs AS r ON r.claim_id = s.claim_id
UNION ALL
SELECT 'job', NULL, workload, NULL, NULL, cluster, namespace, workload, team, NULL, from_ms, to_ms, NULL, pods, cost, idle_cost, allocated_gpu_ms, active_gpu_ms
FROM jobs;
