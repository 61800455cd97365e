-- reads: label_history
-- writes: node_labels, one row per (node, span of unchanged labels): the labels, and their facts about its GPUs
-- invariant: a node's spans cover all time without overlap; labels is not empty; nodes without exported labels have no row
CREATE OR REPLACE TEMP TABLE node_labels AS
WITH spans AS (
    SELECT name::UBIGINT AS node_id, from_ms, to_ms, labels,
        coalesce(labels['label_nvidia_com_gpu_product'], labels['label_cloud_google_com_gke_accelerator'],
            labels['label_amd_com_gpu_product_name'], labels['label_karpenter_k8s_aws_instance_gpu_name']) AS product
    FROM label_history
    WHERE kind = 'node'
)
SELECT node_id, from_ms, to_ms, labels, product,
    -- with a -MIG- product or a GKE partition, a plain nvidia.com/gpu is a slice, and the count is of slices
    coalesce(nullif(lower(regexp_extract(product, '-MIG-([1-9]g\.[0-9]+gb)', 1)), ''),
        nullif(regexp_extract(lower(labels['label_cloud_google_com_gke_gpu_partition_size']), '^[1-9]g\.[0-9]+gb$'), '')) AS unit_profile,
    labels['label_nvidia_com_mig_strategy'] = 'single' AS is_mig_single,
    coalesce(quantity(labels['label_nvidia_com_gpu_replicas'], 10000),
        quantity(labels['label_cloud_google_com_gke_max_shared_clients_per_gpu'], 10000)) AS replicas,
    coalesce(quantity(labels['label_nvidia_com_gpu_count'], 1000), quantity(labels['label_cloud_google_com_gke_accelerator_count'], 1000)) AS counted,
    coalesce(replicas > 1, false) OR coalesce(ends_with(product, '-SHARED'), false)
        OR coalesce(labels['label_nvidia_com_gpu_sharing_strategy'], labels['label_cloud_google_com_gke_gpu_sharing_strategy'], 'none') <> 'none' AS is_shared
FROM spans;
