-- reads: state_intervals
-- writes: container_requests, one row per (container, resource): the units it requests; starting is true for containers that end before others begin; pod_requests, one row per (pod, resource): the units that the pod holds (cores and bytes if the cost basis charges them)
-- invariant: units > 0; units = max(sum of containers + sidecars, largest init container)
CREATE OR REPLACE TEMP TABLE container_requests AS
WITH requested AS (
    -- requests equal limits for these resources: use either, and count duplicates once
    SELECT cluster, uid, container, resource, metric LIKE 'kube\_pod\_init\_%' ESCAPE '\' AS init, max(value) AS units
    FROM state_intervals
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND uid IS NOT NULL
        AND (is_accelerator(resource) OR is_unlisted(resource) OR (is_host_resource(resource) AND metric LIKE '%requests'))
    GROUP BY ALL
),
sidecars AS (
    SELECT DISTINCT cluster, uid, container FROM state_intervals
    WHERE metric = 'kube_pod_init_container_info' AND labels['restart_policy'] = 'Always'
)
SELECT a.cluster, a.uid, a.container, a.resource, a.init AND s.container IS NULL AS starting, a.units
FROM requested AS a LEFT JOIN sidecars AS s USING (cluster, uid, container)
WHERE a.units > 0;

CREATE OR REPLACE TEMP TABLE pod_requests AS
SELECT cluster, uid, resource,
    greatest(coalesce(sum(units) FILTER (NOT starting), 0), coalesce(max(units) FILTER (starting), 0)) AS units
FROM container_requests
GROUP BY ALL;
