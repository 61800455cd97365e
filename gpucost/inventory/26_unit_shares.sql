-- reads: node_facts, facts, mig_profiles, settings
-- writes: unit_shares, one row per (node, resource): which part of a physical GPU one unit of it is
-- invariant: 0 < share; a whole device is 1, a MIG slice its compute slices over the GPU's, a slot 1 / replicas of what it shares
CREATE OR REPLACE TEMP TABLE unit_shares AS
WITH capacities AS (
    SELECT n.node_id, f.resource, max(f.value) AS units
    FROM node_facts AS n
    JOIN facts AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE f.value > 0
    GROUP BY ALL
),
requested AS (
    SELECT n.node_id, f.resource
    FROM node_facts AS n
    JOIN facts AS f ON f.cluster = n.cluster AND f.node = n.node
    WHERE f.metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)'
    GROUP BY ALL
),
resources AS (
    SELECT node_id, resource, max(units) AS units
    FROM (SELECT node_id, resource, units FROM capacities UNION ALL SELECT node_id, resource, NULL FROM requested)
    WHERE is_accelerator(resource)
    GROUP BY ALL
),
described AS (
    SELECT r.node_id, r.resource, r.units, n.gpu_count, n.gpu_model, n.mig_slices, n.replicas,
        CASE
            WHEN starts_with(r.resource, 'nvidia_com_mig_')
                THEN regexp_replace(r.resource, '^nvidia_com_mig_([0-9]+g)_([0-9]+gb).*$', '\1.\2')
            WHEN r.resource IN ('nvidia_com_gpu', 'nvidia_com_gpu_shared') THEN n.unit_profile
        END AS profile,
        ends_with(r.resource, '_shared') AS renamed,
        bool_or(ends_with(r.resource, '_shared')) OVER (PARTITION BY r.node_id) AS any_renamed
    FROM resources AS r JOIN node_facts AS n USING (node_id)
),
cut AS (
    SELECT d.*,
        CASE WHEN d.profile IS NULL THEN 1 ELSE
            CASE WHEN c.mig_share = 'max_compute_memory'
                THEN greatest(regexp_extract(d.profile, '^([0-9]+)g', 1)::DOUBLE / d.mig_slices,
                    coalesce(p.memory_slices::DOUBLE / p.memory_slices_total, 0))
                ELSE regexp_extract(d.profile, '^([0-9]+)g', 1)::DOUBLE / d.mig_slices END
        END AS part,
        renamed OR (NOT any_renamed AND coalesce(d.replicas, 1) > 1
            AND (starts_with(d.resource, 'nvidia_com_mig_') OR d.resource = 'nvidia_com_gpu')) AS shared
    FROM described AS d
    CROSS JOIN settings AS c
    LEFT JOIN mig_profiles AS p ON p.gpu_model = d.gpu_model AND p.profile = d.profile
)
SELECT node_id, resource, profile, shared OR (profile IS NULL AND units > gpu_count) AS shared, part,
    CASE
        WHEN shared AND replicas > 1 THEN part / replicas
        -- no label tells the replicas: what the node offers over what it has does
        WHEN profile IS NULL AND units > 0 THEN least(1, gpu_count / units)
        ELSE part
    END AS share
FROM cut;
