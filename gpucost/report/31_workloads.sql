-- reads: report_facts
-- writes: nothing; answers how many workloads held GPUs, in how many clusters and namespaces
-- invariant: one row
SELECT
    count(DISTINCT (cluster, namespace, workload)) AS workloads,
    count(DISTINCT cluster)                        AS clusters,
    count(DISTINCT namespace)                      AS namespaces
FROM report_facts
WHERE kind = 'allocated';
