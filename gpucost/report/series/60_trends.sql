-- reads: series_facts; $cluster, $namespace, $workload are lists that name workloads
-- writes: nothing; answers the cost of each of them by moment
-- invariant: over all moments it is the workload's cost in the report
WITH wanted AS (
    SELECT
        unnest(range(len($workload::VARCHAR[]))) AS place,
        unnest($cluster::VARCHAR[])              AS cluster,
        unnest($namespace::VARCHAR[])            AS namespace,
        unnest($workload::VARCHAR[])             AS workload
)
SELECT w.place, f.moment, sum(f.cost) AS cost
FROM series_facts AS f
JOIN wanted AS w ON f.cluster = w.cluster AND f.namespace = w.namespace AND f.workload = w.workload
WHERE f.kind = 'allocated'
GROUP BY ALL
ORDER BY ALL;
