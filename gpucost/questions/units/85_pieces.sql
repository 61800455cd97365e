-- reads: unit_cells, unit_claims, allocations
-- writes: unit_pieces, the cells of claimed workloads cut at the ends of claims; claim_id is null for unclaimed time
-- invariant: per cell, sum(cost) is the cell's cost, exactly; claims of the greatest depth share a moment evenly
CREATE OR REPLACE TEMP TABLE unit_pieces AS
WITH cells AS (
    SELECT * FROM unit_cells
    WHERE is_selected AND (cluster, namespace, workload) IN (
        SELECT (a.cluster, a.namespace, a.workload) FROM unit_claims AS k JOIN allocations AS a USING (allocation_id))
),
claims AS (
    SELECT c.cell_id, k.claim_id, k.depth, greatest(k.from_ms, c.held_from_ms) AS from_ms, least(k.to_ms, c.held_to_ms) AS to_ms
    FROM cells AS c
    JOIN unit_claims AS k ON k.allocation_id = c.allocation_id AND k.from_ms < c.held_to_ms AND c.held_from_ms < k.to_ms
),
edges AS (
    SELECT cell_id, held_from_ms AS at_ms FROM cells
    UNION SELECT cell_id, held_to_ms FROM cells
    UNION SELECT cell_id, from_ms FROM claims
    UNION SELECT cell_id, to_ms FROM claims
),
spans AS (
    SELECT cell_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cell_id ORDER BY at_ms) AS to_ms FROM edges
),
claimed AS (
    SELECT s.cell_id, s.from_ms, s.to_ms, k.claim_id
    FROM spans AS s
    LEFT JOIN claims AS k ON k.cell_id = s.cell_id AND k.from_ms <= s.from_ms AND s.to_ms <= k.to_ms
    WHERE s.to_ms IS NOT NULL
    QUALIFY k.depth IS NULL OR k.depth = max(k.depth) OVER (PARTITION BY s.cell_id, s.from_ms)
),
parts AS (
    SELECT *, row_number() OVER (PARTITION BY cell_id, from_ms ORDER BY claim_id) AS ordinal, count(*) OVER (PARTITION BY cell_id, from_ms) AS sharers
    FROM claimed
),
fractions AS (
    SELECT p.claim_id, c.*,
        (p.from_ms + (p.to_ms - p.from_ms) * ((p.ordinal - 1)::DOUBLE / p.sharers) - c.held_from_ms) / (c.held_to_ms - c.held_from_ms) AS begins,
        (p.from_ms + (p.to_ms - p.from_ms) * (p.ordinal::DOUBLE / p.sharers) - c.held_from_ms) / (c.held_to_ms - c.held_from_ms) AS ends
    FROM parts AS p JOIN cells AS c USING (cell_id)
)
-- money is cut at the ends of the pieces, so that no digit is lost; whole cells begin at 0 and end at 1
SELECT claim_id, cluster, namespace, workload, team,
    CASE WHEN ends = 1 THEN cost ELSE (cost * ends)::DECIMAL(38, 9) END - (cost * begins)::DECIMAL(38, 9) AS cost,
    CASE WHEN ends = 1 THEN idle_cost ELSE (idle_cost * ends)::DECIMAL(38, 9) END - (idle_cost * begins)::DECIMAL(38, 9) AS idle_cost,
    allocated_gpu_ms * (ends - begins) AS allocated_gpu_ms, active_gpu_ms * (ends - begins) AS active_gpu_ms,
    idle_gpu_ms * (ends - begins) AS idle_gpu_ms
FROM fractions;
