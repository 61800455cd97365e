-- reads: container_requests
-- writes: pod_requests, one row per (pod, resource): how many units the pod holds (cores and bytes where the cost basis charges them)
-- invariant: units > 0; units = max(sum of containers + sidecars, largest init container)
CREATE OR REPLACE TEMP TABLE pod_requests AS
SELECT cluster, uid, resource,
    greatest(coalesce(sum(units) FILTER (NOT starting), 0), coalesce(max(units) FILTER (starting), 0)) AS units
FROM container_requests
GROUP BY ALL;
