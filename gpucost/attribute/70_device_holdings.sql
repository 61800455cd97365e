-- reads: allocation_segments, allocated_costs, node_segments, allocation_devices, device_hours
-- writes: held_devices, device_holdings (a view), one row per (hour of a holding, device of the pod with valid samples in it): whether the hour's aggregates are enough, and the holding's cost
-- invariant: weight > 0
-- only with: node_devices, told_activity
CREATE OR REPLACE TEMP TABLE held_devices AS
WITH held AS MATERIALIZED (
    SELECT h.allocation_id, h.from_ms, h.to_ms, h.hour, h.hours, h.to_ms - h.from_ms = 3600000 AS is_whole_hour,
        l.from_ms = l.cell_from_ms AND l.to_ms = l.cell_to_ms AS is_cell, l.cell_from_ms AS run_from_ms, a.gpu_ms, a.cost
    FROM allocation_segments AS h
    JOIN node_segments AS l ON l.node_id = h.node_id AND l.from_ms = h.segment_from_ms
    JOIN allocated_costs AS a ON a.node_id = h.node_id AND a.segment_from_ms = h.segment_from_ms AND a.allocation_id = h.allocation_id
    WHERE a.gpu_ms > 0
)
SELECT h.*, d.device_id, d.weight, d.is_only,
    -- a run ends at local midnight, so it touches at most two UTC days
    unnest(range(h.hour // 24, (h.hour + h.hours - 1) // 24 + 1))::INTEGER AS day
FROM held AS h
JOIN (
    SELECT *, count(*) OVER (PARTITION BY allocation_id) = 1 AS is_only
    FROM allocation_devices SEMI JOIN held USING (allocation_id)
    WHERE weight > 0
) AS d USING (allocation_id);
CREATE OR REPLACE TEMP VIEW device_holdings AS
SELECT h.* EXCLUDE (from_ms, to_ms, hour, hours, day, is_whole_hour), v.hour, (v.hour - h.hour)::BIGINT * 3600000 AS later_ms,
    h.from_ms + later_ms AS from_ms, h.to_ms + later_ms AS to_ms, h.is_whole_hour AND v.measured_ms IS NOT NULL AS whole,
    v.idle_ms, v.measured_ms, v.utilization_ms
FROM device_hours AS v
JOIN held_devices AS h ON h.device_id = v.device_id AND h.day = v.hour // 24 AND h.hour <= v.hour AND v.hour < h.hour + h.hours;
