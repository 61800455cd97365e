-- reads: family_spans, state_intervals, claim_pods, device_series, blocks, settings
-- writes: family_gaps, when kube-state-metrics was heard, but told nothing of nodes, pods, requests or phases though there were some
-- invariant: from_ms < to_ms; that there were some is proven: the same object stands at both ends, another metric tells of one within, or a pod was bound long before it was seen
CREATE OR REPLACE TEMP TABLE family_gaps AS
WITH gpu_pods AS (
    SELECT DISTINCT cluster, uid FROM state_intervals
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND is_accelerator(resource) AND uid IS NOT NULL
),
ends AS (
    SELECT cluster, min(begin_ms) AS begin_ms, min(first_ms) AS first_ms, max(end_ms) AS end_ms
    FROM family_spans
    WHERE family = 'state'
    GROUP BY cluster
),
silences AS (
    SELECT s.cluster, s.family, s.end_ms AS from_ms, coalesce(lead(s.first_ms) OVER w, e.end_ms) AS to_ms,
        lead(s.first_ms) OVER w IS NOT NULL AS ends
    FROM family_spans AS s JOIN ends AS e USING (cluster)
    WHERE s.family <> 'state'
    WINDOW w AS (PARTITION BY s.cluster, s.family ORDER BY s.first_ms)
    UNION ALL
    -- a family that begins late: as what lies before the cluster's first sample, which nobody stands on the other side of either
    SELECT s.cluster, s.family, greatest(e.begin_ms, e.first_ms // 3600000 * 3600000), min(s.first_ms), true
    FROM family_spans AS s JOIN ends AS e USING (cluster)
    WHERE s.family IN ('pods', 'requests')
    GROUP BY s.cluster, s.family, e.begin_ms, e.first_ms
    HAVING min(s.first_ms) - e.first_ms > greatest(600000, 2.5 * (e.first_ms - e.begin_ms))
),
gaps AS MATERIALIZED (
    FROM silences WHERE to_ms - from_ms > 600000
),
-- most fleets have none, and then nothing is looked for
pod_runs AS MATERIALIZED (
    SELECT f.cluster, f.uid, f.namespace, f.pod, f.begin_ms, f.first_ms, f.last_ms,
        CASE f.metric WHEN 'kube_pod_info' THEN 'pods' WHEN 'kube_pod_status_phase' THEN 'phases' ELSE 'requests' END AS family,
        f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AS is_bound
    FROM state_intervals AS f SEMI JOIN gpu_pods AS g ON g.cluster = f.cluster AND g.uid = f.uid
    WHERE f.metric SIMILAR TO 'kube_pod_(info|status_phase|(init_)?container_resource_(requests|limits))'
        AND f.cluster IN (SELECT cluster FROM gaps)
),
objects AS (
    SELECT cluster, family, uid AS object, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM pod_runs GROUP BY ALL
    UNION ALL
    SELECT cluster, 'nodes', node || ' ' || coalesce(nullif(labels['provider_id'], ''), nullif(labels['system_uuid'], ''), value::VARCHAR),
        min(first_ms), max(last_ms)
    FROM state_intervals
    WHERE metric IN ('kube_node_info', 'kube_node_created') AND cluster IN (SELECT cluster FROM gaps)
    GROUP BY ALL
),
-- without a request they hold GPUs all the same: by a claim, or a part of one
others AS (
    SELECT cluster, uid FROM gpu_pods
    UNION ALL
    SELECT cluster, uid FROM claim_pods
    UNION ALL
    SELECT cluster, uid FROM state_intervals
    WHERE metric SIMILAR TO 'kube_pod_(annotations|(init_)?container_resource_(requests|limits))' AND cluster IN (SELECT cluster FROM gaps)
),
-- pods that never asked for what a GPU that worked was given to; an exporter's own are of a DaemonSet, or are named on many hosts
strangers AS MATERIALIZED (
    SELECT f.cluster, f.namespace, f.pod, f.first_ms, f.end_ms
    FROM state_intervals AS f ANTI JOIN others AS o ON o.cluster = f.cluster AND o.uid = f.uid
    WHERE f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AND f.labels['created_by_kind'] NOT IN ('DaemonSet', 'Node')
        AND f.cluster IN (SELECT cluster FROM gaps WHERE family = 'requests')
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
-- the hours of the gaps in which an exporter names a GPU pod
exporting AS (
    SELECT d.cluster, b.hour::BIGINT * 3600000 AS hour_ms, b.first_offset_ms, b.last_offset_ms, b.offsets_ms, b.step_ms
    FROM device_series AS d
    SEMI JOIN pod_runs AS r ON r.cluster = d.cluster AND r.namespace = d.namespace AND r.pod = d.pod
    JOIN blocks AS b USING (series_id)
    SEMI JOIN gaps AS g ON g.cluster = d.cluster AND g.from_ms < (b.hour::BIGINT + 1) * 3600000 AND b.hour::BIGINT * 3600000 < g.to_ms
),
-- a series proves something only while it has samples: not in the pause of a pod that comes back under its name
exported AS (
    SELECT cluster, hour_ms + first_offset_ms AS first_ms, hour_ms + last_offset_ms AS last_ms
    FROM exporting
    WHERE offsets_ms IS NULL AND coalesce(step_ms, 0) <= 600000
    UNION ALL
    SELECT cluster, hour_ms + offset_ms, hour_ms + next_ms
    FROM (SELECT cluster, hour_ms, unnest(offsets_ms) AS offset_ms, unnest(offsets_ms[2:]) AS next_ms FROM exporting)
    WHERE next_ms - offset_ms <= 600000
),
witnesses AS (
    SELECT r.cluster, f.family, r.first_ms, r.last_ms
    FROM pod_runs AS r JOIN (VALUES ('pods'), ('requests'), ('phases')) AS f (family) ON f.family <> r.family
    UNION ALL
    SELECT cluster, 'nodes', first_ms, last_ms FROM pod_runs WHERE is_bound
    UNION ALL
    SELECT cluster, unnest(['pods', 'requests']), first_ms, last_ms FROM exported
    UNION ALL
    SELECT w.cluster, 'requests', w.first_ms, w.last_ms
    FROM working AS w
    JOIN strangers AS s ON s.cluster = w.cluster AND s.namespace = w.namespace AND s.pod = w.pod AND s.first_ms <= w.last_ms AND w.first_ms < s.end_ms
),
-- while kube-state-metrics was silent itself, others prove nothing of a family
heard AS MATERIALIZED (
    SELECT g.cluster, g.family, g.from_ms, greatest(g.from_ms, s.first_ms) + 600000 AS first_ms,
        least(g.to_ms - CASE WHEN g.ends THEN 600000 ELSE 0 END, s.last_ms) AS last_ms
    FROM gaps AS g JOIN family_spans AS s ON s.cluster = g.cluster AND s.family = 'state' AND s.first_ms < g.to_ms AND g.from_ms < s.last_ms
    WHERE greatest(g.from_ms, s.first_ms) + 600000 < least(g.to_ms - CASE WHEN g.ends THEN 600000 ELSE 0 END, s.last_ms)
),
-- from when on pods were bound that were first seen long after
unseen AS (
    SELECT p.cluster, (min(f.value) * 1000)::BIGINT AS from_ms, p.to_ms
    FROM (SELECT cluster, uid, min(begin_ms) AS to_ms FROM pod_runs GROUP BY ALL) AS p
    JOIN state_intervals AS f ON f.cluster = p.cluster AND f.uid = p.uid AND f.metric IN ('kube_pod_status_scheduled_time', 'kube_pod_start_time')
    GROUP BY p.cluster, p.uid, p.to_ms
)
SELECT DISTINCT g.cluster, g.family, g.from_ms, g.to_ms
FROM gaps AS g
WHERE EXISTS (FROM objects AS o WHERE g.ends AND o.cluster = g.cluster AND o.family = g.family AND o.first_ms < g.from_ms AND g.to_ms <= o.last_ms)
    OR EXISTS (
        FROM heard AS h JOIN witnesses AS w ON w.cluster = h.cluster AND w.family = h.family AND w.first_ms < w.last_ms
            AND w.first_ms < h.last_ms AND h.first_ms < w.last_ms
        WHERE h.cluster = g.cluster AND h.family = g.family AND h.from_ms = g.from_ms)
UNION ALL
SELECT g.cluster, g.family, min(greatest(g.from_ms, u.from_ms)), g.to_ms
FROM gaps AS g JOIN unseen AS u ON u.cluster = g.cluster AND greatest(g.from_ms, u.from_ms) + 600000 < least(g.to_ms, u.to_ms)
WHERE g.family IN ('pods', 'requests')
GROUP BY g.cluster, g.family, g.to_ms;
