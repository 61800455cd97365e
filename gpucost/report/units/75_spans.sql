-- reads: allocations, allocation_traits, loads, collected
-- writes: nothing; answers per workload when its pods held GPUs, whether the last of them failed, and when its cluster's metrics end
-- invariant: one row per workload
SELECT a.cluster, a.namespace, a.workload, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    coalesce(arg_max(t.failed, a.held_to_ms), false) AS failed,
    (SELECT max(c.to_ms) FROM collected AS c WHERE c.cluster = a.cluster) AS collected_to_ms,
    (SELECT min(l.from_ms) FROM loads AS l WHERE l.kind = 'progress') AS progress_from_ms
FROM allocations AS a LEFT JOIN allocation_traits AS t USING (allocation_id)
GROUP BY a.cluster, a.namespace, a.workload;
