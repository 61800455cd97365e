-- reads: allocated, pod_units, claim_shares, pods, pod_nodes, pod_parts, reservations, gpu_groups, node_devices, node_facts, blocks, unit_shares, told_devices, resources
-- writes: allocation_devices, one row per (allocation, device known to be its own): the GPUs of the pod on that device
-- invariant: per allocation sum(weight) <= gpus; no device is counted twice in one allocation
INSERT INTO allocation_devices BY NAME
WITH reserving AS (
    SELECT n.cluster, n.uid, r.namespace, r.pod, g.gpu_group = o.gpu_group AS is_same, count(*) OVER (PARTITION BY n.cluster, n.uid) AS candidates
    FROM pod_parts AS s
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN reservations AS r ON r.node_id = n.node_id AND r.held_from_ms < n.held_to_ms AND n.held_from_ms < r.held_to_ms
    LEFT JOIN gpu_groups AS g ON g.cluster = n.cluster AND g.uid = n.uid
    LEFT JOIN gpu_groups AS o ON o.cluster = r.cluster AND o.uid = r.uid
    WHERE s.resource = 'gpu_fraction'
),
device_names AS (
    -- pod names under which exporters measure a pod's devices: its own, and for shared devices its reservation's
    SELECT cluster, uid, namespace, pod FROM pods
    UNION
    SELECT cluster, uid, namespace, pod FROM reserving WHERE coalesce(is_same, candidates = 1)
    UNION
    -- a run of a job: its number, and its submission time
    SELECT cluster, uid, '', split_part(uid, '@', 1) FROM pods WHERE contains(uid, '@')
),
named AS MATERIALIZED (
    -- names before devices: otherwise each pod meets all series of its node at that time
    SELECT a.allocation_id, a.node_id, a.held_from_ms, a.held_to_ms, m.namespace, m.pod
    FROM allocated AS a JOIN device_names AS m USING (cluster, uid)
    WHERE a.gpus > 0
),
labeled AS (
    SELECT a.allocation_id, d.device_id, d.series_id, d.first_ms, d.last_ms, a.held_from_ms, a.held_to_ms,
        count(*) OVER (PARTITION BY d.series_id) AS namesakes
    FROM named AS a
    JOIN node_devices AS d USING (node_id, namespace, pod)
    WHERE d.first_ms < a.held_to_ms AND a.held_from_ms <= d.last_ms
),
-- a reused name: the series needs samples within this pod's life
heard AS (
    SELECT l.allocation_id, l.device_id, len(list_filter(
        sample_offsets(b.offsets_ms, b.samples, b.first_offset_ms, b.step_ms),
        lambda o: b.hour::BIGINT * 3600000 + o >= l.held_from_ms AND b.hour::BIGINT * 3600000 + o < l.held_to_ms)) AS samples
    FROM labeled AS l
    JOIN blocks AS b ON b.series_id = l.series_id
        AND b.hour >= l.held_from_ms // 3600000 AND b.hour <= (l.held_to_ms - 1) // 3600000
    WHERE l.namesakes > 1
),
near AS (
    SELECT a.allocation_id, d.device_id, d.uuid, d.gpu_instance_id, a.gpus, n.gpu_count
    FROM allocated AS a
    JOIN node_facts AS n USING (node_id)
    JOIN node_devices AS d ON d.node_id = a.node_id AND d.first_ms < a.held_to_ms AND a.held_from_ms <= d.last_ms
    WHERE a.gpus > 0 AND (n.gpu_count <= 1 OR a.gpus >= n.gpu_count - 1e-6)
),
alone AS (
    -- with one shared GPU, or all GPUs of the node in one pod, no label is needed
    SELECT allocation_id, device_id FROM near
    QUALIFY gpus >= gpu_count - 1e-6
        OR (gpu_instance_id = '' AND min(uuid) OVER (PARTITION BY allocation_id) = max(uuid) OVER (PARTITION BY allocation_id))
),
known AS (
    SELECT allocation_id, device_id, sum(samples) AS samples
    FROM (
        SELECT allocation_id, device_id, 1000000000 AS samples FROM labeled WHERE namesakes = 1
        UNION ALL
        FROM heard WHERE samples > 0
        UNION ALL
        SELECT allocation_id, device_id, 1000000000 FROM alone
        UNION ALL
        SELECT allocation_id, device_id, 1000000000 FROM told_devices
    )
    GROUP BY ALL
),
sized AS (
    SELECT k.allocation_id, k.device_id, k.samples, d.gpu_instance_id <> '' AS sliced,
        -- the number of cores of a device of an unlisted type is unknown: they stay unmeasured
        CASE d.unit WHEN 'core' THEN 1 / c.size ELSE coalesce(u.part, least(1, compute_slices(d.profile) / n.mig_slices), 1) END AS part,
        d.unit = 'core' AS is_core
    FROM known AS k
    JOIN allocated AS a USING (allocation_id)
    JOIN node_facts AS n USING (node_id)
    JOIN (SELECT DISTINCT device_id, gpu_instance_id, profile, unit FROM node_devices) AS d USING (device_id)
    LEFT JOIN resources AS c ON d.unit = 'core' AND c.kind = 'core' AND regexp_full_match(lower(n.instance_type), c.instance_type)
    LEFT JOIN (SELECT node_id, lower(profile) AS profile, max(part) AS part FROM unit_shares WHERE profile IS NOT NULL GROUP BY ALL) AS u
        ON u.node_id = a.node_id AND u.profile = lower(d.profile)
),
held AS (
    SELECT a.allocation_id, u.sliced, sum(u.units) AS units, sum(u.gpus) AS gpus, bool_or(u.shared) AS shared
    FROM allocated AS a
    JOIN (
        SELECT cluster, uid, 0 AS from_ms, 9223372036854775807 AS to_ms, sliced, units, gpus, shared FROM pod_units
        UNION ALL
        SELECT cluster, uid, from_ms, to_ms, sliced, units, gpus, shared FROM claim_shares
    ) AS u ON u.cluster = a.cluster AND u.uid = a.uid AND u.from_ms <= a.held_from_ms AND a.held_to_ms <= u.to_ms
    GROUP BY ALL
),
own AS (
    -- just after a pod of the same name, the exporter may still use that pod's device: use the most sampled devices
    SELECT s.*, h.gpus, h.shared
    FROM sized AS s JOIN held AS h USING (allocation_id, sliced)
    QUALIFY row_number() OVER (PARTITION BY s.allocation_id, s.sliced ORDER BY s.samples DESC, s.device_id)
        <= CASE WHEN s.is_core THEN round(h.gpus / s.part) ELSE h.units END
),
parts AS (
    SELECT *, sum(part) OVER (PARTITION BY allocation_id, sliced) AS parts FROM own
)
-- slots are on the known devices; whole devices and slices that no exporter names stay unmeasured
SELECT allocation_id, device_id, part * CASE WHEN shared THEN gpus / parts ELSE least(1, gpus / parts) END AS weight
FROM parts;
