-- reads: series, states, blocks
-- writes: metric_spans, one row per (cluster, metric): when it was heard, when of pods that are on a node, whether any of its series holds a label of the object, whether any speaks of MIG slices
-- invariant: of all sources together: one server may scrape what another does not; requests and capacity of cores and memory are left out
CREATE OR REPLACE TEMP TABLE metric_spans AS
WITH heard AS (
    SELECT series_id, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM states GROUP BY ALL
    UNION ALL
    SELECT series_id, min(hour)::BIGINT * 3600000, (max(hour)::BIGINT + 1) * 3600000 FROM blocks GROUP BY ALL
)
SELECT s.cluster, lower(s.metric) AS metric, min(h.first_ms) AS first_ms, max(h.last_ms) AS last_ms,
    min(h.first_ms) FILTER (s.labels['node'] <> '') AS bound_first_ms, max(h.last_ms) FILTER (s.labels['node'] <> '') AS bound_last_ms,
    bool_or(len(list_filter(map_keys(s.labels), lambda name: starts_with(name, 'label_'))) > 0) AS is_labeled,
    bool_or(coalesce(starts_with(s.labels['resource'], 'nvidia_com_mig_'), false)) AS is_mig
FROM heard AS h JOIN series AS s USING (series_id)
WHERE coalesce(s.labels['resource'], '') NOT IN ('cpu', 'memory')
GROUP BY ALL;
