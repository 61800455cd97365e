-- reads: slurm_holdings, slurm_nodes, slurm_hosts, slurm_events, loads, settings, gpu_aliases, gpu_models, mig_profiles
-- writes: slurm_units, one row per (node, kind of generic resource and its type): its GPU model, and a unit's share of a GPU; slurm_machines, one row per life of a node's GPUs of one model, except nodes of Kubernetes; node_lifetimes, the same lives
-- invariant: share > 0; gpu_count > 0, and over the models of a node adds up to machine_gpus; lives of a node's GPUs of one model do not overlap
-- only with: slurm_loads
CREATE OR REPLACE TEMP TABLE slurm_units AS
WITH described AS (
    SELECT * FROM slurm_nodes QUALIFY row_number() OVER (PARTITION BY cluster, node ORDER BY seen_ms DESC) = 1
),
items AS (
    -- 'gpu:a100:4(S:0-1),shard:16': name, optional type, optional count (default 1)
    SELECT cluster, node, string_split(unnest(string_split(regexp_replace(gres, '\([^)]*\)', '', 'g'), ',')), ':') AS item FROM described
),
offered AS (
    SELECT cluster, node, lower(item[1]) AS kind, coalesce(try_cast(item[-1] AS DOUBLE), 1) AS units,
        CASE WHEN len(item) > 2 OR try_cast(item[2] AS DOUBLE) IS NULL THEN item[2] END AS type
    FROM items
    WHERE lower(item[1]) IN ('gpu', 'shard', 'mps')
),
-- a node without a description has the most units that jobs ever held at once
edges AS (
    SELECT cluster, node, kind, type, from_ms AS at_ms, units FROM slurm_holdings ANTI JOIN described USING (cluster, node)
    UNION ALL
    SELECT cluster, node, kind, type, to_ms, -units FROM slurm_holdings ANTI JOIN described USING (cluster, node)
),
levels AS (
    SELECT cluster, node, kind, type, sum(sum(units)) OVER (PARTITION BY cluster, node, kind, type ORDER BY at_ms) AS units
    FROM edges
    GROUP BY cluster, node, kind, type, at_ms
),
counts AS (
    SELECT cluster, node, kind, type, sum(units) AS units FROM offered GROUP BY ALL
    UNION ALL
    SELECT cluster, node, kind, type, ceil(max(units) - 1e-6) FROM levels GROUP BY ALL
),
spelled AS (
    SELECT *, nullif(regexp_extract(lower(type), '([0-9]+g\.[0-9]+gb(\+me)?)', 1), '') AS profile,
        nullif(regexp_replace(type, '(?i)[_:. -]?[0-9]+g\.[0-9]+gb.*$', ''), '') AS name
    FROM counts
),
modeled AS (
    SELECT s.*, coalesce(a.gpu_model, s.name) AS gpu_model
    FROM spelled AS s
    LEFT JOIN gpu_aliases AS a ON a.alias = model_key(s.name)
),
cut AS (
    SELECT m.*,
        CASE
            WHEN m.profile IS NULL THEN 1
            WHEN c.mig_share = 'max_compute_memory' THEN greatest(
                compute_slices(m.profile) / coalesce(nullif(g.mig_slices, 0), 7), coalesce(p.memory_slices::DOUBLE / p.memory_slices_total, 0))
            ELSE compute_slices(m.profile) / coalesce(nullif(g.mig_slices, 0), 7)
        END AS part
    FROM modeled AS m
    CROSS JOIN settings AS c
    LEFT JOIN gpu_models AS g USING (gpu_model)
    LEFT JOIN mig_profiles AS p ON p.gpu_model = m.gpu_model AND p.profile = m.profile
),
physical AS (
    -- slices are made of whole GPUs
    SELECT cluster, node, gpu_model,
        coalesce(sum(units) FILTER (profile IS NULL), 0) + ceil(coalesce(sum(units * part) FILTER (profile IS NOT NULL), 0) - 1e-6) AS gpu_count
    FROM cut
    WHERE kind = 'gpu'
    GROUP BY ALL
),
-- units without a type have the node's most frequent model
most AS (
    SELECT cluster, node, arg_max(gpu_model, (gpu_count, gpu_model)) FILTER (gpu_model IS NOT NULL) AS gpu_model, sum(gpu_count) AS gpu_count
    FROM physical
    GROUP BY ALL
)
SELECT c.cluster, c.node, c.kind, c.type, coalesce(c.gpu_model, m.gpu_model) AS gpu_model, c.profile, c.units,
    -- parts of devices: all GPUs of the node over its units
    CASE c.kind WHEN 'gpu' THEN c.part ELSE coalesce(m.gpu_count, 1) / sum(c.units) OVER (PARTITION BY c.cluster, c.node, c.kind) END AS share
