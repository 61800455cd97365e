-- reads: node_segments, node_hosts, billed_requests
-- writes: host_shares, per segment whose cost is split and per 'cpu' or 'memory' one row per allocation and one for what nobody requested: its part of the cost
-- invariant: per segment and part sum(share) = 1 up to rounding of binary fractions; share >= 0
CREATE OR REPLACE TEMP TABLE host_shares AS
WITH offered AS (
    SELECT l.node_id, l.from_ms AS segment_from_ms, n.part, n.units * (l.to_ms - l.from_ms) AS capacity_unit_ms,
        CASE n.part WHEN 'cpu' THEN l.cpu_cost ELSE l.node_cost - l.gpu_cost - l.cpu_cost END AS part_cost
    FROM node_segments AS l JOIN node_hosts AS n USING (node_id)
    WHERE l.cpu_cost IS NOT NULL
),
held AS (
    SELECT o.*, coalesce(sum(b.billed_unit_ms), 0) AS billed_unit_ms
    FROM offered AS o LEFT JOIN billed_requests AS b USING (node_id, segment_from_ms, part)
    GROUP BY ALL
)
SELECT b.node_id, b.segment_from_ms, b.part, b.allocation_id, b.uid,
    b.billed_unit_ms / greatest(h.capacity_unit_ms, h.billed_unit_ms) AS share, h.part_cost
FROM billed_requests AS b JOIN held AS h USING (node_id, segment_from_ms, part)
UNION ALL
SELECT node_id, segment_from_ms, part, NULL, NULL,
    -- less than a billionth is what tenths of a core leave over in binary
    CASE WHEN billed_unit_ms > capacity_unit_ms * (1 - 1e-9) THEN 0 ELSE 1 - billed_unit_ms / capacity_unit_ms END,
    part_cost
FROM held;
