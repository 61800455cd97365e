-- reads: scrape_gaps, series, states
-- writes: state_intervals, one row per run of a kube-state-metrics series: its value from the first sample to one scrape interval past the last; begin_ms is one interval before the first
-- invariant: begin_ms < first_ms < end_ms; the scrape interval is the one of the sample's hour; no value is beyond a sensible maximum, no moment (_time, _created) in the future of its sample
INSERT INTO state_intervals BY NAME
WITH target_intervals AS (
    -- one row per kube-state-metrics target and hour with scrapes in or next to it: the scrape interval then
    SELECT g.source, g.cluster, g.job, g.instance, g.hour + n.hours AS hour, arg_min(g.gap_ms, n.rank) AS interval_ms
    FROM scrape_gaps AS g CROSS JOIN (VALUES (0, 1), (1, 2), (-1, 3)) AS n (hours, rank)
    WHERE g.gap_ms > 0
    GROUP BY ALL
),
intervals AS (
    SELECT source, cluster, job, instance, hour, interval_ms FROM target_intervals
    UNION ALL
    -- a target with a single known scrape has the interval of its job
    SELECT source, cluster, job, NULL, hour, quantile_disc(interval_ms, 0.5) FROM target_intervals GROUP BY ALL
),
named AS (
    SELECT series_id, source, cluster, metric, labels, ends_with(metric, '_time') OR ends_with(metric, '_created') AS is_moment,
        coalesce(labels['job'], '') AS job, coalesce(labels['instance'], '') AS instance,
        -- if the scraped target's own labels won, the object's are exported_*
        coalesce(labels['exported_namespace'], labels['namespace']) AS namespace,
        coalesce(labels['exported_pod'], labels['pod']) AS pod,
        coalesce(labels['exported_uid'], labels['uid']) AS uid,
        coalesce(labels['exported_container'], labels['container']) AS container,
        coalesce(labels['exported_node'], labels['node']) AS node,
        regexp_replace(lower(labels['resource']), '[^a-z0-9]', '_', 'g') AS resource
    FROM series
    -- metrics of queues, Karpenter, devices, quotas, limits and actions on nodes do not describe pods and nodes
    WHERE NOT (regexp_matches(metric, '^(kueue|kai|volcano|karpenter|DCGM)_')
        OR metric IN ('kube_resourcequota', 'kube_limitrange', 'actions_node_total'))
)
SELECT
    s.cluster, s.metric, s.labels, s.namespace, s.pod, s.uid, s.container, s.node, s.resource,
    t.value,
    t.first_ms - coalesce(b.interval_ms, bj.interval_ms, 60000) AS begin_ms,
    t.first_ms,
    t.last_ms,
    t.last_ms + coalesce(e.interval_ms, ej.interval_ms, 60000) AS end_ms
FROM states AS t
JOIN named AS s USING (series_id)
LEFT JOIN intervals AS b
    ON b.source = s.source AND b.cluster = s.cluster AND b.job = s.job AND b.instance = s.instance AND b.hour = t.first_ms // 3600000
LEFT JOIN intervals AS e
    ON e.source = s.source AND e.cluster = s.cluster AND e.job = s.job AND e.instance = s.instance AND e.hour = t.last_ms // 3600000
LEFT JOIN intervals AS bj
    ON bj.source = s.source AND bj.cluster = s.cluster AND bj.job = s.job AND bj.instance IS NULL AND bj.hour = t.first_ms // 3600000
LEFT JOIN intervals AS ej
    ON ej.source = s.source AND ej.cluster = s.cluster AND ej.job = s.job AND ej.instance IS NULL AND ej.hour = t.last_ms // 3600000
-- clocks may differ a little
WHERE CASE WHEN s.is_moment THEN t.value > 0 AND t.value * 1000 <= t.last_ms + 86400000 ELSE abs(t.value) <= 1e15 END;
