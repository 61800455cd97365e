-- reads: blocks, node_devices, settings
-- writes: blocks.idle_samples, blocks.idle_threshold: idle samples counted anew where they were counted under another threshold
-- invariant: the samples themselves are untouched
UPDATE blocks SET idle_samples = len(list_filter(vals[:-2], lambda v: v < d.idle_below)), idle_threshold = d.idle_below
FROM (
    SELECT DISTINCT n.series_id, c.threshold_percent / CASE WHEN n.gpu_instance_id = '' THEN c.device_scale ELSE c.mig_scale END AS idle_below
    FROM node_devices AS n CROSS JOIN settings AS c
) AS d
WHERE blocks.series_id = d.series_id AND blocks.idle_threshold <> d.idle_below;
