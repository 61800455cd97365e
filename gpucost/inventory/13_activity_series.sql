-- reads: series, blocks, activity_metrics, gpu_aliases, gpu_models
-- writes: named_series, scale_targets, undecided_targets, listed_targets, agreed_targets, activity_series, one row per series of a metric that counts: its device, pod, target, and factor to percent (of memory: to MiB, of power: to watts, of energy: to joules, of throttling: to seconds), null if the unit is not proven; scale_remarks, warnings about these factors
-- invariant: first_ms <= last_ms < end_ms; host and node_label are '' if the exporter names none; one target's series of one metric have one scale, settled over all loaded data
CREATE OR REPLACE TEMP TABLE named_series AS
WITH spans AS (
    SELECT
        series_id,
        -- the scrape interval of the last hour that shows one: a sample stays valid that long after the last one
        coalesce(arg_max(gap_ms, hour) FILTER (samples >= 3), max(gap_ms), 60000) AS gap_ms,
        min(hour::BIGINT * 3600000 + first_offset_ms) AS first_ms,
        max(hour::BIGINT * 3600000 + last_offset_ms) AS last_ms,
        -- no average exceeds the maximum
        max(greatest(value_sum / samples, last_value)) AS high, bool_and(value_sum = floor(value_sum)) AS is_whole
    FROM blocks
    GROUP BY series_id
),
found AS (
    SELECT *, CASE WHEN coalesce(labels['GPU_I_ID'], '') = '' THEN 'device' ELSE 'mig' END AS place FROM series
),
-- nvidia_gpu_exporter reports the model in a metric of its own
infos AS (
    SELECT source, cluster, labels['uuid'] AS uuid, labels['instance'] AS instance, max(labels['name']) AS name
    FROM series WHERE metric = 'nvidia_smi_gpu_info' GROUP BY ALL
)
SELECT
    s.series_id, s.cluster, s.metric, m.part, m.measures, m.unit, m.scale AS usual_scale, m.is_set,
    list_filter(list_transform(m.device, lambda name: s.labels[name]), lambda value: value <> '')[1] AS device_name,
    coalesce(s.labels['GPU_I_ID'], '') AS gpu_instance_id,
    nullif(s.labels['GPU_I_PROFILE'], '') AS profile,
    coalesce(s.labels['Hostname'], s.labels['hostname'], s.labels['node'], s.labels['kubernetes_node'], s.labels['node_name'],
        s.labels[m.host], regexp_replace(s.labels['instance'], ':[0-9]+$', ''), '') AS host,
    -- nvidia_gpu_exporter omits 'GPU-'; a number is the index of a device on its host
    CASE WHEN regexp_matches(device_name, '^(GPU|MIG)-') THEN device_name WHEN regexp_matches(device_name, '^[0-9a-f]{8}-') THEN 'GPU-' || device_name
        ELSE host || '/' || device_name END AS uuid,
    coalesce(s.labels['node'], s.labels['kubernetes_node'], s.labels['node_name'], s.labels['exported_node'], '') AS node_label,
    coalesce(list_filter(list_transform(m.model, lambda name: s.labels[name]), lambda value: value <> '')[1], i.name) AS model_name,
    -- a Slurm job is identified by its number, without a namespace
    CASE WHEN nullif(s.labels['hpc_job'], '') IS NOT NULL THEN ''
        ELSE nullif(coalesce(s.labels['exported_namespace'], s.labels['pod_namespace'], s.labels['namespace']), '') END AS namespace,
    coalesce(nullif(s.labels['hpc_job'], ''), nullif(coalesce(s.labels['exported_pod'], s.labels['pod_name'], s.labels['pod']), '')) AS pod,
    s.labels['dra_claim_name'] IS NOT NULL AS by_claim,
    hash(s.source, s.cluster, s.labels['job']) AS job_id,
    -- series of one target are scraped together; an aggregator in between may give all targets one instance
    hash(s.source, s.cluster, s.labels['job'], s.labels['instance'], host) AS target_id,
    p.first_ms, p.last_ms, p.last_ms + p.gap_ms AS end_ms, p.high, p.is_whole
FROM spans AS p
JOIN found AS s USING (series_id)
JOIN activity_metrics AS m ON m.metric = lower(s.metric) AND (m.part IN (s.place, 'memory', 'profile') OR (m.part = 'compared' AND s.place = 'device'))
LEFT JOIN infos AS i ON i.source = s.source AND i.cluster = s.cluster AND i.uuid = s.labels['uuid'] AND i.instance = s.labels['instance'];

CREATE OR REPLACE TEMP TABLE scale_targets AS
SELECT metric, target_id, part, any_value(usual_scale) AS usual_scale, any_value(is_set) AS is_set, max(high) AS high,
    bool_and(is_whole) AS is_whole
FROM named_series
WHERE measures NOT IN ('memory_used', 'power', 'energy', 'thermal_throttle', 'power_throttle')
GROUP BY ALL;

-- a 0-to-1 metric has its usual scale, unless all its values may be whole percents
CREATE OR REPLACE TEMP VIEW undecided_targets AS
FROM scale_targets WHERE NOT is_set AND high > 0 AND high <= 1.01 AND (usual_scale < 100 OR is_whole);

-- only with: undecided_targets
-- otherwise: listed_targets (metric VARCHAR, target_id UBIGINT, part VARCHAR, high DOUBLE, has_parts BOOLEAN)
CREATE OR REPLACE TEMP TABLE listed_targets AS
SELECT u.metric, u.target_id, u.part, max(list_max(b.vals)) AS high,
    bool_or(CASE WHEN u.is_whole THEN len(list_filter(b.vals, lambda value: value <> floor(value))) > 0 ELSE true END) AS has_parts
