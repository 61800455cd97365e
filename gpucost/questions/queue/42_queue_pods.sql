-- reads: series, allocations, nodes
-- writes: queue_pods, one row per (pod, scheduler): its queue, by its labels; queue_models, one row per (queue, GPU model): the share of the GPU time that the queue's pods held
-- invariant: a pod of a LocalQueue is in the ClusterQueue of the LocalQueue's other pods; shares of a queue add up to 1
CREATE OR REPLACE TEMP TABLE queue_pods AS
WITH labeled AS (
    SELECT cluster, coalesce(labels['exported_uid'], labels['uid']) AS uid,
        max(labels['label_kueue_x_k8s_io_cluster_queue_name']) AS admitted,
        max(coalesce(labels['exported_namespace'], labels['namespace']) || '/'
            || coalesce(labels['label_kueue_x_k8s_io_queue_name'],
                labels['label_kueue_x_k8s_io_local_queue_name'])) AS LocalQueue,
        max(coalesce(labels['label_kai_scheduler_queue'], labels['label_runai_queue'])) AS KAI,
            max(labels['label_volcano_sh_queue_name']) AS Volcano
    FROM series
    WHERE metric = 'kube_pod_labels'
    GROUP BY ALL
)
SELECT cluster, uid, {'cluster': cluster, 'scheduler': scheduler, 'name': name} AS queue
FROM (SELECT *, coalesce(admitted, max(admitted) OVER (PARTITION BY cluster, coalesce(LocalQueue, uid))) AS Kueue
    FROM labeled)
UNPIVOT (name FOR scheduler IN (Kueue, LocalQueue, KAI, Volcano));

CREATE OR REPLACE TEMP TABLE queue_models AS
SELECT queue, hash(queue) AS queue_id, queue.cluster, queue.scheduler = 'LocalQueue' AS is_local, gpu_model,
    sum(gpu_ms) / sum(sum(gpu_ms)) OVER (PARTITION BY queue) AS share
FROM (
    SELECT queue, gpu_model, gpus * (held_to_ms - held_from_ms) AS gpu_ms FROM queue_pods
        JOIN allocations USING (cluster, uid) JOIN nodes USING (node_id)
    WHERE gpus > 0 AND gpu_model IS NOT NULL
)
GROUP BY queue, gpu_model;
