-- reads: container_requests, resource_kinds, pods, pod_nodes, node_facts, unit_shares, state_intervals, gpu_models, settings
-- writes: pod_annotations, one row per pod on a GPU node that requests by annotations only: devices and the part of each, cut to the node's; pod_parts, one row per (pod, resource) of pods that request parts of devices: on HAMi and similar by cores and memory, on KAI and Run:ai by annotations; memory is the part of a device's memory, over 1 for a larger request
-- invariant: 0 < gpus; gpus <= units if devices are counted; is_guessed if a device's memory is unknown: it counts whole
-- only with: share_hints
-- otherwise: pod_annotations (cluster VARCHAR, uid VARCHAR, units DOUBLE, part DOUBLE, asks BOOLEAN, is_cut BOOLEAN)
-- otherwise: pod_parts (cluster VARCHAR, uid VARCHAR, resource VARCHAR, is_guessed BOOLEAN, units DOUBLE, gpus DOUBLE, memory DOUBLE)
CREATE OR REPLACE TEMP TABLE pod_annotations AS
WITH annotations AS (
    -- users write annotations: they may be invalid numbers
    SELECT a.cluster, a.uid, n.gpu_count, m.memory_mib::DOUBLE AS memory_mib,
        coalesce(arg_max(a.labels['annotation_gpu_fraction_num_devices'], a.last_ms), '') AS devices_text,
        coalesce(arg_max(a.labels['annotation_gpu_fraction'], a.last_ms), '') AS fraction_text,
        coalesce(arg_max(a.labels['annotation_gpu_memory'], a.last_ms), '') AS mib_text
    FROM state_intervals AS a
    JOIN pod_nodes AS p USING (cluster, uid)
    JOIN node_facts AS n USING (node_id)
    LEFT JOIN gpu_models AS m USING (gpu_model)
    ANTI JOIN (SELECT cluster, uid FROM container_requests WHERE is_accelerator(resource)) AS r ON r.cluster = a.cluster AND r.uid = a.uid
    WHERE a.metric = 'kube_pod_annotations'
    GROUP BY ALL
),
numbers AS (
    SELECT *, quantity(devices_text, 1e15) AS devices, quantity(fraction_text, 1e15) AS fraction, quantity(mib_text, 1e15) AS mib FROM annotations
    WHERE fraction_text <> '' OR mib_text <> ''
)
SELECT cluster, uid, least(coalesce(devices, 1), gpu_count) AS units, least(1, coalesce(fraction, mib / memory_mib)) AS part,
    coalesce(fraction, mib) IS NOT NULL AS asks,
    (devices_text <> '' AND coalesce(devices > gpu_count, true)) OR coalesce(fraction, mib / memory_mib, 0) > 1
        OR (fraction_text <> '' AND fraction IS NULL) OR (fraction IS NULL AND mib_text <> '' AND mib IS NULL) AS is_cut
FROM numbers;

CREATE OR REPLACE TEMP TABLE pod_parts AS
WITH places AS (
    -- a scheduler that scales memory allocates more than the physical memory
    SELECT p.cluster, p.uid, n.node_id, m.memory_mib * c.hami_memory_scaling AS memory_mib
    FROM pods AS p
    CROSS JOIN settings AS c
    LEFT JOIN pod_nodes AS n USING (cluster, uid)
    LEFT JOIN node_facts AS f USING (node_id)
    LEFT JOIN gpu_models AS m USING (gpu_model)
),
memories AS (
    -- the node's memory capacity over its devices: only this shows scaled or shrunk memory
    SELECT n.node_id, f.resource, max(f.value) / n.gpu_count AS units
    FROM node_facts AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    JOIN resource_kinds AS k USING (resource)
    WHERE k.kind IN ('memory', 'total_memory') AND f.value > 0
    GROUP BY n.node_id, f.resource, n.gpu_count
),
requested AS (
    SELECT r.cluster, r.uid, r.container, r.starting, coalesce(k.devices, r.resource) AS resource, any_value(l.node_id) AS node_id,
        max(r.units) FILTER (k.devices IS NULL) AS devices,
        max(r.units) FILTER (k.kind = 'cores') / 100 AS cores,
        max(r.units) FILTER (k.kind = 'percentage') / 100 AS percentage,
        max(r.units / coalesce(m.units, l.memory_mib / k.size)) FILTER (k.kind = 'memory') AS memory,
        max(r.units) FILTER (k.kind = 'memory') IS NOT NULL AS asks_memory,
        max(r.units) FILTER (k.kind = 'total_cores') / 100 AS total_cores,
        max(r.units / coalesce(m.units, l.memory_mib / k.size)) FILTER (k.kind = 'total_memory') AS total_memory,
        bool_or(k.kind IN ('total_cores', 'total_memory')) AS is_total,
        bool_or(k.kind IN ('memory', 'total_memory') AND coalesce(m.units, l.memory_mib) IS NULL) AS is_guessed,
        any_value(CASE WHEN coalesce(k.devices, r.resource) = 'nvidia_com_gpu' THEN c.hami_default_mem / l.memory_mib END) AS default_memory,
        bool_or(k.devices IS NOT NULL) AS asks_parts
    FROM container_requests AS r
    JOIN resource_kinds AS k USING (resource)
    JOIN places AS l USING (cluster, uid)
    CROSS JOIN settings AS c
    LEFT JOIN memories AS m ON m.node_id = l.node_id AND m.resource = r.resource
    WHERE k.devices IS NOT NULL OR r.resource IN (SELECT devices FROM resource_kinds)
    GROUP BY ALL
),
-- a pod without parts holds whole devices as usual; with HAMi and a default memory, it holds that part of them
concerned AS (
    SELECT cluster, uid, resource FROM requested
    GROUP BY ALL
    HAVING bool_or(asks_parts) OR (bool_or(default_memory IS NOT NULL) AND any_value(node_id) IN (
        SELECT node_id FROM unit_shares WHERE virtual))
),
sized AS (
    SELECT a.cluster, a.uid, a.resource, a.starting, a.is_guessed, coalesce(a.devices, 1) AS units,
        -- missing memory means all of the device's; missing cores mean none
        CASE WHEN a.asks_memory THEN coalesce(a.memory, 1) ELSE coalesce(a.percentage, a.default_memory, 1) END AS part,
        coalesce(a.devices, 1) * CASE WHEN NOT a.is_total AND NOT a.is_guessed THEN part END AS memory,
        CASE
            WHEN a.is_total THEN least(coalesce(a.devices, greatest(a.total_cores, a.total_memory)),
                CASE WHEN a.is_guessed THEN coalesce(a.devices, 1) ELSE greatest(a.total_cores, a.total_memory) END)
            ELSE coalesce(a.devices, 1) * least(1, greatest(a.cores, part))
        END AS gpus
    FROM requested AS a JOIN concerned USING (cluster, uid, resource)
)
SELECT cluster, uid, resource, bool_or(is_guessed) AS is_guessed,
    greatest(coalesce(sum(units) FILTER (NOT starting), 0), coalesce(max(units) FILTER (starting), 0)) AS units,
    greatest(coalesce(sum(gpus) FILTER (NOT starting), 0), coalesce(max(gpus) FILTER (starting), 0)) AS gpus,
    sum(memory) FILTER (NOT starting) AS memory
FROM sized
GROUP BY ALL
HAVING gpus > 0
UNION ALL
SELECT cluster, uid, 'gpu_fraction', part IS NULL, units, units * coalesce(part, 1), NULL FROM pod_annotations WHERE asks;
