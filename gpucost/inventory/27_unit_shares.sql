-- reads: node_facts, node_labels, device_spans, node_models, state_intervals, mig_profiles, settings, resource_kinds, resources, virtual_devices
-- writes: unit_shares, one row per (node, span of labels, resource), and one more each time that a node without labels changes its slots: a unit's share of a physical GPU
-- invariant: 0 < share; a whole device is 1, a MIG slice its compute slices over the GPU's, a slot 1 / replicas of its device; offered_share is the share of a unit of the node's capacity
INSERT INTO unit_shares BY NAME
WITH spans AS (
    SELECT n.node_id, n.cluster, n.node, n.instance_type, n.gpu_count, n.gpu_model, n.mig_slices, l.labels, l.replicas, coalesce(l.is_shared, false) AS is_shared,
        coalesce(l.unit_profile, CASE WHEN l.is_mig_single THEN n.only_profile END) AS unit_profile,
        coalesce(l.from_ms, 0) AS from_ms, coalesce(l.to_ms, 9223372036854775807) AS to_ms
    FROM node_facts AS n LEFT JOIN node_labels AS l USING (node_id)
),
capacities AS (
    -- the node's capacity follows its labels after a while: the last value of the span counts
    SELECT s.node_id, s.from_ms, f.resource, arg_max(f.value, f.last_ms) AS units
    FROM spans AS s
    JOIN node_facts AS n USING (node_id)
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < least(n.up_to_ms, s.to_ms) AND greatest(n.up_from_ms, s.from_ms) <= f.last_ms
    WHERE f.value > 0 AND f.value < 1e6
    GROUP BY ALL
),
-- without labels of slots, the node's capacity at the time counts
slots AS (
    SELECT s.node_id, s.from_ms, s.to_ms, s.gpu_count, f.resource, f.value AS units, f.first_ms
    FROM spans AS s
    JOIN node_facts AS n USING (node_id)
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < least(n.up_to_ms, s.to_ms) AND greatest(n.up_from_ms, s.from_ms) <= f.last_ms
    WHERE s.replicas IS NULL AND NOT s.is_shared AND s.unit_profile IS NULL AND f.value > 0 AND f.value < 1e6
    QUALIFY f.value <> lag(f.value, 1, 0) OVER (PARTITION BY s.node_id, s.from_ms, f.resource ORDER BY f.first_ms, f.last_ms)
),
runs AS (
    SELECT node_id, from_ms, resource, units, CASE WHEN lag(units) OVER w IS NULL THEN from_ms ELSE first_ms END AS begin_ms,
        lead(first_ms, 1, to_ms) OVER w AS until_ms
    FROM slots
    WINDOW w AS (PARTITION BY node_id, from_ms, resource ORDER BY first_ms)
    QUALIFY max(units) OVER (PARTITION BY node_id, from_ms, resource) >= 2 * gpu_count
),
requested AS (
    SELECT DISTINCT s.node_id, s.from_ms, f.resource, NULL AS units
    FROM spans AS s
    JOIN node_facts AS n USING (node_id)
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node
    WHERE f.metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)'
),
offered AS (
    SELECT o.node_id, o.from_ms, o.resource, coalesce(r.units, o.units) AS units, r.begin_ms, r.until_ms
    FROM (
        SELECT node_id, from_ms, resource, max(units) AS units FROM (FROM capacities UNION ALL FROM requested) GROUP BY ALL
    ) AS o
    LEFT JOIN runs AS r USING (node_id, from_ms, resource)
),
described AS (
    SELECT s.node_id, coalesce(r.begin_ms, s.from_ms) AS from_ms, coalesce(r.until_ms, s.to_ms) AS to_ms, r.resource, r.units, s.gpu_count, s.gpu_model, s.mig_slices, k.size,
        k.kind = 'device' AND EXISTS (
            FROM virtual_devices AS v WHERE v.cluster = s.cluster AND v.resource = r.resource AND v.node = s.node) AS seen_virtual,
        s.cluster, s.is_shared, k.kind AS listed_kind,
        CASE WHEN k.kind = 'core' THEN (
            SELECT max(c.size) FROM resources AS c WHERE c.kind = 'core' AND regexp_full_match(lower(s.instance_type), c.instance_type)
        ) END AS cores,
        -- gpu.replicas applies to nvidia.com/gpu only; gpu-feature-discovery writes mig-<profile>.replicas next to it
        CASE WHEN starts_with(r.resource, 'nvidia_com_mig_')
            THEN quantity(s.labels['label_' || regexp_replace(r.resource, '_shared$', '') || '_replicas'], 10000)
            ELSE s.replicas END AS replicas,
        CASE
            WHEN starts_with(r.resource, 'nvidia_com_mig_')
                THEN regexp_replace(r.resource, '^nvidia_com_mig_([0-9]+g)_([0-9]+gb).*$', '\1.\2')
            WHEN r.resource IN ('nvidia_com_gpu', 'nvidia_com_gpu_shared') THEN s.unit_profile
        END AS profile,
        ends_with(r.resource, '_shared') AS renamed,
        bool_or(ends_with(r.resource, '_shared')) OVER (PARTITION BY s.node_id, s.from_ms) AS any_renamed,
        -- GPUs in slices offer no slots in addition
        coalesce(nullif(greatest(0, s.gpu_count - coalesce(v.sliced, 0)), 0), s.gpu_count) AS wholes
    FROM spans AS s JOIN offered AS r USING (node_id, from_ms) JOIN resource_kinds AS k USING (resource)
    LEFT JOIN (SELECT node_id, count(*) AS sliced FROM device_spans WHERE is_sliced GROUP BY ALL) AS v USING (node_id)
    WHERE k.kind IN ('device', 'slot', 'slice', 'virtual', 'partition', 'core', 'unsplit')
),
guessed AS (
    -- No pod here requests a part, but pods elsewhere do: ten units per GPU (HAMi's default), or as many as there, are
    -- virtual devices, not slots.
    SELECT *, listed_kind = 'device' AND NOT seen_virtual AND NOT is_shared AND units >= 2 * gpu_count AND bool_or(seen_virtual) OVER alike
        AND (units = 10 * gpu_count
            OR coalesce(list_contains(list(units / gpu_count) FILTER (seen_virtual) OVER alike, units / gpu_count), false)) AS guessed_virtual
    FROM described
    WINDOW alike AS (PARTITION BY cluster, resource)
),
judged AS (
    SELECT *, CASE WHEN seen_virtual OR guessed_virtual THEN 'virtual' ELSE listed_kind END AS kind FROM guessed
),
cut AS (
    SELECT d.*,
        CASE
            WHEN d.kind = 'partition' THEN 1 / d.size
            -- two cores may be one unit
            WHEN d.kind = 'core' THEN least(1, coalesce(d.gpu_count / d.units, 1 / coalesce(d.cores, 2)))
            WHEN compute_slices(d.profile) IS NULL THEN 1
            WHEN c.mig_share = 'max_compute_memory' THEN greatest(
                least(1, compute_slices(d.profile) / coalesce(v.mig_slices, d.mig_slices)), coalesce(p.memory_slices::DOUBLE / p.memory_slices_total, 0))
            ELSE least(1, compute_slices(d.profile) / coalesce(v.mig_slices, d.mig_slices))
        END AS part,
        renamed OR (NOT any_renamed AND coalesce(d.replicas, 1) > 1 AND d.kind <> 'virtual'
            AND (starts_with(d.resource, 'nvidia_com_mig_') OR d.resource = 'nvidia_com_gpu')) AS shared,
        -- one GPU fewer than before is a lost GPU, not a shared one
        d.profile IS NULL AND d.kind IN ('device', 'slot') AND d.units >= 2 * d.wholes AS outnumbers
    FROM judged AS d
    CROSS JOIN settings AS c
    LEFT JOIN (
        -- the device with such slices gives their model
        SELECT node_id, profile, min(gpu_model) AS gpu_model, min(mig_slices) AS mig_slices
        FROM (SELECT node_id, gpu_model, mig_slices, unnest(profiles) AS profile FROM node_models)
        GROUP BY ALL HAVING count(*) = 1
    ) AS v ON v.node_id = d.node_id AND v.profile = d.profile
    LEFT JOIN mig_profiles AS p ON p.gpu_model = coalesce(v.gpu_model, d.gpu_model) AND p.profile = d.profile
)
SELECT node_id, from_ms, to_ms, resource, profile, part,
    shared OR outnumbers AS shared,
    CASE
        WHEN shared AND replicas > 1 THEN part / replicas
        -- without a label of replicas: the node's units over its GPUs
        WHEN outnumbers THEN 1 / ceil(units / wholes)
        ELSE part
    END AS share,
    CASE WHEN kind = 'virtual' THEN least(1, coalesce(gpu_count / units, 1)) ELSE share END AS offered_share,
    kind = 'virtual' AS virtual, guessed_virtual
FROM cut;
