-- reads: shares
-- writes: allocated_costs, one row per share: its cost
-- invariant: per segment and part sum(cost) = its cost, exactly; the rounding remainder goes to the largest share, then the smallest uid
CREATE OR REPLACE TEMP TABLE allocated_costs AS
WITH rounded AS (
    SELECT *, (part_cost * share)::DECIMAL(38, 9) AS cost FROM shares
),
rests AS (
    SELECT node_id, segment_from_ms, part, any_value(part_cost) - sum(cost) AS rest
    FROM rounded
    GROUP BY ALL
    HAVING rest <> 0
),
takers AS (
    SELECT r.node_id, r.segment_from_ms, r.part, s.allocation_id, r.rest
    FROM rests AS r JOIN shares AS s USING (node_id, segment_from_ms, part)
    -- equal shares may differ in their last bits
    QUALIFY row_number() OVER (PARTITION BY r.node_id, r.segment_from_ms, r.part ORDER BY round(s.share, 12) DESC, s.uid NULLS LAST) = 1
)
SELECT r.node_id, r.segment_from_ms, r.allocation_id, r.gpu_ms, r.cost + coalesce(t.rest, 0) AS cost
FROM rounded AS r
LEFT JOIN takers AS t
    ON t.node_id = r.node_id AND t.segment_from_ms = r.segment_from_ms AND t.part = r.part
    AND t.allocation_id IS NOT DISTINCT FROM r.allocation_id;
