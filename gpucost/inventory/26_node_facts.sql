-- reads: node_lifetimes, node_labels, node_devices, device_spans, plain_hosts, state_intervals, catalog_instances, gpu_aliases, gpu_models, mig_profiles, resource_kinds, resources, virtual_devices
-- writes: node_traits, one row per node life: its place, purchase, GPUs and their slices; node_facts, the node lives with GPUs; nodes (stored), the same
-- invariant: in node_facts gpu_count > 0; capacity_type is never null
CREATE OR REPLACE TEMP TABLE node_traits AS
WITH labeled AS (
    SELECT n.*, l.labels, l.product, l.unit_profile AS labeled_profile, l.is_mig_single, l.replicas, coalesce(l.is_shared, false) AS is_shared,
        coalesce(l.counted, quantity(l.labels['label_gpu_intel_com_device_count'], 1000)) AS counted,
        lower(regexp_extract(n.machine_id, '^([a-zA-Z]+)://', 1)) AS scheme,
        coalesce(l.labels['label_topology_kubernetes_io_zone'], l.labels['label_failure_domain_beta_kubernetes_io_zone']) AS zone,
        coalesce(l.labels['label_topology_kubernetes_io_region'], l.labels['label_failure_domain_beta_kubernetes_io_region']) AS region,
        coalesce(l.labels['label_node_kubernetes_io_instance_type'], l.labels['label_beta_kubernetes_io_instance_type']) AS instance_type,
        replace(lower(coalesce(t.taint, l.labels['label_karpenter_sh_capacity_type'], l.labels['label_eks_amazonaws_com_capacityType'],
            l.labels['label_eks_amazonaws_com_capacity_type'], l.labels['label_cloud_google_com_gke_provisioning'],
            l.labels['label_kubernetes_azure_com_scalesetpriority'], l.labels['label_node_kubernetes_io_lifecycle'],
            l.labels['label_node_lifecycle'])), '_', '-') AS bought,
        'true' IN (l.labels['label_cloud_google_com_gke_spot'], l.labels['label_cloud_google_com_gke_preemptible']) AS gke_spot,
        l.labels['label_cloud_google_com_gke_flex_start'] = 'true' AS gke_flex_start,
        'capacity-block' IN (l.labels['label_karpenter_k8s_aws_capacity_reservation_type'],
            l.labels['label_eks_amazonaws_com_capacity_reservation_type']) AS in_block,
        coalesce(l.labels['label_karpenter_k8s_aws_capacity_reservation_id'], l.labels['label_eks_amazonaws_com_capacity_reservation_id'],
            l.labels['label_cloud_google_com_reservation_name'], l.labels['label_karpenter_sh_capacity_reservation_id']) AS reservation,
        -- GKE and AKS label only spot nodes, and AKS taints them. A node without the label is on-demand if the label is
        -- exported, that is, if the cluster ever had it or the taint.
        bool_or(coalesce(bought, l.labels['label_cloud_google_com_gke_spot'], l.labels['label_cloud_google_com_gke_preemptible'],
            l.labels['label_cloud_google_com_gke_flex_start']) IS NOT NULL)
            FILTER (n.node_id NOT IN (SELECT node_id FROM plain_hosts)) OVER (PARTITION BY n.cluster) AS tells_launch
    FROM node_lifetimes AS n
    LEFT JOIN (
        SELECT DISTINCT n.node_id, 'spot' AS taint
        FROM node_lifetimes AS n JOIN state_intervals AS s ON s.cluster = n.cluster AND s.node = n.node
            AND s.metric = 'kube_node_spec_taint' AND s.first_ms < n.up_to_ms AND n.up_from_ms <= s.last_ms
    ) AS t USING (node_id)
    LEFT JOIN (
        -- a lost GPU still belongs to the node, and is paid for
        SELECT * REPLACE (max(counted) OVER (PARTITION BY node_id, unit_profile, is_mig_single) AS counted) FROM node_labels
        QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY from_ms DESC) = 1
    ) AS l USING (node_id)
),
measured AS (
    SELECT node_id, max(model_name) AS model_name,
        CASE WHEN count(profile) = count(*) AND min(profile) = max(profile) THEN lower(min(profile)) END AS only_profile
    FROM node_devices
    GROUP BY node_id
),
-- a replacement GPU does not add to the count
levels AS (
    SELECT node_id, sum(sum(change)) OVER (PARTITION BY node_id ORDER BY at_ms) AS uuids
    FROM (SELECT node_id, unnest([from_ms, to_ms]) AS at_ms, unnest([1, -1]) AS change FROM device_spans)
    GROUP BY node_id, at_ms
),
offered AS (
    SELECT n.node_id, k.vendor, k.kind, k.resource, k.size, c.size AS cores, max(f.value) AS value, bool_or(v.resource IS NOT NULL) AS virtual
    FROM labeled AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    JOIN resource_kinds AS k USING (resource)
    LEFT JOIN resources AS c ON k.kind = 'core' AND c.kind = 'core' AND regexp_full_match(lower(n.instance_type), c.instance_type)
    LEFT JOIN virtual_devices AS v ON v.cluster = n.cluster AND v.resource = k.resource
        -- if other nodes count virtual devices, ten of them may be a GPU here too
        AND (v.node = n.node OR (NOT n.is_shared AND f.value >= 10 AND f.value % 10 = 0))
    WHERE k.kind IN ('device', 'slot', 'slice', 'virtual', 'partition', 'core', 'unsplit', 'total_memory')
        AND (f.value < 1e6 OR k.kind = 'total_memory')
    GROUP BY ALL
),
vendors AS (
    SELECT node_id, vendor,
        coalesce(
            -- whole GPUs add to partitions of others; a scheduler of memory and cores defaults to ten virtual devices each
            max(CASE WHEN virtual OR kind = 'virtual' THEN value / 10 WHEN kind IN ('device', 'slot', 'unsplit') THEN value END)
                + coalesce(sum(value / size) FILTER (kind = 'partition'), 0),
            sum(value / size) FILTER (kind = 'partition'),
            max(value / coalesce(cores, 2)) FILTER (kind = 'core'),
            -- memory alone does not give the number of devices: a unit counts as one, with a warning in the report
            max(least(value, 999999)) FILTER (kind = 'total_memory')) AS units,
        max(value) FILTER (kind = 'slice') AS slices
    FROM offered
    GROUP BY ALL
),
counts AS (
    SELECT node_id, max(units) AS units, max(slices) AS slices FROM vendors GROUP BY ALL
),
named AS (
    SELECT l.*, m.only_profile,
        coalesce(l.labeled_profile, CASE WHEN l.is_mig_single THEN m.only_profile END) AS unit_profile,
        coalesce(l.product, m.model_name, l.labels['label_cloud_google_com_gke_tpu_accelerator']) AS whole_name,
        coalesce(u.uuids, 0) AS uuids, o.units, o.slices
    FROM labeled AS l LEFT JOIN measured AS m USING (node_id) LEFT JOIN counts AS o USING (node_id)
    LEFT JOIN (SELECT node_id, max(uuids) AS uuids FROM levels GROUP BY ALL) AS u USING (node_id)
),
modeled AS (
    SELECT s.*, i.gpu_count AS catalog_count,
        coalesce(a.gpu_model, i.gpu_model, model_name(s.whole_name)) AS gpu_model
    FROM named AS s
    LEFT JOIN (
        SELECT lower(instance_type) AS instance_type, any_value(gpu_model) AS gpu_model, max(gpu_count)::DOUBLE AS gpu_count
        FROM catalog_instances GROUP BY ALL
    ) AS i ON i.instance_type = lower(s.instance_type)
    LEFT JOIN gpu_aliases AS a ON a.alias = model_key(s.whole_name)
),
counted AS (
    SELECT m.*,
        CASE
            WHEN m.unit_profile IS NULL AND m.counted > 0 THEN m.counted
            WHEN m.catalog_count > 0 THEN m.catalog_count
            WHEN m.uuids > 0 THEN m.uuids
            WHEN m.unit_profile IS NOT NULL AND m.counted > 0 THEN ceil(m.counted / coalesce(p.max_per_gpu, g.mig_slices, 7))
            ELSE coalesce(m.units / greatest(coalesce(m.replicas, 1), 1), m.slices)
        END AS gpu_count,
        slices_of(m.gpu_model, g.mig_slices) AS mig_slices
    FROM modeled AS m
    LEFT JOIN gpu_models AS g USING (gpu_model)
    LEFT JOIN mig_profiles AS p ON p.gpu_model = m.gpu_model AND p.profile = m.unit_profile
)
SELECT
    node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms,
    CASE
        WHEN host_provider IS NOT NULL THEN host_provider
        WHEN scheme = 'gce' OR list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_cloud_google_com_'))) THEN 'gcp'
        WHEN scheme <> '' THEN scheme
        WHEN list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_kubernetes_azure_com_'))) THEN 'azure'
        WHEN list_bool_or(list_transform(map_keys(labels), lambda k: starts_with(k, 'label_eks_amazonaws_com_'))) THEN 'aws'
    END AS provider,
    region, zone, instance_type,
    CASE
        WHEN bought IN ('spot', 'preemptible', 'ec2spot') OR gke_spot THEN 'spot'
        WHEN bought = 'capacity-block' OR in_block THEN 'capacity_block'
        WHEN bought = 'flex-start' OR gke_flex_start THEN 'flex_start'
        WHEN bought IN ('reserved', 'reservation') OR reservation IS NOT NULL THEN 'reserved'
        WHEN labels IS NOT NULL AND (tells_launch OR coalesce(provider NOT IN ('aws', 'azure', 'gcp'), true)) THEN 'on_demand'
        ELSE 'unknown'
    END AS capacity_type,
    gpu_model, gpu_count::DOUBLE AS gpu_count,
    labels,
    only_profile, mig_slices::DOUBLE AS mig_slices,
    catalog_count > 0 OR unit_profile IS NOT NULL OR (h.node_id IS NOT NULL AND counted > 0) AS has_fixed_count
FROM counted LEFT JOIN (SELECT node_id, provider AS host_provider FROM plain_hosts) AS h USING (node_id);

CREATE OR REPLACE TEMP TABLE node_facts AS FROM node_traits WHERE gpu_count > 0;

INSERT INTO nodes BY NAME
SELECT node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms, provider, region, zone, instance_type,
    capacity_type, gpu_model, gpu_count, labels
FROM node_facts;
