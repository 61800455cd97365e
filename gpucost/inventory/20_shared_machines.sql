-- reads: node_lifetimes, state_intervals, device_series, device_hosts, blocks
-- writes: collected, coverage_gaps (stored): remove clusters without a machine of their own; cut_lives, shared_machines, one row per (node life, other life that is the same machine and keeps it): when both were listed; node_lifetimes, the former without that time; twins, ids that several nodes have
-- invariant: GPUs that both measured at one time are proof, different GPUs disprove; otherwise a cloud's provider id decides, then a system uuid that two nodes never had while both were alive
CREATE OR REPLACE TEMP TABLE twins AS
WITH names AS (
    SELECT cluster, node, unnest([
        CASE WHEN regexp_matches(lower(labels['provider_id']), '^((aws|gce|azure|oci)://|ocid1\.)') THEN 'provider ' || lower(labels['provider_id']) END,
        -- placeholders of mainboards without a uuid
        CASE WHEN NOT regexp_matches(lower(labels['system_uuid']), '^(0{8}|1{8}|f{8}|(fe){4}|03000200-?0400-?0500|00020003-?0004-?0005|12345678)|[^0-9a-f-]') AND length(labels['system_uuid']) >= 32
            THEN 'uuid ' || lower(labels['system_uuid']) END]) AS id, first_ms AS from_ms, last_ms AS to_ms
    FROM state_intervals
    WHERE metric = 'kube_node_info' AND node IS NOT NULL
    UNION ALL
    SELECT n.cluster, n.node, 'gpu ' || d.uuid, d.first_ms, d.last_ms
    FROM device_series AS d JOIN device_hosts AS n USING (cluster, host, node_label)
    -- an index is a different device on every host
    WHERE NOT contains(d.uuid, '/')
)
SELECT cluster, node, id, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM names
WHERE id IS NOT NULL
GROUP BY cluster, node, id
QUALIFY count(*) OVER (PARTITION BY id) > 1;

