-- reads: node_lifetimes, device_series, device_hosts, state_intervals
-- writes: node_devices, one row per activity series and node life that it measures, with device_id for (node, UUID, MIG instance); claimed_devices, the rows of claims
-- invariant: a series has one node name at a time; a device_id belongs to one node life
CREATE OR REPLACE TEMP TABLE node_devices AS
WITH device_places AS (
    -- one row per activity series whose exporter names its host: the node of that name
    SELECT d.series_id, d.cluster, h.node FROM device_series AS d JOIN device_hosts AS h USING (cluster, host, node_label)
),
lost AS MATERIALIZED (
    SELECT series_id, cluster, namespace, pod, first_ms, last_ms FROM device_series ANTI JOIN device_places USING (series_id)
    WHERE pod IS NOT NULL
),
bound AS MATERIALIZED (
    SELECT cluster, namespace, pod, node, first_ms, last_ms, end_ms FROM state_intervals
    WHERE metric = 'kube_pod_info' AND coalesce(node, '') <> '' AND (cluster, namespace, pod) IN (SELECT (cluster, namespace, pod) FROM lost)
),
device_pods AS (
    -- one row per activity series without a known host: the node of the pod it names
    SELECT l.series_id, l.cluster, arg_max(b.node, b.last_ms) AS node
    FROM lost AS l JOIN bound AS b USING (cluster, namespace, pod)
    WHERE b.first_ms <= l.last_ms AND l.first_ms <= b.end_ms
    GROUP BY ALL
),
placed AS MATERIALIZED (
    SELECT p.series_id, n.node_id, n.up_from_ms, n.up_to_ms
    FROM (FROM device_places UNION ALL FROM device_pods) AS p
    JOIN node_lifetimes AS n USING (cluster, node)
)
SELECT d.*, p.node_id, p.up_from_ms, p.up_to_ms, hash(p.node_id, d.uuid, d.gpu_instance_id) AS device_id
FROM device_series AS d JOIN placed AS p USING (series_id)
WHERE d.first_ms < p.up_to_ms AND p.up_from_ms <= d.last_ms;
CREATE OR REPLACE TEMP VIEW claimed_devices AS FROM node_devices WHERE by_claim;
