-- reads: series, blocks, settings
-- writes: device_series, one row per activity series: the device it measures, the pod it names, and how it was scraped
-- invariant: first_ms <= last_ms; interval_ms > 0; host and node_label are '' where the exporter names none
CREATE OR REPLACE TEMP TABLE device_series AS
WITH spans AS (
    SELECT
        series_id,
        sum(samples) AS samples,
        quantile_disc(gap_ms, 0.5) AS gap_ms,
        min(hour::BIGINT * 3600000 + first_offset_ms) AS first_ms,
        max(hour::BIGINT * 3600000 + last_offset_ms) AS last_ms
    FROM blocks
    GROUP BY series_id
),
named AS (
    SELECT
        s.series_id, s.source, s.cluster, s.labels,
        coalesce(s.labels['UUID'], s.labels['uuid']) AS uuid,
        coalesce(s.labels['GPU_I_ID'], '') AS gpu_instance_id,
        nullif(s.labels['GPU_I_PROFILE'], '') AS profile,
        lower(s.metric) AS metric,
        coalesce(s.labels['Hostname'], s.labels['hostname'], s.labels['node'], s.labels['kubernetes_node'],
            s.labels['node_name'], regexp_replace(s.labels['instance'], ':[0-9]+$', ''), '') AS host,
        coalesce(s.labels['node'], s.labels['kubernetes_node'], s.labels['node_name'], s.labels['exported_node'], '') AS node_label,
        coalesce(nullif(s.labels['modelName'], ''), nullif(s.labels['model_name'], '')) AS model_name,
        nullif(coalesce(s.labels['exported_namespace'], s.labels['pod_namespace'], s.labels['namespace']), '') AS namespace,
        nullif(coalesce(s.labels['exported_pod'], s.labels['pod_name'], s.labels['pod']), '') AS pod,
        s.labels['dra_claim_name'] IS NOT NULL AS by_claim,
        p.samples, p.gap_ms, p.first_ms, p.last_ms
    FROM spans AS p JOIN series AS s USING (series_id)
),
jobs AS (
    -- a series of fewer than three samples takes the interval of its scrape job
    SELECT source, cluster, coalesce(labels['job'], '') AS job, quantile_disc(gap_ms, 0.5) AS gap_ms
    FROM named
    WHERE samples >= 3 AND gap_ms > 0
    GROUP BY ALL
),
targets AS (
    -- what one target tells is scraped at once: a series with longer gaps than the others lost samples that made no sense
    SELECT source, cluster, coalesce(labels['job'], '') AS job, coalesce(labels['instance'], '') AS instance,
        quantile_disc(gap_ms, 0.5) AS gap_ms
    FROM named
    WHERE samples >= 3 AND gap_ms > 0
    GROUP BY ALL
)
SELECT
    n.series_id, n.cluster, n.uuid, n.gpu_instance_id, n.profile, n.host, n.node_label, n.model_name, n.namespace, n.pod,
    n.by_claim, n.first_ms, n.last_ms,
    coalesce(CASE WHEN n.samples >= 3 AND n.gap_ms > 0 THEN least(n.gap_ms, t.gap_ms) END, j.gap_ms, n.gap_ms, 60000)::BIGINT AS interval_ms
FROM named AS n
CROSS JOIN settings AS c
LEFT JOIN jobs AS j ON j.source = n.source AND j.cluster = n.cluster AND j.job = coalesce(n.labels['job'], '')
LEFT JOIN targets AS t
    ON t.source = n.source AND t.cluster = n.cluster AND t.job = coalesce(n.labels['job'], '') AND t.instance = coalesce(n.labels['instance'], '')
WHERE n.uuid IS NOT NULL
    AND CASE WHEN n.gpu_instance_id = ''
        THEN n.metric = lower(c.device_metric)
        ELSE n.metric = lower(c.mig_metric) END;
