-- reads: the pods of a described fleet, bound as one list per column
-- writes: allocations
-- invariant: one row per pod
INSERT INTO allocations BY NAME
SELECT hash(cluster, uid, node, held_from_ms) AS allocation_id, hash(cluster, node) AS node_id, * EXCLUDE (node),
    uid AS pod, 'nvidia_com_gpu' AS resource, gpus AS units, 'Pod' AS workload_kind
FROM (
    SELECT unnest($cluster::VARCHAR[]) AS cluster, unnest($node::VARCHAR[]) AS node, unnest($namespace::VARCHAR[]) AS namespace,
        unnest($workload::VARCHAR[]) AS workload, unnest($uid::VARCHAR[]) AS uid,
        unnest($gpus::DOUBLE[]) AS gpus, unnest($from_ms::BIGINT[]) AS held_from_ms, unnest($to_ms::BIGINT[]) AS held_to_ms
);
