-- reads: series, scrape_gaps
-- writes: scrape_gaps.cluster
-- invariant: a target's gaps follow its series, which series_cluster.sql moves next
UPDATE scrape_gaps
SET cluster = moved.to_cluster
FROM (
    SELECT cluster, coalesce(labels['job'], '') AS job, coalesce(labels['instance'], '') AS instance,
           any_value(coalesce(labels[$cluster_label], $default_cluster)) AS to_cluster
    FROM series
    WHERE source = $source
      AND cluster IS DISTINCT FROM coalesce(labels[$cluster_label], $default_cluster)
    GROUP BY ALL
) AS moved
WHERE scrape_gaps.source = $source AND scrape_gaps.cluster = moved.cluster
  AND scrape_gaps.job = moved.job AND scrape_gaps.instance = moved.instance;
