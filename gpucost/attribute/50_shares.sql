-- reads: node_segments, node_hosts, billed_time
-- writes: shares, per segment and part of the node ('gpu'; also 'cpu' and 'memory' if its cost is split) one row per allocation and one for the unallocated rest (allocation null): its share of the part's cost
-- invariant: per segment and part sum(share) = 1 up to rounding of binary fractions; share >= 0
CREATE OR REPLACE TEMP TABLE shares AS
WITH offered AS (
    SELECT node_id, from_ms AS segment_from_ms, 'gpu' AS part, capacity_gpu_ms AS capacity_unit_ms, gpu_cost AS part_cost FROM node_segments
    UNION ALL
    SELECT l.node_id, l.from_ms, n.part, n.units * (l.to_ms - l.from_ms),
        CASE n.part WHEN 'cpu' THEN l.cpu_cost ELSE l.node_cost - l.gpu_cost - l.cpu_cost END
    FROM node_segments AS l JOIN node_hosts AS n USING (node_id)
    WHERE l.cpu_cost IS NOT NULL
),
held AS (
    -- in a fixed order, so that half a billionth of money always rounds the same way
    SELECT o.*, coalesce(sum(b.billed_unit_ms ORDER BY b.billed_unit_ms), 0) AS held_unit_ms
    FROM offered AS o LEFT JOIN billed_time AS b USING (node_id, segment_from_ms, part)
    GROUP BY ALL
)
SELECT b.node_id, b.segment_from_ms, b.part, b.allocation_id, b.uid, CASE b.part WHEN 'gpu' THEN b.unit_ms ELSE 0 END AS gpu_ms,
    b.billed_unit_ms / greatest(h.capacity_unit_ms, h.held_unit_ms) AS share, h.part_cost
FROM billed_time AS b JOIN held AS h USING (node_id, segment_from_ms, part)
UNION ALL
SELECT node_id, segment_from_ms, part, NULL, NULL, CASE part WHEN 'gpu' THEN free_unit_ms ELSE 0 END,
    coalesce(free_unit_ms / nullif(capacity_unit_ms, 0), 0), part_cost
FROM (
    -- less than a GPU-millisecond, or a billionth, is the binary rounding of sevenths and tenths
    SELECT *, CASE WHEN capacity_unit_ms - held_unit_ms < CASE part WHEN 'gpu' THEN 1 ELSE capacity_unit_ms * 1e-9 END THEN 0
        ELSE capacity_unit_ms - held_unit_ms END AS free_unit_ms
    FROM held
);
