-- reads: family_spans, state_intervals, claim_pods, device_series, blocks, settings
-- writes: family_gaps, time in which kube-state-metrics was up but reported no nodes, pods, requests or phases, although some existed; gpu_pods, the pods that request GPUs; family_ends, the first and last sample of a cluster; family_silences, time without samples of a family; exporter_silences, the series that name pods of a namespace without samples of its pods, and when
-- invariant: from_ms < to_ms; their existence is proven: the same object is at both ends, another metric reports one within, objects that are not collected had samples up to the gap, or a pod was bound long before its first sample
CREATE OR REPLACE TEMP TABLE gpu_pods AS
SELECT DISTINCT cluster, uid, namespace, pod FROM state_intervals
WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND is_accelerator(resource) AND uid IS NOT NULL;

CREATE OR REPLACE TEMP VIEW family_ends AS
SELECT cluster, min(begin_ms) AS begin_ms, min(first_ms) AS first_ms, max(end_ms) AS end_ms FROM family_spans WHERE family = 'state' GROUP BY cluster;

CREATE OR REPLACE TEMP TABLE family_silences AS
WITH silences AS (
    SELECT s.cluster, s.family, s.end_ms AS from_ms, coalesce(lead(s.first_ms) OVER w, e.end_ms) AS to_ms,
        lead(s.first_ms) OVER w IS NOT NULL AS ends
    FROM family_spans AS s JOIN family_ends AS e USING (cluster)
    WHERE s.family <> 'state'
    WINDOW w AS (PARTITION BY s.cluster, s.family ORDER BY s.first_ms)
    UNION ALL
    -- a family that begins late; like the time before the cluster's first sample, it has no samples on the other side
    SELECT s.cluster, s.family, greatest(e.begin_ms, e.first_ms // 3600000 * 3600000), min(s.first_ms), true
    FROM family_spans AS s JOIN family_ends AS e USING (cluster)
    WHERE s.family IN ('pods', 'requests')
    GROUP BY s.cluster, s.family, e.begin_ms, e.first_ms
    HAVING min(s.first_ms) - e.first_ms > greatest(600000, 2.5 * (e.first_ms - e.begin_ms))
)
FROM silences WHERE to_ms - from_ms > 600000;

-- the exporter's own pod holds no GPU
CREATE OR REPLACE TEMP TABLE exporter_silences AS
WITH gpu_namespaces AS (
    SELECT DISTINCT cluster, namespace FROM gpu_pods
),
namespace_order AS (
    SELECT cluster, namespace, first_ms AS to_ms,
        max(end_ms) OVER (PARTITION BY cluster, namespace ORDER BY first_ms, end_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS from_ms
    FROM (
        SELECT cluster, namespace, first_ms, end_ms FROM state_intervals WHERE metric = 'kube_pod_info'
        UNION ALL
        SELECT g.cluster, g.namespace, e.end_ms, e.end_ms FROM gpu_namespaces AS g JOIN family_ends AS e USING (cluster)
        UNION ALL
        SELECT g.cluster, g.namespace, e.first_ms, e.first_ms FROM gpu_namespaces AS g JOIN family_ends AS e USING (cluster)
    )
    SEMI JOIN gpu_namespaces USING (cluster, namespace)
)
SELECT d.series_id, d.cluster, n.from_ms, n.to_ms
FROM device_series AS d
JOIN namespace_order AS n ON n.cluster = d.cluster AND n.namespace = d.namespace AND n.to_ms - n.from_ms > 1200000
    AND d.first_ms < n.to_ms - 600000 AND n.from_ms + 600000 < d.last_ms
WHERE (d.cluster, d.namespace, d.pod) IN (SELECT (cluster, namespace, pod) FROM gpu_pods)
    OR (d.cluster, d.namespace, d.pod) NOT IN (SELECT (cluster, namespace, pod) FROM state_intervals WHERE metric = 'kube_pod_info');

-- only with: family_silences, exporter_silences
-- otherwise: family_gaps (cluster VARCHAR, family VARCHAR, from_ms BIGINT, to_ms BIGINT)
CREATE OR REPLACE TEMP TABLE family_gaps AS
WITH pod_runs AS MATERIALIZED (
    SELECT f.cluster, f.uid, f.namespace, f.pod, f.begin_ms, f.first_ms, f.last_ms,
        CASE f.metric WHEN 'kube_pod_info' THEN 'pods' WHEN 'kube_pod_status_phase' THEN 'phases' ELSE 'requests' END AS family,
        f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AS is_bound
    FROM state_intervals AS f SEMI JOIN gpu_pods AS g ON g.cluster = f.cluster AND g.uid = f.uid
    WHERE f.metric SIMILAR TO 'kube_pod_(info|status_phase|(init_)?container_resource_(requests|limits))'
        AND f.cluster IN (SELECT cluster FROM family_silences)
),
objects AS (
    SELECT cluster, family, uid AS object, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM pod_runs GROUP BY ALL
    UNION ALL
    SELECT cluster, 'nodes', node || ' ' || coalesce(nullif(labels['provider_id'], ''), nullif(labels['system_uuid'], ''), value::VARCHAR),
        min(first_ms), max(last_ms)
    FROM state_intervals
    WHERE metric IN ('kube_node_info', 'kube_node_created') AND cluster IN (SELECT cluster FROM family_silences)
    GROUP BY ALL
),
-- these pods hold GPUs without a request: by a claim, or a part of one
others AS (
    SELECT cluster, uid FROM gpu_pods
    UNION ALL
    SELECT cluster, uid FROM claim_pods
    UNION ALL
    SELECT cluster, uid FROM state_intervals
    WHERE metric SIMILAR TO 'kube_pod_(annotations|(init_)?container_resource_(requests|limits))' AND cluster IN (SELECT cluster FROM family_silences)
),
-- pods without a GPU request on a working GPU; an exporter's own pods are of a DaemonSet, or on many hosts
strangers AS MATERIALIZED (
    SELECT f.cluster, f.namespace, f.pod, f.first_ms, f.end_ms
    FROM state_intervals AS f ANTI JOIN others AS o ON o.cluster = f.cluster AND o.uid = f.uid
    WHERE f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AND f.labels['created_by_kind'] NOT IN ('DaemonSet', 'Node')
        AND f.cluster IN (SELECT cluster FROM family_silences WHERE family = 'requests')
),
named AS (
    SELECT * FROM device_series
    WHERE NOT by_claim AND (cluster, namespace, pod) IN (SELECT (cluster, namespace, pod) FROM strangers)
    QUALIFY min(host) OVER (PARTITION BY cluster, namespace, pod) = max(host) OVER (PARTITION BY cluster, namespace, pod)
),
working AS (
    SELECT n.cluster, n.namespace, n.pod,
        b.hour::BIGINT * 3600000 + b.first_offset_ms AS first_ms, b.hour::BIGINT * 3600000 + b.last_offset_ms AS last_ms
    FROM named AS n JOIN blocks AS b USING (series_id) CROSS JOIN settings AS c
    WHERE b.value_sum / b.samples >= c.threshold_percent / n.scale
),
exporting AS (
    SELECT s.cluster, s.from_ms, s.to_ms, b.hour::BIGINT * 3600000 AS hour_ms, b.first_offset_ms, b.last_offset_ms, b.offsets_ms, b.step_ms
    FROM exporter_silences AS s
    JOIN blocks AS b ON b.series_id = s.series_id AND b.hour BETWEEN s.from_ms // 3600000 AND s.to_ms // 3600000
),
-- a series is proof only while it has samples, not in the pause before a pod returns under its name
exported AS (
    SELECT cluster, hour_ms, from_ms, to_ms, first_ms, last_ms
    FROM (
        SELECT *, hour_ms + first_offset_ms AS first_ms, hour_ms + last_offset_ms AS last_ms
        FROM exporting
        WHERE offsets_ms IS NULL AND coalesce(step_ms, 0) <= 600000
        UNION ALL BY NAME
        SELECT *, hour_ms + offset_ms AS first_ms, hour_ms + next_ms AS last_ms
        FROM (SELECT *, unnest(offsets_ms) AS offset_ms, unnest(offsets_ms[2:]) AS next_ms FROM exporting)
        WHERE next_ms - offset_ms <= 600000
    )
    WHERE first_ms < to_ms - 600000 AND from_ms + 600000 < last_ms
),
-- gaps at whose edge the server has samples of uncollected objects (DaemonSets, CPU pods), which don't all end at once
dropped AS (
    SELECT DISTINCT g.cluster, g.family, g.from_ms, g.to_ms
    FROM family_silences AS g
    JOIN state_intervals AS o ON o.cluster = g.cluster AND o.metric = 'kube_family_samples' AND o.labels['family'] = g.family
        AND (o.end_ms BETWEEN g.from_ms - 600000 AND g.from_ms OR (g.ends AND o.first_ms BETWEEN g.to_ms AND g.to_ms + 600000))
),
witnesses AS (
    SELECT d.cluster, d.family, greatest(d.from_ms, n.first_ms) AS first_ms, least(d.to_ms, n.last_ms) AS last_ms
    FROM dropped AS d
    JOIN family_spans AS n ON n.cluster = d.cluster AND n.family = 'nodes' AND n.first_ms < d.to_ms AND d.from_ms < n.last_ms
    UNION ALL
    SELECT r.cluster, f.family, r.first_ms, r.last_ms
    FROM pod_runs AS r JOIN (VALUES ('pods'), ('requests'), ('phases')) AS f (family) ON f.family <> r.family
    UNION ALL
    SELECT cluster, 'nodes', first_ms, last_ms FROM pod_runs WHERE is_bound
    UNION ALL
    SELECT cluster, unnest(['pods', 'requests']), greatest(first_ms, from_ms), least(last_ms, to_ms) FROM exported
    UNION ALL
    SELECT w.cluster, 'requests', w.first_ms, w.last_ms
    FROM working AS w
    JOIN strangers AS s ON s.cluster = w.cluster AND s.namespace = w.namespace AND s.pod = w.pod AND s.first_ms <= w.last_ms AND w.first_ms < s.end_ms
),
-- while kube-state-metrics itself was down, other metrics prove nothing about a family
heard AS MATERIALIZED (
    SELECT g.cluster, g.family, g.from_ms, greatest(g.from_ms, s.first_ms) + 600000 AS first_ms,
        least(g.to_ms - CASE WHEN g.ends THEN 600000 ELSE 0 END, s.last_ms) AS last_ms
    FROM family_silences AS g JOIN family_spans AS s ON s.cluster = g.cluster AND s.family = 'state' AND s.first_ms < g.to_ms AND g.from_ms < s.last_ms
    WHERE greatest(g.from_ms, s.first_ms) + 600000 < least(g.to_ms - CASE WHEN g.ends THEN 600000 ELSE 0 END, s.last_ms)
),
-- binding times of pods whose first sample came long after
unseen AS (
    SELECT p.cluster, (min(f.value) * 1000)::BIGINT AS from_ms, p.to_ms
    FROM (SELECT cluster, uid, min(begin_ms) AS to_ms FROM pod_runs GROUP BY ALL) AS p
    JOIN state_intervals AS f ON f.cluster = p.cluster AND f.uid = p.uid AND f.metric IN ('kube_pod_status_scheduled_time', 'kube_pod_start_time')
    GROUP BY p.cluster, p.uid, p.to_ms
)
SELECT DISTINCT g.cluster, g.family, g.from_ms, g.to_ms
FROM family_silences AS g
WHERE EXISTS (FROM objects AS o WHERE g.ends AND o.cluster = g.cluster AND o.family = g.family AND o.first_ms < g.from_ms AND g.to_ms <= o.last_ms)
    OR EXISTS (
        FROM heard AS h JOIN witnesses AS w ON w.cluster = h.cluster AND w.family = h.family AND w.first_ms < w.last_ms
            AND w.first_ms < h.last_ms AND h.first_ms < w.last_ms
        WHERE h.cluster = g.cluster AND h.family = g.family AND h.from_ms = g.from_ms)
UNION ALL
SELECT g.cluster, g.family, min(greatest(g.from_ms, u.from_ms)), g.to_ms
FROM family_silences AS g JOIN unseen AS u ON u.cluster = g.cluster AND greatest(g.from_ms, u.from_ms) + 600000 < least(g.to_ms, u.to_ms)
WHERE g.family IN ('pods', 'requests')
GROUP BY g.cluster, g.family, g.to_ms
UNION ALL
-- pods of other namespaces have samples: kube-state-metrics watches only some namespaces
SELECT DISTINCT e.cluster, s.family, greatest(e.hour_ms, e.from_ms, s.first_ms), least(e.hour_ms + 3600000, e.to_ms, s.end_ms)
FROM exported AS e JOIN family_spans AS s ON s.cluster = e.cluster AND s.family = 'pods' AND s.first_ms < e.last_ms AND e.first_ms < s.last_ms
WHERE greatest(e.hour_ms, e.from_ms, s.first_ms) < least(e.hour_ms + 3600000, e.to_ms, s.end_ms);
