-- reads: device_series, device_places, facts
-- writes: device_pods, one row per activity series whose host is no known node: the node of the pod it names
-- invariant: one row per series_id; no series of device_places
CREATE OR REPLACE TEMP TABLE device_pods AS
WITH lost AS MATERIALIZED (
    SELECT series_id, cluster, namespace, pod, first_ms, last_ms FROM device_series ANTI JOIN device_places USING (series_id)
    WHERE pod IS NOT NULL
),
bound AS MATERIALIZED (
    SELECT cluster, namespace, pod, node, first_ms, last_ms, end_ms FROM facts
    WHERE metric = 'kube_pod_info' AND coalesce(node, '') <> '' AND (cluster, namespace, pod) IN (SELECT (cluster, namespace, pod) FROM lost)
)
SELECT l.series_id, l.cluster, arg_max(b.node, b.last_ms) AS node
FROM lost AS l JOIN bound AS b USING (cluster, namespace, pod)
WHERE b.first_ms <= l.last_ms AND l.first_ms <= b.end_ms
GROUP BY ALL;
