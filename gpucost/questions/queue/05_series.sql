-- reads: series; $metrics lists the metrics of queues with their meanings; $clusters filters (empty: all)
-- writes: queue_series, one row per series about a scheduler's queue: the queue, and the meaning of its values
-- invariant: a series is a gauge or a counter; a LocalQueue is named namespace/name; GPUs = values / divisor
CREATE OR REPLACE TEMP TABLE queue_series AS
SELECT series_id, source, labels, gauge, counter,
    {'cluster': cluster, 'scheduler': scheduler,
        'name': coalesce(labels['exported_cluster_queue'], labels['cluster_queue'], labels['queue_name'],
            coalesce(labels['exported_namespace'], labels['namespace']) || '/' || labels['name'])} AS queue,
    nullif(labels['cohort'], '') AS cohort,
        coalesce(labels['resource'], CASE scheduler WHEN 'KAI' THEN 'gpu' END) AS resource,
    -- the dimension to sum over: a quota's flavor, the status of pending workloads
    coalesce(labels['flavor'], labels['status'], regexp_extract(metric, 'group_(.+)_count', 1)) AS part,
    -- Volcano counts thousandths
    CASE WHEN ends_with(metric, 'scalar_resources') THEN 1000 ELSE 1 END AS divisor,
    -- a follower may know less, or later, than the leader
    coalesce(labels['replica_role'], '') <> 'follower' AS leads
FROM series JOIN (SELECT unnest($metrics, recursive := true)) USING (metric)
WHERE passes($clusters, cluster);
