-- reads: activity_series, node_devices
-- writes: profile_series (a view), profile_devices, one row per (series of a profiling metric, device): its measure, and its factor to percent, MiB, watts or joules
-- invariant: a device_id is one of node_devices; another exporter may measure it, so uuid and instance decide
CREATE OR REPLACE TEMP VIEW profile_series AS FROM activity_series WHERE part = 'profile' AND scale IS NOT NULL;
-- only with: profile_series
CREATE OR REPLACE TEMP TABLE profile_devices AS
SELECT DISTINCT p.series_id, d.device_id, p.scale, p.usual_scale, p.first_ms, p.end_ms, p.measures AS measure
FROM profile_series AS p
JOIN node_devices AS d ON d.cluster = p.cluster AND d.uuid = p.uuid AND d.gpu_instance_id = p.gpu_instance_id
    AND p.first_ms < d.up_to_ms AND d.up_from_ms <= p.last_ms;
