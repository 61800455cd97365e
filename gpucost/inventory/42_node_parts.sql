-- reads: node_facts, node_models, gpu_counts, device_spans, node_devices, allocated, allocation_devices, allocation_hosts, node_hosts, nodes, unit_shares, node_parts
-- writes: node_parts, one row per (model, span) of node lives with several GPU models or added GPUs; allocation_parts, each allocation's GPUs by part; nodes (stored), allocated, allocation_devices, allocation_hosts, node_hosts, unit_shares: rows of the parts replace rows of the lives
-- invariant: at each moment the GPUs of a life's parts add up to machine_gpus, and an allocation's GPUs on them to its GPUs; part_id is node_id once per life
-- only with: node_models, gpu_counts
INSERT INTO node_parts BY NAME
WITH stretches AS (
    SELECT n.node_id, n.gpu_model, coalesce(g.gpu_count, n.gpu_count) AS machine_gpus, coalesce(g.from_ms, n.up_from_ms) AS from_ms,
        coalesce(g.to_ms, n.up_to_ms) AS to_ms
    FROM node_facts AS n LEFT JOIN gpu_counts AS g USING (node_id)
    WHERE g.node_id IS NOT NULL OR n.node_id IN (SELECT node_id FROM node_models)
),
measured AS (
    SELECT s.node_id, s.from_ms, m.gpu_model, any_value(m.uuids) AS uuids, any_value(m.profiles) AS profiles, any_value(m.is_sliced) AS is_sliced,
        least(any_value(m.gpu_count), count(*)) AS gpu_count, any_value(s.machine_gpus) AS machine_gpus
    FROM stretches AS s
    JOIN node_models AS m USING (node_id)
    JOIN device_spans AS d ON d.node_id = s.node_id AND list_contains(m.uuids, d.uuid) AND d.from_ms < s.to_ms
    GROUP BY ALL
),
together AS (
    -- a GPU of another model may have replaced one: then both were never there together
    FROM measured QUALIFY sum(gpu_count) OVER (PARTITION BY node_id, from_ms) <= machine_gpus
),
parts AS (
    SELECT s.node_id, s.from_ms, s.to_ms, s.machine_gpus, m.uuids, m.profiles, m.is_sliced,
        CASE WHEN m.gpu_model IS NULL OR model_key(m.gpu_model) = model_key(s.gpu_model) THEN s.gpu_model ELSE m.gpu_model END AS gpu_model,
        row_number() OVER (PARTITION BY s.node_id, s.from_ms
            ORDER BY model_key(m.gpu_model) IS NOT DISTINCT FROM model_key(s.gpu_model) DESC, m.gpu_count DESC, m.gpu_model) = 1 AS is_main,
        row_number() OVER (PARTITION BY s.node_id, s.from_ms ORDER BY len(m.profiles) DESC NULLS LAST, m.gpu_model) = 1 AS has_slices,
        -- GPUs that no exporter names have the node's model
        coalesce(m.gpu_count, 0) + CASE WHEN is_main
            THEN s.machine_gpus - coalesce(sum(m.gpu_count) OVER (PARTITION BY s.node_id, s.from_ms), 0) ELSE 0 END AS gpu_count
    FROM stretches AS s LEFT JOIN together AS m USING (node_id, from_ms)
)
SELECT *  EXCLUDE (is_main), CASE WHEN row_number() OVER (PARTITION BY node_id ORDER BY from_ms, NOT is_main) = 1 THEN node_id ELSE hash(node_id, gpu_model, from_ms) END AS part_id
FROM parts
QUALIFY count(*) OVER (PARTITION BY node_id) > 1;

