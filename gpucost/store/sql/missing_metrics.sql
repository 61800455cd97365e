-- reads: series, states, blocks, needs, dropped_samples
-- writes: missing_metrics: one row per cluster and interval without a metric or label that figures need: the consequence and the fix
-- invariant: from_ms < to_ms; an interval is longer than ten minutes, and is before the metric's first sample, after
-- its last, or over all samples
CREATE OR REPLACE TEMP TABLE missing_metrics AS
WITH times AS (
    SELECT series_id, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM states GROUP BY ALL
    UNION ALL
    SELECT series_id, min(hour)::BIGINT * 3600000, (max(hour)::BIGINT + 1) * 3600000 FROM blocks GROUP BY ALL
),
-- check labels only on metrics that can have them
named AS (
    SELECT series_id, cluster, lower(metric) AS metric, labels['node'] <> '' AS is_bound,
        CASE WHEN ends_with(metric, '_labels') THEN len(list_filter(map_keys(labels), lambda name: starts_with(name, 'label_'))) > 0 END AS is_labeled,
        CASE WHEN contains(metric, 'resource') OR contains(metric, 'capacity') OR contains(metric, 'allocatable') THEN labels['resource'] END AS resource
    FROM series
),
-- all sources together: one server may scrape metrics that another does not; requests and capacity of cores and memory
-- are left out
metric_spans AS MATERIALIZED (
    SELECT s.cluster, s.metric, min(h.first_ms) AS first_ms, max(h.last_ms) AS last_ms,
        min(h.first_ms) FILTER (s.is_bound) AS bound_first_ms, max(h.last_ms) FILTER (s.is_bound) AS bound_last_ms,
        coalesce(bool_or(s.is_labeled), false) AS is_labeled, coalesce(bool_or(starts_with(s.resource, 'nvidia_com_mig_')), false) AS is_mig
    FROM times AS h JOIN named AS s USING (series_id)
    WHERE coalesce(s.resource, '') NOT IN ('cpu', 'memory')
    GROUP BY ALL
),
heard AS (
    SELECT cluster, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM metric_spans WHERE starts_with(metric, 'kube_') GROUP BY ALL
),
asking AS (
    SELECT m.cluster, coalesce(m.bound_first_ms, m.first_ms) AS first_ms, coalesce(m.bound_last_ms, m.last_ms) AS last_ms
    FROM metric_spans AS m JOIN needs AS n ON n.kind = 'requests' AND n.metric = m.metric
),
active AS (
    SELECT m.cluster, min(m.first_ms) AS first_ms, max(m.last_ms) AS last_ms
    FROM metric_spans AS m JOIN needs AS n ON n.kind IN ('activity_name', 'mig_name') AND lower(n.metric) = m.metric
    GROUP BY ALL
),
instances AS (
    SELECT m.cluster, min(m.first_ms) AS first_ms, max(m.last_ms) AS last_ms
    FROM metric_spans AS m JOIN needs AS n ON n.kind = 'mig_name' AND lower(n.metric) = m.metric
    GROUP BY ALL
),
sliced AS (
    SELECT cluster, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM metric_spans WHERE is_mig GROUP BY ALL
),
-- required metrics and the time they are required: metrics of pods and GPU nodes while pods on nodes request GPUs, the
-- others while there are any samples
due AS (
    SELECT d.cluster, n.*, d.first_ms AS from_ms, d.last_ms AS to_ms
    FROM needs AS n
    JOIN (
        SELECT 'state' AS of, * FROM heard UNION ALL SELECT 'pods', * FROM asking UNION ALL SELECT 'slices', * FROM sliced
        UNION ALL SELECT 'activity', * FROM active ANTI JOIN heard USING (cluster)
        -- a cluster without requests for GPUs is measured, too
        UNION ALL SELECT 'GPUs', * FROM asking UNION ALL SELECT 'GPUs', * FROM heard ANTI JOIN asking USING (cluster)
    ) AS d ON d.of = CASE
        WHEN n.kind = 'exporter' THEN 'activity'
        WHEN n.kind = 'mig_activity' THEN 'slices'
        WHEN n.kind = 'activity' THEN 'GPUs'
        WHEN n.kind IN ('activity_name', 'mig_name') THEN NULL
        WHEN n.kind IN ('metric', 'hint') AND (starts_with(n.metric, 'kube_pod_') OR n.metric = 'kube_node_status_capacity') THEN 'pods'
        ELSE 'state' END
),
met AS (
    SELECT d.*, m.first_ms, m.last_ms, coalesce(m.is_labeled, false) AS is_labeled
    FROM due AS d
    LEFT JOIN (
        FROM metric_spans UNION ALL BY NAME SELECT cluster, 'activity' AS metric, first_ms, last_ms FROM active
        UNION ALL BY NAME SELECT cluster, 'mig_activity' AS metric, first_ms, last_ms FROM instances
    ) AS m ON m.cluster = d.cluster AND m.metric = CASE WHEN d.kind IN ('activity', 'mig_activity') THEN d.kind ELSE lower(d.metric) END
),
stretches AS (
    SELECT *, 'ever' AS how FROM met WHERE first_ms IS NULL
    UNION ALL
    SELECT * REPLACE (first_ms AS to_ms), 'until then' FROM met WHERE first_ms > from_ms + 600000 AND kind <> 'requests'
    UNION ALL
    SELECT * REPLACE (last_ms AS from_ms), 'since then' FROM met WHERE last_ms < to_ms - 600000 AND kind <> 'requests'
    UNION ALL
    SELECT *, 'bare' FROM met WHERE kind IN ('labels', 'team_labels') AND first_ms IS NOT NULL AND NOT is_labeled
),
spoiled AS (
    SELECT DISTINCT s.cluster, lower(d.metric) AS metric FROM dropped_samples AS d JOIN (SELECT DISTINCT source, cluster FROM series) AS s USING (source)
)
SELECT t.cluster, t.metric, t.from_ms, t.to_ms,
    CASE WHEN t.kind IN ('hint', 'team_labels') THEN 'note' ELSE 'warning' END AS level,
    CASE
        WHEN t.how = 'bare' THEN replace(t.metric, 'kube_', '') || '_not_exported'
        WHEN t.kind = 'exporter' THEN 'no_kube_state_metrics'
        WHEN t.kind = 'requests' THEN 'no_gpu_requests'
        WHEN t.kind = 'activity' AND t.how = 'ever' AND p.cluster IS NOT NULL THEN 'activity_invalid'
        WHEN t.kind IN ('activity', 'mig_activity') THEN 'no_' || t.kind
        ELSE 'missing_' || t.metric
    END AS code,
    'cluster ' || t.cluster || CASE
        WHEN t.how = 'bare' THEN ': ' || t.metric || ' has no labels: ' || t.lost
        WHEN t.kind = 'exporter' THEN ' has no samples of ' || t.metric
        WHEN t.kind = 'requests' THEN ': ' || t.lost
        WHEN code = 'activity_invalid' THEN ': ' || t.metric || ' had no valid samples'
        ELSE ' has no ' || t.metric || CASE t.how WHEN 'ever' THEN '' ELSE
            ' between ' || strftime(epoch_ms(t.from_ms), '%Y-%m-%dT%H:%MZ') || ' and ' || strftime(epoch_ms(t.to_ms), '%Y-%m-%dT%H:%MZ') END
            || ': ' || t.lost
    END AS message,
    -- no fix if the metric was there later
    CASE WHEN t.how <> 'until then' AND code <> 'activity_invalid' THEN t.fix END AS fix
FROM stretches AS t
LEFT JOIN spoiled AS p ON p.cluster = t.cluster AND p.metric = lower(t.metric)
WHERE t.from_ms < t.to_ms AND (t.kind <> 'team_labels' OR t.how = 'bare');
