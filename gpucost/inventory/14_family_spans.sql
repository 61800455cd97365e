-- reads: state_intervals, series, blocks, loads
-- writes: family_spans, per (cluster, family) the spans with samples: 'state' is anything from kube-state-metrics or Slurm, the others are 'nodes', 'pods', 'requests', 'phases'
-- invariant: spans of one family are further apart than 10 minutes (or 2.5 scrape intervals, if longer); begin_ms <= first_ms <= last_ms <= end_ms
CREATE OR REPLACE TEMP TABLE family_spans AS
WITH samples AS (
    SELECT cluster, begin_ms, first_ms, last_ms, end_ms, unnest(['state', CASE
        WHEN metric = 'kube_family_samples' THEN labels['family']
        WHEN starts_with(metric, 'kube_node_') THEN 'nodes'
        WHEN metric = 'kube_pod_info' THEN 'pods'
        WHEN metric = 'kube_pod_status_phase' THEN 'phases'
        WHEN metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' THEN 'requests' END]) AS family
    FROM state_intervals
    -- metrics of kube-state-metrics about itself come from another port
    WHERE starts_with(metric, 'kube_') AND NOT starts_with(metric, 'kube_state_metrics_')
    UNION ALL
    -- an answer of Slurm's accounting covers its whole window
    SELECT source, from_ms, from_ms, to_ms, to_ms, 'state' FROM loads WHERE kind = 'slurm'
    UNION ALL
    -- activity alone does not show holders of GPUs: it counts only if it is the only collected data
    SELECT s.cluster, b.hour::BIGINT * 3600000 + b.first_offset_ms - coalesce(b.gap_ms, 60000),
        b.hour::BIGINT * 3600000 + b.first_offset_ms, b.hour::BIGINT * 3600000 + b.last_offset_ms,
        b.hour::BIGINT * 3600000 + b.last_offset_ms + coalesce(b.gap_ms, 60000), 'state'
    FROM blocks AS b JOIN series AS s USING (series_id)
    WHERE s.cluster NOT IN (
        SELECT cluster FROM state_intervals WHERE starts_with(metric, 'kube_') UNION ALL SELECT source FROM loads WHERE kind = 'slurm')
),
runs AS (
    -- series of one target are scraped together: most of their runs are equal
    SELECT DISTINCT * FROM samples WHERE family IS NOT NULL
),
marked AS (
    SELECT *, coalesce(first_ms > max(last_ms + greatest(600000, 2.5 * (end_ms - last_ms))) OVER (
        PARTITION BY cluster, family ORDER BY first_ms, last_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS begins
    FROM runs
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY cluster, family ORDER BY first_ms, last_ms) AS number FROM marked
)
SELECT cluster, family, min(begin_ms) AS begin_ms, min(first_ms) AS first_ms, max(last_ms) AS last_ms, max(end_ms) AS end_ms
FROM numbered
GROUP BY cluster, family, number;
