-- reads: series, states, blocks; $source, $cluster_label
-- writes: nothing; returns, by metric and labels, targets with samples since $from_ms but not since $to_ms, and when the first fell silent
-- invariant: a target whose nodes or GPUs have samples until then is not returned
WITH newest AS (
    SELECT s.metric, s.labels, t.last_ms
    FROM states AS t
    JOIN series AS s USING (series_id)
    WHERE s.source = $source AND starts_with(s.metric, 'kube_node_') AND t.last_ms >= $from_ms
    UNION ALL
    SELECT s.metric, s.labels, b.last_ms
    FROM (
        SELECT series_id, max(hour::BIGINT * 3600000 + last_offset_ms) AS last_ms FROM blocks WHERE hour >= $from_ms // 3600000 GROUP BY ALL
    ) AS b
    JOIN series AS s USING (series_id)
    WHERE s.source = $source
),
targets AS (
    SELECT min(metric) AS metric, coalesce(labels[$cluster_label], '') AS cluster, coalesce(labels['job'], '') AS job,
        coalesce(labels['instance'], '') AS instance, max(last_ms) AS last_ms
    FROM newest
    GROUP BY starts_with(metric, 'kube_node_'), 2, 3, 4
    HAVING max(last_ms) >= $from_ms AND max(last_ms) < $to_ms
)
SELECT metric, cluster, job, list(instance ORDER BY instance) AS instances, min(last_ms) AS last_ms
FROM targets
GROUP BY metric, cluster, job
ORDER BY ALL;