FROM cut AS c LEFT JOIN most AS m USING (cluster, node)
UNION ALL
-- Jobs may request any GPU of a node with types, and a type of a node without types; on a node with slices only, one
-- slice.
SELECT h.cluster, h.node, h.kind, h.type, m.gpu_model, NULL, 0,
    CASE WHEN h.kind <> 'gpu' THEN m.gpu_count / o.units WHEN o.all_slices THEN o.gpus / o.units ELSE 1 END
FROM (SELECT DISTINCT cluster, node, kind, type FROM slurm_holdings) AS h
JOIN most AS m USING (cluster, node)
JOIN (
    SELECT cluster, node, kind, sum(units) AS units, sum(units * part) AS gpus, bool_and(profile IS NOT NULL) AS all_slices FROM cut GROUP BY ALL
) AS o USING (cluster, node, kind)
WHERE NOT EXISTS (FROM cut AS c WHERE c.cluster = h.cluster AND c.node = h.node AND c.kind = h.kind AND c.type IS NOT DISTINCT FROM h.type);

CREATE OR REPLACE TEMP TABLE slurm_machines AS
WITH counts AS (
    SELECT cluster, node, gpu_model, arg_max(type, units) FILTER (type IS NOT NULL) AS type,
        coalesce(sum(units) FILTER (profile IS NULL), 0) + ceil(coalesce(sum(units * share) FILTER (profile IS NOT NULL), 0) - 1e-6) AS gpu_count
    FROM slurm_units
    WHERE kind = 'gpu' AND (cluster, node) NOT IN (SELECT (cluster, node) FROM slurm_hosts)
    GROUP BY ALL
    HAVING gpu_count > 0
),
spans AS (
    SELECT source AS cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM loads WHERE kind = 'slurm' GROUP BY source
),
off AS (
    -- a node that is powered down does not exist
    SELECT cluster, node, from_ms, coalesce(to_ms, 9223372036854775807) AS to_ms FROM slurm_events WHERE state SIMILAR TO '.*POWER(ED|ING)?_DOWN.*'
),
births AS (
    SELECT DISTINCT c.cluster, c.node, NULL AS created_ms, s.from_ms, s.to_ms FROM counts AS c JOIN spans AS s USING (cluster)
    UNION
    SELECT o.cluster, o.node, o.to_ms, greatest(o.to_ms, s.from_ms), s.to_ms FROM off AS o JOIN spans AS s USING (cluster)
),
lives AS (
    SELECT b.cluster, b.node, b.created_ms, b.from_ms, least(b.to_ms, coalesce(min(o.from_ms) FILTER (o.from_ms >= b.from_ms), b.to_ms)) AS to_ms
    FROM births AS b LEFT JOIN off AS o USING (cluster, node)
    GROUP BY b.cluster, b.node, b.created_ms, b.from_ms, b.to_ms
    HAVING NOT coalesce(bool_or(o.from_ms <= b.from_ms AND b.from_ms < o.to_ms), false)
)
SELECT hash(l.cluster, l.node, c.gpu_model, l.created_ms) AS node_id, l.cluster, l.node, l.created_ms, l.from_ms AS up_from_ms, l.to_ms AS up_to_ms,
    c.gpu_model, c.type, c.gpu_count, sum(c.gpu_count) OVER (PARTITION BY l.cluster, l.node, l.created_ms) AS machine_gpus
FROM lives AS l JOIN counts AS c USING (cluster, node)
WHERE l.from_ms < l.to_ms;

INSERT INTO node_lifetimes BY NAME
SELECT node_id, cluster, node, NULL AS machine_id, created_ms, up_from_ms, up_to_ms FROM slurm_machines;
