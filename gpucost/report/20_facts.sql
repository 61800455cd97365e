-- reads: report_cost_cells, nodes, allocations, report_slots; $teams, $namespaces, $clusters filter (empty: all)
-- writes: report_facts, one row per (kind, node, allocation, team, slot) with every dimension and the sums of every measure
-- invariant: sums over report_facts are the sums over the cells of the period that pass the filters
CREATE OR REPLACE TEMP TABLE report_facts AS
WITH cells AS (
    SELECT DISTINCT from_ms FROM report_cost_cells
),
cell_slots AS (
    SELECT c.from_ms, s.from_ms AS slot
    FROM cells AS c JOIN report_slots AS s ON c.from_ms >= s.from_ms AND c.from_ms < s.to_ms
),
sums AS (
    SELECT
        h.kind, h.node_id, h.allocation_id, h.team, s.slot,
        sum(h.allocated_gpu_ms)   AS allocated_gpu_ms,
        sum(h.active_gpu_ms)      AS active_gpu_ms,
        sum(h.idle_gpu_ms)        AS idle_gpu_ms,
        sum(h.unmeasured_gpu_ms)  AS unmeasured_gpu_ms,
        sum(h.utilization_gpu_ms) AS utilization_gpu_ms,
        sum(h.unallocated_gpu_ms) AS unallocated_gpu_ms,
        sum(h.unavailable_gpu_ms) AS unavailable_gpu_ms,
        sum(h.cost)               AS cost,
        sum(h.idle_cost)          AS idle_cost,
        sum(h.unallocated_cost)   AS unallocated_cost
    FROM report_cost_cells AS h JOIN cell_slots AS s USING (from_ms)
    GROUP BY ALL
)
SELECT
    f.* EXCLUDE (slot),
    n.cluster, n.node, n.gpu_model, n.capacity_type, n.region, n.zone,
    a.namespace, a.pod, a.uid, a.workload, a.workload_type,
    s.month, s.day, s.hour
FROM sums AS f
JOIN nodes AS n USING (node_id)
JOIN report_slots AS s ON s.from_ms = f.slot
LEFT JOIN allocations AS a ON a.allocation_id = f.allocation_id
WHERE (len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], n.cluster))
  AND (len($namespaces::VARCHAR[]) = 0 OR list_contains($namespaces::VARCHAR[], a.namespace))
  AND (len($teams::VARCHAR[]) = 0 OR list_contains($teams::VARCHAR[], f.team));
