-- reads: progress_series, allocations
-- writes: unit_candidates, the pods that each progress series can refer to, by the workload it names, otherwise by its pods
-- invariant: a series that names a workload never matches another workload's pods
CREATE OR REPLACE TEMP TABLE unit_candidates AS
WITH names AS (
    SELECT allocation_id, cluster, namespace, workload, held_from_ms, held_to_ms, unnest(list_distinct([workload, split_part(workload, '/', 2), pod])) AS name
    FROM allocations
),
asked AS (
    SELECT series_id, cluster, namespace, workload IS NULL AS is_pod, CASE WHEN workload IS NULL THEN string_split(pod, ',') ELSE [workload] END AS asked
    FROM progress_series
    WHERE workload IS NOT NULL OR pod IS NOT NULL
),
asked_names AS (
    SELECT series_id, cluster, namespace, is_pod, trim(unnest(asked)) AS name FROM asked
)
SELECT DISTINCT s.series_id, s.is_pod, n.allocation_id, n.cluster, n.namespace, n.workload, n.held_from_ms, n.held_to_ms
FROM asked_names AS s
JOIN names AS n ON n.name = s.name AND n.cluster = coalesce(s.cluster, n.cluster) AND n.namespace = coalesce(s.namespace, n.namespace);
