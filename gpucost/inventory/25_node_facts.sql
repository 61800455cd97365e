-- reads: node_lives, node_labels, node_devices, facts, catalog_instances, gpu_aliases, gpu_models, mig_profiles
-- writes: node_facts, one row per node life that has GPUs: where it is, how it was bought, which GPUs and how they are cut
-- invariant: gpu_count > 0; capacity_type is never null
CREATE OR REPLACE TEMP TABLE node_facts AS
WITH labeled AS (
    SELECT n.*, l.labels,
        lower(regexp_extract(n.machine_id, '^([a-zA-Z]+)://', 1)) AS scheme,
        coalesce(l.labels['label_topology_kubernetes_io_zone'], l.labels['label_failure_domain_beta_kubernetes_io_zone']) AS zone,
        coalesce(l.labels['label_topology_kubernetes_io_region'], l.labels['label_failure_domain_beta_kubernetes_io_region']) AS region,
        coalesce(l.labels['label_node_kubernetes_io_instance_type'], l.labels['label_beta_kubernetes_io_instance_type']) AS instance_type,
        replace(lower(coalesce(l.labels['label_karpenter_sh_capacity_type'], l.labels['label_eks_amazonaws_com_capacityType'],
            l.labels['label_eks_amazonaws_com_capacity_type'], l.labels['label_cloud_google_com_gke_provisioning'],
            l.labels['label_kubernetes_azure_com_scalesetpriority'], l.labels['label_node_kubernetes_io_lifecycle'],
            l.labels['label_node_lifecycle'])), '_', '-') AS bought,
        'true' IN (l.labels['label_cloud_google_com_gke_spot'], l.labels['label_cloud_google_com_gke_preemptible']) AS gke_spot,
        coalesce(l.labels['label_karpenter_k8s_aws_capacity_reservation_id'], l.labels['label_cloud_google_com_reservation_name'],
            l.labels['label_karpenter_sh_capacity_reservation_id']) AS reservation,
        coalesce(l.labels['label_nvidia_com_gpu_product'], l.labels['label_cloud_google_com_gke_accelerator'],
            l.labels['label_amd_com_gpu_product_name'], l.labels['label_karpenter_k8s_aws_instance_gpu_name']) AS product,
        try_cast(coalesce(l.labels['label_nvidia_com_gpu_count'], l.labels['label_cloud_google_com_gke_accelerator_count']) AS DOUBLE) AS counted,
        coalesce(try_cast(l.labels['label_nvidia_com_gpu_replicas'] AS DOUBLE),
            try_cast(l.labels['label_cloud_google_com_gke_max_shared_clients_per_gpu'] AS DOUBLE)) AS replicas
    FROM node_lives AS n LEFT JOIN node_labels AS l USING (node_id)
),
measured AS (
    SELECT node_id, count(DISTINCT uuid) AS uuids, max(model_name) AS model_name, max((profile IS NOT NULL)::INTEGER) = 1 AS cut
    FROM node_devices
    GROUP BY node_id
),
offered AS (
    SELECT n.node_id, max(f.value) FILTER (NOT f.resource LIKE '%\_mig\_%' ESCAPE '\') AS units, max(f.value) AS any_units
    FROM node_lives AS n
    JOIN facts AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE is_accelerator(f.resource)
    GROUP BY n.node_id
),
sliced AS (
    -- a -MIG- product or a GKE partition says that a plain nvidia.com/gpu is a slice, and what was counted are slices
    SELECT l.*,
        coalesce(nullif(lower(regexp_extract(l.product, '-MIG-([0-9]+g\.[0-9]+gb)', 1)), ''),
            lower(l.labels['label_cloud_google_com_gke_gpu_partition_size'])) AS unit_profile,
        lower(regexp_replace(regexp_replace(coalesce(l.product, m.model_name), '(-MIG-.*|-SHARED)$', ''), '[^a-zA-Z0-9]', '', 'g')) AS spelled,
        regexp_replace(regexp_replace(coalesce(l.product, m.model_name), '(-MIG-.*|-SHARED)$', ''), '^(NVIDIA|Tesla)[ -]', '') AS given_name,
        coalesce(m.uuids, 0) AS uuids, o.units, o.any_units
    FROM labeled AS l LEFT JOIN measured AS m USING (node_id) LEFT JOIN offered AS o USING (node_id)
),
modeled AS (
    SELECT s.*, i.gpu_count AS catalog_count,
        coalesce(a.gpu_model, i.gpu_model, s.given_name) AS gpu_model
    FROM sliced AS s
    LEFT JOIN (
        SELECT lower(instance_type) AS instance_type, any_value(gpu_model) AS gpu_model, max(gpu_count)::DOUBLE AS gpu_count
        FROM catalog_instances GROUP BY ALL
    ) AS i ON i.instance_type = lower(s.instance_type)
    LEFT JOIN gpu_aliases AS a ON a.alias = regexp_replace(s.spelled, '^(nvidia|tesla)+', '')
),
counted AS (
    SELECT m.*,
        CASE
            WHEN m.unit_profile IS NULL AND m.counted > 0 THEN m.counted
            WHEN m.catalog_count > 0 THEN m.catalog_count
            WHEN m.uuids > 0 THEN m.uuids
            WHEN m.unit_profile IS NOT NULL AND m.counted > 0 THEN ceil(m.counted / coalesce(p.max_per_gpu, g.mig_slices, 7))
            ELSE coalesce(m.units / greatest(coalesce(m.replicas, 1), 1), m.any_units)
        END AS gpu_count,
        coalesce(nullif(g.mig_slices, 0), CASE WHEN m.gpu_model SIMILAR TO '(A30|RTX[- ]?PRO[- ]?6000).*' THEN 4 ELSE 7 END) AS mig_slices
    FROM modeled AS m
    LEFT JOIN gpu_models AS g USING (gpu_model)
    LEFT JOIN mig_profiles AS p ON p.gpu_model = m.gpu_model AND p.profile = m.unit_profile
)
SELECT
    node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms,
    CASE
        WHEN scheme = 'gce' OR list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_cloud_google_com_'))) THEN 'gcp'
        WHEN scheme <> '' THEN scheme
        WHEN list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_kubernetes_azure_com_'))) THEN 'azure'
        WHEN list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_eks_amazonaws_com_'))) THEN 'aws'
    END AS provider,
    region, zone, instance_type,
    CASE
        WHEN bought IN ('spot', 'preemptible', 'ec2spot') OR gke_spot THEN 'spot'
        WHEN bought IN ('reserved', 'capacity-block', 'reservation') OR reservation IS NOT NULL THEN 'reserved'
        WHEN labels IS NOT NULL THEN 'on_demand'
        ELSE 'unknown'
    END AS capacity_type,
    gpu_model, gpu_count::DOUBLE AS gpu_count,
    labels,
    unit_profile, replicas, mig_slices::DOUBLE AS mig_slices, uuids
FROM counted
WHERE gpu_count > 0;