CREATE OR REPLACE TEMP TABLE allocation_parts AS
WITH held AS MATERIALIZED (
    SELECT allocation_id, node_id, gpus, held_from_ms, held_to_ms, regexp_replace(resource, '^nvidia_com_mig_([0-9]+g)_([0-9]+gb).*$', '\1.\2') AS profile,
        allocation_id IN (SELECT allocation_id FROM allocation_hosts) AS has_hosts
    FROM allocated SEMI JOIN node_parts USING (node_id)
),
devices AS MATERIALIZED (
    SELECT DISTINCT device_id, node_id, uuid FROM node_devices SEMI JOIN node_parts USING (node_id)
),
known AS (
    SELECT d.allocation_id, p.part_id, sum(d.weight) AS gpus
    FROM allocation_devices AS d
    JOIN devices AS v USING (device_id)
    JOIN node_parts AS p ON p.node_id = v.node_id AND list_contains(p.uuids, v.uuid)
    GROUP BY ALL
),
weighed AS (
    SELECT h.*, p.part_id, p.from_ms, p.to_ms, p.gpu_count / p.machine_gpus AS host_share, coalesce(k.gpus, 0) AS known_gpus,
        h.gpus - sum(coalesce(k.gpus, 0)) OVER w AS other_gpus,
        -- the pod's device may be unknown: all possible ones count, for slices only ones with such slices
        p.gpu_count * CASE WHEN p.uuids IS NULL OR CASE WHEN contains(h.profile, 'g.') THEN list_contains(p.profiles, h.profile) ELSE NOT p.is_sliced END
            THEN 1 ELSE 1e-9 END AS weight
    FROM held AS h
    JOIN node_parts AS p ON p.node_id = h.node_id AND p.from_ms < h.held_to_ms AND h.held_from_ms < p.to_ms
    LEFT JOIN known AS k ON k.allocation_id = h.allocation_id AND k.part_id = p.part_id
    WINDOW w AS (PARTITION BY h.allocation_id, p.from_ms)
)
SELECT hash(allocation_id, part_id) AS new_id, allocation_id, part_id, host_share, greatest(from_ms, held_from_ms) AS from_ms, least(to_ms, held_to_ms) AS to_ms,
    known_gpus + CASE WHEN other_gpus > 1e-6 THEN other_gpus * weight / sum(weight) OVER (PARTITION BY allocation_id, from_ms) ELSE 0 END AS part_gpus,
    part_gpus / nullif(gpus, 0) AS share
FROM weighed
QUALIFY part_gpus > 1e-6 OR has_hosts;

INSERT INTO allocated BY NAME
SELECT a.* REPLACE (p.new_id AS allocation_id, p.part_id AS node_id, a.units * coalesce(p.share, 1) AS units, p.part_gpus AS gpus, p.from_ms AS held_from_ms, p.to_ms AS held_to_ms)
FROM allocated AS a JOIN allocation_parts AS p USING (allocation_id);
DELETE FROM allocated WHERE allocation_id IN (SELECT allocation_id FROM allocation_parts);

INSERT INTO allocation_devices BY NAME
SELECT p.new_id AS allocation_id, d.device_id, d.weight
FROM allocation_devices AS d
JOIN allocation_parts AS p USING (allocation_id)
JOIN node_parts AS n USING (part_id)
JOIN (SELECT DISTINCT device_id, uuid FROM node_devices) AS v USING (device_id)
WHERE n.uuids IS NULL OR list_contains(n.uuids, v.uuid);
DELETE FROM allocation_devices WHERE allocation_id IN (SELECT allocation_id FROM allocation_parts);

INSERT INTO allocation_hosts BY NAME
SELECT p.new_id AS allocation_id, h.part, h.units * p.host_share AS units FROM allocation_hosts AS h JOIN allocation_parts AS p USING (allocation_id);
DELETE FROM allocation_hosts WHERE allocation_id IN (SELECT allocation_id FROM allocation_parts);

INSERT INTO node_hosts BY NAME
SELECT p.part_id AS node_id, h.part, h.units * p.gpu_count / p.machine_gpus AS units
FROM node_hosts AS h JOIN node_parts AS p USING (node_id)
WHERE p.part_id <> p.node_id;
UPDATE node_hosts AS h SET units = h.units * p.gpu_count / p.machine_gpus FROM node_parts AS p WHERE p.part_id = h.node_id AND p.part_id = p.node_id;

INSERT INTO unit_shares BY NAME
SELECT u.* REPLACE (p.part_id AS node_id) FROM unit_shares AS u JOIN node_parts AS p USING (node_id) WHERE p.part_id <> p.node_id;

INSERT INTO nodes BY NAME
SELECT n.* REPLACE (p.part_id AS node_id, p.from_ms AS up_from_ms, p.to_ms AS up_to_ms, p.gpu_model AS gpu_model, p.gpu_count AS gpu_count,
    nullif(p.machine_gpus, p.gpu_count) AS machine_gpus)
FROM nodes AS n JOIN node_parts AS p USING (node_id)
WHERE p.part_id <> p.node_id;
UPDATE nodes AS n
SET up_from_ms = p.from_ms, up_to_ms = p.to_ms, gpu_model = p.gpu_model, gpu_count = p.gpu_count, machine_gpus = nullif(p.machine_gpus, p.gpu_count)
FROM node_parts AS p
WHERE p.part_id = n.node_id AND p.part_id = p.node_id;