FROM undecided_targets AS u
JOIN named_series AS n USING (metric, target_id, part)
JOIN blocks AS b USING (series_id)
WHERE b.value_sum > 0 AND b.vals IS NOT NULL
GROUP BY ALL;

-- only with: listed_targets
-- otherwise: agreed_targets (metric VARCHAR, target_id UBIGINT, part_of DOUBLE, of_tdp DOUBLE)
CREATE OR REPLACE TEMP TABLE agreed_targets AS
-- averages of an idle GPU's percents are between 0 and 1, too: compare with other metrics at the same moments
WITH doubtful AS MATERIALIZED (
    SELECT l.metric, l.target_id
    FROM listed_targets AS l JOIN scale_targets AS t USING (metric, target_id, part)
    WHERE part = 'device' AND t.usual_scale < 100 AND l.high <= 1.01 AND l.has_parts
),
-- the busiest hours of a target that another metric covers, too
chosen AS MATERIALIZED (
    SELECT d.metric, d.target_id, d.series_id, d.model_name, b.hour, c.series_id AS other_id, c.measures, t.high
    FROM doubtful AS u
    JOIN named_series AS d USING (metric, target_id)
    JOIN named_series AS c ON c.part = 'compared' AND c.cluster = d.cluster AND c.uuid = d.uuid
    LEFT JOIN scale_targets AS t ON t.metric = c.metric AND t.target_id = c.target_id AND t.part = c.part
    JOIN blocks AS b ON b.series_id = d.series_id AND b.value_sum > 0
    SEMI JOIN blocks AS o ON o.series_id = c.series_id AND o.hour = b.hour
    QUALIFY row_number() OVER (PARTITION BY d.metric, d.target_id, c.measures ORDER BY b.value_sum DESC, d.uuid, b.hour) <= 50
),
lists AS MATERIALIZED (
    FROM blocks SEMI JOIN (SELECT series_id, hour FROM chosen UNION SELECT other_id, hour FROM chosen) AS k USING (series_id, hour)
),
moments AS MATERIALIZED (
    SELECT *, hash(series_id, hour, offset_ms) AS moment
    FROM (SELECT series_id, hour, unnest(sample_offsets(offsets_ms, samples, first_offset_ms, step_ms)) AS offset_ms,
            unnest(vals) AS value
        FROM lists)
)
-- the unit of the other metric follows from its highest value
SELECT k.metric, k.target_id,
    sum(c.value / CASE WHEN k.high > 1.01 THEN 100 ELSE 1 END) FILTER (k.measures <> 'power') / sum(d.value) FILTER (k.measures <> 'power') AS part_of,
    avg(c.value / g.tdp_watts) FILTER (k.measures = 'power' AND d.value >= 0.5) AS of_tdp
FROM chosen AS k
JOIN moments AS d USING (series_id, hour)
-- one key for both: by hour and offset alone, moments of all devices would match
JOIN moments AS c ON c.moment = hash(k.other_id, k.hour, d.offset_ms)
LEFT JOIN gpu_aliases AS a ON a.alias = model_spelling(k.model_name)
LEFT JOIN gpu_models AS g USING (gpu_model)
WHERE d.value > 0
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE activity_series AS
SELECT n.* EXCLUDE (device_name, high, is_whole, is_set),
    CASE
        WHEN n.measures IN ('memory_used', 'power', 'energy', 'thermal_throttle', 'power_throttle') THEN n.usual_scale
        WHEN t.is_set THEN t.usual_scale
        WHEN t.high > 1.01 OR l.high > 1.01 THEN 1
        WHEN t.usual_scale >= 100 OR l.has_parts IS NOT TRUE THEN t.usual_scale
        -- the engine is busy for at least a tenth of the GPU's busy time; percents would give about a hundredth
        WHEN a.part_of >= 0.1 OR (a.part_of IS NULL AND a.of_tdp >= 0.4) THEN 100
        WHEN (a.part_of > 0 AND a.part_of <= 0.03) OR (a.part_of IS NULL AND a.of_tdp <= 0.25) THEN 1
    END AS scale
FROM named_series AS n
LEFT JOIN scale_targets AS t USING (metric, target_id, part)
LEFT JOIN listed_targets AS l USING (metric, target_id, part)
LEFT JOIN agreed_targets AS a USING (metric, target_id)
WHERE n.uuid IS NOT NULL;

CREATE OR REPLACE TEMP TABLE scale_remarks AS
SELECT CASE WHEN scale IS NULL THEN 'activity_scale_unknown' ELSE 'activity_scale' END AS code, cluster, metric AS subject,
    min(first_ms) AS from_ms, max(end_ms) AS to_ms,
    'cluster ' || cluster || ': ' || metric || ' of ' || count(DISTINCT uuid) || ' GPU(s), on ' || min(host)
        || CASE count(DISTINCT host) WHEN 1 THEN '' ELSE ' and ' || (count(DISTINCT host) - 1) || ' more' END
        || CASE
            WHEN scale IS NULL THEN ' has values from 0 to 1 that may be ratios or percentages, so this time is unmeasured'
            WHEN scale < usual_scale THEN ' holds percentages under the name of a ratio: read as percentages'
            ELSE ' holds ratios from 0 to 1 under the name of a percentage: read as ratios' END AS message,
    CASE WHEN scale IS NULL THEN '[activity] ' || part || '_scale = 100 for a ratio, 1 for a percentage' END AS fix
FROM activity_series
WHERE scale IS DISTINCT FROM usual_scale AND part IN ('device', 'mig')
GROUP BY cluster, metric, part, scale, usual_scale;
