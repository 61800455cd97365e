-- reads: activity_series
-- writes: device_series, one row per series of activity: the device it measures, the pod it names, and the target that it was scraped from
-- invariant: first_ms <= last_ms < end_ms; host and node_label are '' where the exporter names none; scale is null where a value's unit is not proven
CREATE OR REPLACE TEMP TABLE device_series AS
SELECT * EXCLUDE (metric, part, measures) FROM activity_series WHERE part IN ('device', 'mig');