-- only with: twins
-- otherwise: shared_machines (node_id UBIGINT, other_id UBIGINT, cluster VARCHAR, node VARCHAR, other_cluster VARCHAR, other_node VARCHAR, from_ms BIGINT, to_ms BIGINT)
CREATE OR REPLACE TEMP TABLE shared_machines AS
WITH gpu_hours AS MATERIALIZED (
    SELECT t.cluster, t.node, t.id, b.hour, min(b.first_offset_ms) AS first_offset_ms, max(b.last_offset_ms) AS last_offset_ms
    FROM twins AS t
    JOIN device_hosts AS h USING (cluster, node)
    JOIN device_series AS d ON d.cluster = h.cluster AND d.host = h.host AND d.node_label = h.node_label AND 'gpu ' || d.uuid = t.id
    JOIN blocks AS b USING (series_id)
    GROUP BY ALL
),
-- two nodes measured one GPU at one time
met AS (
    SELECT a.cluster, a.node, a.id, b.cluster AS other_cluster, b.node AS other_node, a.hour::BIGINT * 3600000 AS hour_ms
    FROM gpu_hours AS a JOIN gpu_hours AS b ON b.id = a.id AND b.hour = a.hour AND (b.cluster, b.node) <> (a.cluster, a.node)
        AND b.first_offset_ms <= a.last_offset_ms AND a.first_offset_ms <= b.last_offset_ms
),
pairs AS MATERIALIZED (
    SELECT a.node_id, b.node_id AS other_id, a.cluster, a.node, b.cluster AS other_cluster, b.node AS other_node, a.created_ms, b.created_ms AS other_created_ms,
        greatest(a.up_from_ms, b.up_from_ms) AS from_ms, least(a.up_to_ms, b.up_to_ms) AS to_ms,
        -- GPUs count while both measured them; a node whose cluster lost its label keeps its name
        bool_or(m.hour_ms IS NOT NULL OR (starts_with(s.id, 'gpu ') AND a.node = b.node)) AS same_gpu,
        bool_or(starts_with(s.id, 'provider ')) AS same_provider, max(s.id) FILTER (starts_with(s.id, 'uuid ')) AS uuid
    FROM twins AS s
    JOIN twins AS t ON t.id = s.id AND (t.cluster, t.node) <> (s.cluster, s.node)
    JOIN node_lifetimes AS a ON a.cluster = s.cluster AND a.node = s.node
    JOIN node_lifetimes AS b ON b.cluster = t.cluster AND b.node = t.node AND b.up_from_ms < a.up_to_ms AND a.up_from_ms < b.up_to_ms
    LEFT JOIN met AS m ON m.cluster = s.cluster AND m.node = s.node AND m.id = s.id AND m.other_cluster = t.cluster AND m.other_node = t.node
        AND m.hour_ms < least(a.up_to_ms, b.up_to_ms) AND greatest(a.up_from_ms, b.up_from_ms) < m.hour_ms + 3600000
    GROUP BY ALL
),
-- a node is alive if it is ready or its GPUs are measured
alive AS (
    SELECT f.cluster, f.node, f.first_ms AS from_ms, f.last_ms AS to_ms, NULL AS uuid
    FROM state_intervals AS f SEMI JOIN pairs AS p ON p.cluster = f.cluster AND p.node = f.node
    WHERE f.metric = 'kube_node_status_condition' AND f.labels['condition'] = 'Ready' AND f.labels['status'] = 'true' AND f.value = 1
    UNION ALL
    SELECT n.cluster, n.node, b.hour::BIGINT * 3600000 + b.first_offset_ms, b.hour::BIGINT * 3600000 + b.last_offset_ms, d.uuid
    FROM device_series AS d
    JOIN device_hosts AS n USING (cluster, host, node_label)
    SEMI JOIN pairs AS p ON p.cluster = n.cluster AND p.node = n.node
    JOIN blocks AS b USING (series_id)
    WHERE NOT contains(d.uuid, '/')
),
lived AS (
    SELECT p.node_id, p.other_id, count(a.uuid) AS gpus,
        coalesce(sum(least(a.to_ms, p.to_ms) - greatest(a.from_ms, p.from_ms)) FILTER (a.uuid IS NULL), 0)
            + coalesce(max(least(a.to_ms, p.to_ms)) FILTER (a.uuid IS NOT NULL) - min(greatest(a.from_ms, p.from_ms)) FILTER (a.uuid IS NOT NULL), 0) AS alive_ms
    FROM pairs AS p JOIN alive AS a ON a.cluster = p.cluster AND a.node = p.node AND a.from_ms < p.to_ms AND p.from_ms <= a.to_ms
    GROUP BY ALL
),
together AS (
    SELECT p.node_id, p.other_id, max(least(a.to_ms, b.to_ms, p.to_ms) - greatest(a.from_ms, b.from_ms, p.from_ms)) AS both_ms
    FROM pairs AS p
    JOIN alive AS a ON a.cluster = p.cluster AND a.node = p.node
    JOIN alive AS b ON b.cluster = p.other_cluster AND b.node = p.other_node AND b.from_ms < a.to_ms AND a.from_ms < b.to_ms
    GROUP BY ALL
),
judged AS (
    SELECT p.*, coalesce(l.alive_ms, 0) AS alive_ms, coalesce(o.alive_ms, 0) AS other_alive_ms, l.gpus, o.gpus AS other_gpus,
        max(coalesce(b.both_ms, 0)) OVER (PARTITION BY p.uuid) AS both_ms
    FROM pairs AS p
    LEFT JOIN lived AS l USING (node_id, other_id)
    LEFT JOIN lived AS o ON o.node_id = p.other_id AND o.other_id = p.node_id
    LEFT JOIN together AS b ON b.node_id = p.node_id AND b.other_id = p.other_id
),
proven AS (
    FROM judged
    WHERE CASE WHEN same_gpu THEN true WHEN gpus > 0 AND other_gpus > 0 THEN false WHEN same_provider THEN true
        ELSE uuid IS NOT NULL AND both_ms <= 600000 AND greatest(alive_ms, other_alive_ms) > 0 END
)
SELECT node_id, other_id, cluster, node, other_cluster, other_node, from_ms, to_ms
FROM proven
-- the node that was alive keeps the machine; of two alive ones, the newer
WHERE CASE WHEN abs(alive_ms - other_alive_ms) > (to_ms - from_ms) / 10 THEN alive_ms < other_alive_ms
    ELSE (coalesce(created_ms, 0), node_id) < (coalesce(other_created_ms, 0), other_id) END;

-- only with: shared_machines
CREATE OR REPLACE TEMP TABLE cut_lives AS
SELECT n.*, unnest([n.up_from_ms, s.to_ms]) AS piece_from_ms, unnest([s.from_ms, n.up_to_ms]) AS piece_to_ms
FROM node_lifetimes AS n JOIN (SELECT node_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM shared_machines GROUP BY node_id) AS s USING (node_id);
-- only with: shared_machines
DELETE FROM node_lifetimes WHERE node_id IN (SELECT node_id FROM cut_lives);
-- only with: shared_machines
INSERT INTO node_lifetimes BY NAME
SELECT CASE WHEN piece_from_ms = up_from_ms THEN node_id ELSE hash(node_id, piece_from_ms) END AS node_id, cluster, node, machine_id, created_ms,
    piece_from_ms AS up_from_ms, piece_to_ms AS up_to_ms
FROM cut_lives
WHERE piece_from_ms < piece_to_ms;
-- a cluster name that appeared only while another cluster's label was lost is not a cluster
-- only with: shared_machines
DELETE FROM coverage_gaps WHERE cluster IN (SELECT cluster FROM shared_machines) AND cluster NOT IN (SELECT cluster FROM node_lifetimes);
-- only with: shared_machines
DELETE FROM collected WHERE cluster IN (SELECT cluster FROM shared_machines) AND cluster NOT IN (SELECT cluster FROM node_lifetimes);
