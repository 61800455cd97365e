-- reads: allocations, node_segments; the span [span_from_ms, span_to_ms)
-- writes: allocation_segments, one row per (segment, allocation that held GPUs in it)
-- invariant: from_ms < to_ms within the segment and the held interval
CREATE OR REPLACE TEMP TABLE allocation_segments AS
WITH hours AS (
    -- by hour, so that pods join node_segments by equality instead of comparing intervals
    SELECT allocation_id, uid, node_id, gpus, held_from_ms, held_to_ms,
        unnest(range(greatest(held_from_ms, getvariable('span_from_ms')) // 3600000,
            (least(held_to_ms, getvariable('span_to_ms')) - 1) // 3600000 + 1))::INTEGER AS hour
    FROM allocations
    WHERE held_from_ms < getvariable('span_to_ms') AND getvariable('span_from_ms') < held_to_ms
)
SELECT
    h.allocation_id, h.uid, h.node_id, h.gpus, l.from_ms AS segment_from_ms, h.hour, l.hours,
    greatest(l.from_ms, h.held_from_ms) AS from_ms,
    least(l.to_ms, h.held_to_ms) AS to_ms
FROM hours AS h
JOIN node_segments AS l ON l.node_id = h.node_id AND l.hour = h.hour AND l.is_collected AND l.from_ms < h.held_to_ms AND h.held_from_ms < l.to_ms;
