-- reads: profile_devices, blocks; the span [span_from_ms, span_to_ms)
-- writes: profiled_hours, one row per (device, hour) with samples of a profiling metric, and the hour after it: there, each sample of activity counts by itself
-- invariant: one row per (device_id, hour)
-- only with: profile_devices
-- otherwise: profiled_hours (device_id UBIGINT, hour INTEGER)
CREATE OR REPLACE TEMP TABLE profiled_hours AS
SELECT DISTINCT p.device_id, unnest([b.hour, b.hour + 1]) AS hour
FROM blocks AS b JOIN profile_devices AS p USING (series_id)
WHERE b.hour >= getvariable('span_from_ms') // 3600000 - 1 AND b.hour < getvariable('span_to_ms') // 3600000 + 1;
