-- reads: the lists $cluster, $namespace, $workload
-- writes: unit_known, the workloads that rows stand for
-- invariant: each workload once
CREATE OR REPLACE TEMP TABLE unit_known AS
SELECT DISTINCT * FROM (
    SELECT unnest($cluster::VARCHAR[]) AS cluster, unnest($namespace::VARCHAR[]) AS namespace, unnest($workload::VARCHAR[]) AS workload);
