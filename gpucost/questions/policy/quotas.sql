-- reads: series, states; $from_ms, $to_ms, $accelerators, $other_resources
-- writes: nothing; answers rows (cluster, namespace, is_gpu): the ResourceQuotas of the period, and whether they limit GPUs
-- invariant: each row once
WITH quotas AS (
    SELECT s.cluster, coalesce(s.labels['exported_namespace'], s.labels['namespace'], '') AS namespace,
        -- requests.nvidia.com/gpu of a quota
        regexp_replace(
            regexp_replace(lower(s.labels['resource']), '[^a-z0-9]', '_', 'g'), '^(requests|limits)_', ''
        ) AS resource
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'kube_resourcequota' AND t.first_ms < $to_ms AND $from_ms <= t.last_ms
)
SELECT DISTINCT cluster, namespace,
    coalesce(regexp_full_match(resource, $accelerators) AND NOT regexp_full_match(resource, $other_resources), false) AS is_gpu
FROM quotas
ORDER BY ALL
