-- reads: absences, node_segments, allocation_segments
-- writes: unavailable, one row per segment of a node with GPUs that no pod could hold: not ready, cordoned, or not allocatable
-- invariant: 0 <= gpu_ms <= the segment's unallocated GPU time
-- only with: absences
-- otherwise: unavailable (node_id UBIGINT, segment_from_ms BIGINT, gpu_ms DOUBLE)
CREATE OR REPLACE TEMP TABLE unavailable AS
-- a cause that is reported twice is one absence; several causes (cordoned, this resource, that one) add up, limited to
-- the free GPUs
WITH edges AS (
    SELECT node_id, from_ms AS at_ms FROM absences UNION SELECT node_id, to_ms FROM absences
    -- pods that come and go change the free GPUs, which limit the absence at each moment
    UNION SELECT node_id, from_ms FROM allocation_segments SEMI JOIN absences USING (node_id)
    UNION SELECT node_id, to_ms FROM allocation_segments SEMI JOIN absences USING (node_id)
),
stretches AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
),
causes AS (
    SELECT t.node_id, t.from_ms, t.to_ms, s.cause, max(s.gpus) AS gpus
    FROM stretches AS t JOIN absences AS s ON s.node_id = t.node_id AND s.from_ms <= t.from_ms AND t.to_ms <= s.to_ms
    GROUP BY ALL
),
absent AS (
    SELECT node_id, from_ms, to_ms, sum(gpus) AS gpus FROM causes GROUP BY ALL
),
parts AS (
    SELECT l.node_id, l.from_ms AS segment_from_ms, l.gpu_count, a.gpus,
        greatest(l.from_ms, a.from_ms) AS from_ms, least(l.to_ms, a.to_ms) AS to_ms
    FROM absent AS a JOIN node_segments AS l ON l.node_id = a.node_id AND l.is_collected AND l.from_ms < a.to_ms AND a.from_ms < l.to_ms
),
free AS (
    SELECT p.node_id, p.segment_from_ms, p.gpus * (p.to_ms - p.from_ms) AS absent_gpu_ms,
        greatest(0, p.gpu_count * (p.to_ms - p.from_ms)
            - coalesce(sum(h.gpus * (least(h.to_ms, p.to_ms) - greatest(h.from_ms, p.from_ms))), 0)) AS free_gpu_ms
    FROM parts AS p
    LEFT JOIN allocation_segments AS h ON h.node_id = p.node_id AND h.segment_from_ms = p.segment_from_ms AND h.from_ms < p.to_ms AND p.from_ms < h.to_ms
    GROUP BY p.node_id, p.segment_from_ms, p.gpus, p.gpu_count, p.from_ms, p.to_ms
)
SELECT node_id, segment_from_ms, round(sum(least(absent_gpu_ms, free_gpu_ms)), 6) AS gpu_ms FROM free GROUP BY ALL;
