-- reads: unit_work, unit_cells
-- writes: nothing; answers the work that no cost of the period belongs to, with why
-- invariant: work on a day is either in unit_serving or here, filters apart
SELECT w.cluster, w.namespace, coalesce(w.workload, w.told) AS workload, w.model, w.unit, w.source, min(w.day) AS first_day,
    sum(w.amount) AS amount, sum(w.failed) AS failed, w.workload IS NULL AS is_unknown
FROM unit_work AS w
WHERE w.workload IS NULL OR NOT EXISTS (
    FROM unit_cells AS c WHERE c.cluster = w.cluster AND c.namespace = w.namespace AND c.workload = w.workload AND c.day = w.day)
GROUP BY w.cluster, w.namespace, coalesce(w.workload, w.told), w.model, w.unit, w.source, w.workload IS NULL
HAVING sum(w.amount) + sum(w.failed) > 0
ORDER BY ALL;
