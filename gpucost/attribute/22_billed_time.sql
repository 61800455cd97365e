-- reads: allocation_segments, allocation_hosts, over_requested
-- writes: billed_time, one row per (holding, 'gpu', 'cpu' or 'memory'): GPUs, cores or bytes x time held, and the paid part of it (less if pods hold more than the node has)
-- invariant: 0 < billed_unit_ms <= unit_ms
CREATE OR REPLACE TEMP TABLE billed_time AS
WITH requested AS (
    SELECT allocation_id, uid, node_id, segment_from_ms, from_ms, to_ms, 'gpu' AS part, gpus AS units FROM allocation_segments
    UNION ALL
    SELECT h.allocation_id, h.uid, h.node_id, h.segment_from_ms, h.from_ms, h.to_ms, r.part, r.units
    FROM allocation_segments AS h JOIN allocation_hosts AS r USING (allocation_id)
),
excess AS (
    SELECT h.allocation_id, h.node_id, h.segment_from_ms, h.part,
        sum(h.units * (least(h.to_ms, o.to_ms) - greatest(h.from_ms, o.from_ms)) * (1 - o.units / o.held_units) ORDER BY o.from_ms) AS unit_ms
    FROM requested AS h
    JOIN over_requested AS o ON o.node_id = h.node_id AND o.part = h.part AND o.from_ms < h.to_ms AND h.from_ms < o.to_ms
    GROUP BY ALL
)
SELECT h.allocation_id, h.uid, h.node_id, h.segment_from_ms, h.part,
    h.units * (h.to_ms - h.from_ms) AS unit_ms,
    h.units * (h.to_ms - h.from_ms) - coalesce(e.unit_ms, 0) AS billed_unit_ms
FROM requested AS h
LEFT JOIN excess AS e USING (allocation_id, node_id, segment_from_ms, part);
