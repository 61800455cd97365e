-- reads: shares
-- writes: amounts, one row per share: the money it comes to
-- invariant: per slice sum(cost) = node_cost, exactly; what rounding leaves goes to the largest share, then the smallest uid
CREATE OR REPLACE TEMP TABLE amounts AS
WITH rounded AS (
    SELECT *, (node_cost * share)::DECIMAL(38, 9) AS cost FROM shares
)
SELECT node_id, slice_from_ms, allocation_id, gpu_ms,
    cost + CASE WHEN row_number() OVER (PARTITION BY node_id, slice_from_ms ORDER BY share DESC, uid NULLS LAST) = 1
        THEN node_cost - sum(cost) OVER (PARTITION BY node_id, slice_from_ms) ELSE 0 END AS cost
FROM rounded;
