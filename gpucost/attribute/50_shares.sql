-- reads: node_segments, billed_gpu_time
-- writes: shares, one row per (segment, allocation) and one per segment for what nobody held (allocation null): its part of what the node's GPUs cost
-- invariant: per segment sum(share) = 1 up to rounding of binary fractions; share >= 0
CREATE OR REPLACE TEMP TABLE shares AS
WITH held AS (
    SELECT l.node_id, l.from_ms AS segment_from_ms, l.capacity_gpu_ms, l.gpu_cost, coalesce(sum(b.billed_gpu_ms), 0) AS billed_gpu_ms
    FROM node_segments AS l LEFT JOIN billed_gpu_time AS b ON b.node_id = l.node_id AND b.segment_from_ms = l.from_ms
    GROUP BY ALL
)
SELECT b.node_id, b.segment_from_ms, b.allocation_id, b.uid, b.gpu_ms,
    b.billed_gpu_ms / greatest(h.capacity_gpu_ms, h.billed_gpu_ms) AS share, h.gpu_cost
FROM billed_gpu_time AS b JOIN held AS h USING (node_id, segment_from_ms)
UNION ALL
SELECT node_id, segment_from_ms, NULL, NULL,
    -- less than a GPU-millisecond is what sevenths leave over in binary
    CASE WHEN capacity_gpu_ms - billed_gpu_ms < 1 THEN 0 ELSE capacity_gpu_ms - billed_gpu_ms END,
    CASE WHEN capacity_gpu_ms - billed_gpu_ms < 1 THEN 0 ELSE (capacity_gpu_ms - billed_gpu_ms) / capacity_gpu_ms END,
    gpu_cost
FROM held;
