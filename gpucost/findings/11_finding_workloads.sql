-- reads: finding_workloads
-- writes: nothing; answers its rows
-- invariant: in order of cluster, namespace and workload
FROM finding_workloads ORDER BY cluster, namespace, workload;
