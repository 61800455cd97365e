-- reads: queue_rises; $queues filters (empty: all)
-- writes: nothing; returns one row per queue and reason: the workloads evicted in the period
-- invariant: reasons without an eviction have no row
SELECT queue.cluster, queue.scheduler, queue.name AS cluster_queue, upper AS reason, rise AS workloads FROM queue_rises
WHERE counter = 'evicted' AND rise > 0 AND passes($queues, queue.name)
ORDER BY ALL;
