-- reads: facts
-- writes: pod_requests, one row per (pod, resource): how many units the pod holds (cores and bytes where the cost basis charges them)
-- invariant: units > 0; units = max(sum of containers + sidecars, largest init container)
CREATE OR REPLACE TEMP TABLE pod_requests AS
WITH asked AS (
    -- requests equal limits for these resources: whichever is exported, and however often
    SELECT cluster, uid, container, resource, metric LIKE 'kube\_pod\_init\_%' ESCAPE '\' AS init, max(value) AS units
    FROM facts
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND uid IS NOT NULL
        AND (is_accelerator(resource) OR (is_host_resource(resource) AND metric LIKE '%requests'))
    GROUP BY ALL
),
sidecars AS (
    SELECT DISTINCT cluster, uid, container FROM facts
    WHERE metric = 'kube_pod_init_container_info' AND labels['restart_policy'] = 'Always'
),
summed AS (
    SELECT a.cluster, a.uid, a.resource,
        coalesce(sum(a.units) FILTER (NOT a.init OR s.container IS NOT NULL), 0) AS lasting,
        coalesce(max(a.units) FILTER (a.init AND s.container IS NULL), 0) AS starting
    FROM asked AS a LEFT JOIN sidecars AS s USING (cluster, uid, container)
    GROUP BY ALL
)
SELECT cluster, uid, resource, greatest(lasting, starting) AS units
FROM summed
WHERE greatest(lasting, starting) > 0;
