-- reads: activity_series
-- writes: device_series, one row per activity series: its device, pod and scrape target
-- invariant: first_ms <= last_ms < end_ms; host and node_label are '' if the exporter names none; scale is null if a value's unit is not proven
CREATE OR REPLACE TEMP TABLE device_series AS
SELECT * EXCLUDE (metric, part, measures) FROM activity_series WHERE part IN ('device', 'mig');
