-- reads: series, states, scrape_gaps; $source, $cluster_label, [$from_ms, $to_ms); gaps up to $tolerance_ms are not silences
-- writes: nothing; returns, by family of metrics and cluster (as in its label), the intervals without a stored sample; intervals of one silent target among several as family pods
-- invariant: from_ms < to_ms within the span; only families with samples of the cluster at some time
WITH known AS (
    SELECT series_id, coalesce(labels[$cluster_label], '') AS cluster, concat_ws(' ', labels['job'], labels['instance']) AS target, CASE
        WHEN metric = 'kube_family_samples' THEN labels['family']
        WHEN starts_with(metric, 'kube_node_') THEN 'nodes'
        WHEN metric = 'kube_pod_info' THEN 'pods'
        WHEN metric = 'kube_pod_status_phase' THEN 'phases'
        WHEN metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' THEN 'requests' END AS family
    FROM series
    WHERE source = $source AND starts_with(metric, 'kube_')
),
states_known AS MATERIALIZED (
    SELECT DISTINCT k.cluster, k.target, k.family, t.first_ms, t.last_ms
    FROM states AS t JOIN known AS k USING (series_id)
    WHERE k.family IS NOT NULL AND t.first_ms < $to_ms AND $from_ms <= t.last_ms
),
targets AS (
    SELECT DISTINCT cluster, target FROM states_known
    WHERE cluster IN (SELECT cluster FROM states_known GROUP BY cluster HAVING min(target) <> max(target))
),
heard AS (
    SELECT cluster, '' AS target, family, first_ms, last_ms FROM states_known
    UNION ALL
    SELECT DISTINCT cluster, '', family, unnest([$from_ms, $to_ms])::BIGINT AS at_ms, at_ms FROM known WHERE family IS NOT NULL
    UNION ALL
    SELECT cluster, target, 'pods', first_ms, last_ms FROM states_known SEMI JOIN targets USING (cluster, target)
    UNION ALL
    SELECT cluster, target, 'pods', $to_ms, $to_ms FROM targets
),
in_order AS (
    SELECT family, cluster, first_ms AS to_ms, max(last_ms) OVER (
        PARTITION BY cluster, target, family ORDER BY first_ms, last_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS from_ms
    FROM heard
)
SELECT DISTINCT family, cluster, greatest(from_ms, $from_ms) AS from_ms, least(to_ms, $to_ms) AS to_ms
FROM in_order
WHERE to_ms - from_ms > greatest($tolerance_ms, 2.5 * (
    SELECT coalesce(quantile_disc(gap_ms, 0.5), 0) FROM scrape_gaps
    WHERE source = $source AND hour BETWEEN $from_ms // 3600000 AND $to_ms // 3600000
        -- other exporters may be scraped more often
        AND job IN (SELECT coalesce(labels['job'], '') FROM series WHERE source = $source AND starts_with(metric, 'kube_'))))
ORDER BY ALL;
