-- reads: allocation_segments, over_allocated
-- writes: billed_gpu_time, one row per holding: GPU time held, and the GPU time it pays for (less where more is held than there is)
-- invariant: 0 < billed_gpu_ms <= gpu_ms
CREATE OR REPLACE TEMP TABLE billed_gpu_time AS
WITH excess AS (
    SELECT h.allocation_id, h.node_id, h.segment_from_ms,
        sum(h.gpus * (least(h.to_ms, o.to_ms) - greatest(h.from_ms, o.from_ms)) * (1 - o.gpu_count / o.held_gpus)) AS gpu_ms
    FROM allocation_segments AS h
    JOIN over_allocated AS o ON o.node_id = h.node_id AND o.from_ms < h.to_ms AND h.from_ms < o.to_ms
    GROUP BY ALL
)
SELECT h.allocation_id, h.uid, h.node_id, h.segment_from_ms,
    h.gpus * (h.to_ms - h.from_ms) AS gpu_ms,
    h.gpus * (h.to_ms - h.from_ms) - coalesce(e.gpu_ms, 0) AS billed_gpu_ms
FROM allocation_segments AS h
LEFT JOIN excess AS e USING (allocation_id, node_id, segment_from_ms);
