-- reads: series, blocks, settings
-- writes: device_series, one row per activity series: the device it measures, the pod it names, and the target that it was scraped from
-- invariant: first_ms <= last_ms < end_ms; host and node_label are '' where the exporter names none
CREATE OR REPLACE TEMP TABLE device_series AS
WITH spans AS (
    SELECT
        series_id,
        -- how it was scraped in the last hour that says so: it speaks for that long after its last sample
        coalesce(arg_max(gap_ms, hour) FILTER (samples >= 3), max(gap_ms), 60000) AS gap_ms,
        min(hour::BIGINT * 3600000 + first_offset_ms) AS first_ms,
        max(hour::BIGINT * 3600000 + last_offset_ms) AS last_ms
    FROM blocks
    GROUP BY series_id
),
-- nvidia_gpu_exporter tells the model in a metric of its own
infos AS (
    SELECT source, cluster, labels['uuid'] AS uuid, labels['instance'] AS instance, max(labels['name']) AS name
    FROM series WHERE metric = 'nvidia_smi_gpu_info' GROUP BY ALL
),
named AS (
    SELECT
        s.series_id, s.cluster,
        -- nvidia_gpu_exporter leaves 'GPU-' out
        regexp_replace(coalesce(s.labels['UUID'], s.labels['uuid']), '^[0-9a-f]{8}-', 'GPU-\0') AS uuid,
        coalesce(s.labels['GPU_I_ID'], '') AS gpu_instance_id,
        nullif(s.labels['GPU_I_PROFILE'], '') AS profile,
        lower(s.metric) AS metric,
        coalesce(s.labels['Hostname'], s.labels['hostname'], s.labels['node'], s.labels['kubernetes_node'],
            s.labels['node_name'], regexp_replace(s.labels['instance'], ':[0-9]+$', ''), '') AS host,
        coalesce(s.labels['node'], s.labels['kubernetes_node'], s.labels['node_name'], s.labels['exported_node'], '') AS node_label,
        coalesce(nullif(s.labels['modelName'], ''), nullif(s.labels['model_name'], ''), i.name) AS model_name,
        -- a job of Slurm is known by its number, in no namespace
        CASE WHEN nullif(s.labels['hpc_job'], '') IS NOT NULL THEN ''
            ELSE nullif(coalesce(s.labels['exported_namespace'], s.labels['pod_namespace'], s.labels['namespace']), '') END AS namespace,
        coalesce(nullif(s.labels['hpc_job'], ''), nullif(coalesce(s.labels['exported_pod'], s.labels['pod_name'], s.labels['pod']), '')) AS pod,
        s.labels['dra_claim_name'] IS NOT NULL AS by_claim,
        hash(s.source, s.cluster, s.labels['job']) AS job_id,
        -- what one target tells is scraped at once; an aggregator in between may give all of them one instance
        hash(s.source, s.cluster, s.labels['job'], s.labels['instance'], host) AS target_id,
        p.first_ms, p.last_ms, p.last_ms + p.gap_ms AS end_ms
    FROM spans AS p JOIN series AS s USING (series_id)
    LEFT JOIN infos AS i ON i.source = s.source AND i.cluster = s.cluster AND i.uuid = s.labels['uuid'] AND i.instance = s.labels['instance']
)
SELECT n.* EXCLUDE (metric)
FROM named AS n
CROSS JOIN settings AS c
WHERE n.uuid IS NOT NULL
    AND CASE WHEN n.gpu_instance_id = ''
        THEN n.metric = lower(c.device_metric)
        ELSE n.metric = lower(c.mig_metric) END;
