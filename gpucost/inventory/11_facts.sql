-- reads: series, states, target_intervals
-- writes: facts, one row per run of a kube-state-metrics series: what was so, from its first sample to one scrape interval past its last
-- invariant: first_ms < end_ms
CREATE OR REPLACE TEMP TABLE facts AS
WITH usual AS (
    SELECT coalesce(quantile_disc(interval_ms, 0.5), 60000) AS interval_ms FROM target_intervals
)
SELECT
    s.cluster,
    s.metric,
    s.labels,
    -- where the scraped target's own labels won, the object's stand under exported_*
    coalesce(s.labels['exported_namespace'], s.labels['namespace']) AS namespace,
    coalesce(s.labels['exported_pod'], s.labels['pod']) AS pod,
    coalesce(s.labels['exported_uid'], s.labels['uid']) AS uid,
    coalesce(s.labels['exported_container'], s.labels['container']) AS container,
    coalesce(s.labels['exported_node'], s.labels['node']) AS node,
    regexp_replace(lower(s.labels['resource']), '[^a-z0-9]', '_', 'g') AS resource,
    t.value,
    t.first_ms,
    t.last_ms,
    t.last_ms + coalesce(i.interval_ms, usual.interval_ms) AS end_ms
FROM states AS t
JOIN series AS s USING (series_id)
CROSS JOIN usual
LEFT JOIN target_intervals AS i
    ON i.source = s.source AND i.cluster = s.cluster
    AND i.job = coalesce(s.labels['job'], '') AND i.instance = coalesce(s.labels['instance'], '')
-- Kueue tells nothing of pods and nodes
WHERE NOT starts_with(s.metric, 'kueue_');
