-- reads: family_spans, facts, device_series
-- writes: family_gaps, when kube-state-metrics was heard, but told nothing of nodes, pods, requests or phases though there were some
-- invariant: from_ms < to_ms; that there were some is proven: the same object stands at both ends, or another metric tells of one within
CREATE OR REPLACE TEMP TABLE family_gaps AS
WITH gpu_pods AS (
    SELECT DISTINCT cluster, uid FROM facts
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND is_accelerator(resource) AND uid IS NOT NULL
),
ends AS (
    SELECT cluster, max(end_ms) AS end_ms FROM family_spans WHERE family = 'state' GROUP BY cluster
),
silences AS (
    SELECT s.cluster, s.family, s.end_ms AS from_ms, coalesce(lead(s.first_ms) OVER w, e.end_ms) AS to_ms, lead(s.first_ms) OVER w IS NOT NULL AS ends
    FROM family_spans AS s JOIN ends AS e USING (cluster)
    WHERE s.family <> 'state'
    WINDOW w AS (PARTITION BY s.cluster, s.family ORDER BY s.first_ms)
),
gaps AS MATERIALIZED (
    FROM silences WHERE to_ms - from_ms > 600000
),
-- most fleets have none, and then nothing is looked for
pod_runs AS MATERIALIZED (
    SELECT f.cluster, f.uid, f.namespace, f.pod, f.first_ms, f.last_ms,
        CASE f.metric WHEN 'kube_pod_info' THEN 'pods' WHEN 'kube_pod_status_phase' THEN 'phases' ELSE 'requests' END AS family,
        f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AS is_bound
    FROM facts AS f SEMI JOIN gpu_pods AS g ON g.cluster = f.cluster AND g.uid = f.uid
    WHERE f.metric SIMILAR TO 'kube_pod_(info|status_phase|(init_)?container_resource_(requests|limits))'
        AND f.cluster IN (SELECT cluster FROM gaps)
),
objects AS (
    SELECT cluster, family, uid AS object, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM pod_runs GROUP BY ALL
    UNION ALL
    SELECT cluster, 'nodes', node || ' ' || coalesce(nullif(labels['provider_id'], ''), nullif(labels['system_uuid'], ''), value::VARCHAR),
        min(first_ms), max(last_ms)
    FROM facts
    WHERE metric IN ('kube_node_info', 'kube_node_created') AND cluster IN (SELECT cluster FROM gaps)
    GROUP BY ALL
),
witnesses AS (
    SELECT r.cluster, f.family, r.first_ms, r.last_ms
    FROM pod_runs AS r JOIN (VALUES ('pods'), ('requests'), ('phases')) AS f (family) ON f.family <> r.family
    UNION ALL
    SELECT cluster, 'nodes', first_ms, last_ms FROM pod_runs WHERE is_bound
    UNION ALL
    SELECT d.cluster, unnest(['pods', 'requests']), d.first_ms, d.last_ms
    FROM device_series AS d SEMI JOIN pod_runs AS r ON r.cluster = d.cluster AND r.namespace = d.namespace AND r.pod = d.pod
)
SELECT DISTINCT g.cluster, g.family, g.from_ms, g.to_ms
FROM gaps AS g
WHERE EXISTS (FROM objects AS o WHERE g.ends AND o.cluster = g.cluster AND o.family = g.family AND o.first_ms < g.from_ms AND g.to_ms <= o.last_ms)
    OR EXISTS (
        FROM witnesses AS w
        WHERE w.cluster = g.cluster AND w.family = g.family
            AND greatest(w.first_ms, g.from_ms + 600000) < least(w.last_ms, g.to_ms - CASE WHEN g.ends THEN 600000 ELSE 0 END));
