-- reads: series
-- writes: series.cluster
-- invariant: a source's series are in the cluster that its settings say now, so that a renamed cluster stays one cluster
UPDATE series
SET cluster = coalesce(labels[$cluster_label], $default_cluster)
WHERE source = $source
  AND cluster IS DISTINCT FROM coalesce(labels[$cluster_label], $default_cluster);
