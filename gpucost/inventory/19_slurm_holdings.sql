-- reads: slurm_spans, slurm_steps
-- writes: slurm_holdings, one row per (run of a job, node, kind of generic resource and its type): the units that it held there, and when
-- invariant: kind is 'gpu', 'shard' or 'mps'; from_ms < to_ms; over the nodes of a run the units add up to its allocation; is_even: no record shows their placement on its nodes
-- only with: slurm_loads
CREATE OR REPLACE TEMP TABLE slurm_holdings AS
WITH runs AS (
    FROM slurm_spans WHERE names_gpus AND from_ms < to_ms
),
batches AS (
    -- a job's batch step shows its resources on its first node
    SELECT r.cluster, r.job_id, r.submit_ms, s.nodes[1] AS node, s.alloc_tres
    FROM slurm_steps AS s ASOF JOIN runs AS r ON r.cluster = s.cluster AND r.job_id = s.job_id AND s.start_ms >= r.from_ms
    WHERE s.step = 'batch' AND len(r.nodes) > 1 AND len(s.nodes) = 1 AND list_contains(r.nodes, s.nodes[1]) AND s.start_ms < r.to_ms
),
listed AS (
    SELECT cluster, job_id, submit_ms, false AS is_batch, unnest(string_split(alloc_tres, ',')) AS item FROM runs
    UNION ALL
    SELECT cluster, job_id, submit_ms, true, unnest(string_split(alloc_tres, ',')) FROM batches
),
named AS (
    SELECT * EXCLUDE (item), regexp_extract(item, '^gres/(gpu|shard|mps)(:[^=]*)?=', 1) AS kind,
        nullif(regexp_extract(item, '^gres/(gpu|shard|mps):([^=]*)=', 2), '') AS type,
        try_cast(regexp_extract(item, '=([0-9]+)$', 1) AS DOUBLE) AS units
    FROM listed
),
typed AS (
    -- the count without a type includes the units of every type
    SELECT cluster, job_id, submit_ms, is_batch, kind, type, units FROM named WHERE kind <> '' AND type IS NOT NULL AND units > 0
    UNION ALL
    SELECT cluster, job_id, submit_ms, is_batch, kind, NULL,
        coalesce(sum(units) FILTER (type IS NULL), 0) - coalesce(sum(units) FILTER (type IS NOT NULL), 0) AS units
    FROM named
    WHERE kind <> ''
    GROUP BY ALL
    HAVING units > 0
),
placed AS (
    SELECT r.cluster, r.job_id, r.submit_ms, unnest(r.nodes) AS node, len(r.nodes) AS node_count, b.node AS batch_node, t.kind, t.type, t.units,
        coalesce(f.units, 0) AS batch_units, r.from_ms, r.to_ms
    FROM runs AS r
    JOIN typed AS t ON t.cluster = r.cluster AND t.job_id = r.job_id AND t.submit_ms = r.submit_ms AND NOT t.is_batch
    LEFT JOIN batches AS b ON b.cluster = r.cluster AND b.job_id = r.job_id AND b.submit_ms = r.submit_ms
    LEFT JOIN typed AS f ON f.cluster = r.cluster AND f.job_id = r.job_id AND f.submit_ms = r.submit_ms AND f.is_batch
        AND f.kind = t.kind AND f.type IS NOT DISTINCT FROM t.type AND f.units <= t.units
),
parted AS (
    SELECT cluster, job_id, submit_ms, node, kind, type, from_ms, to_ms,
        CASE
            WHEN batch_node IS NULL THEN units / node_count
            WHEN node = batch_node THEN batch_units
            ELSE (units - batch_units) / (node_count - 1)
        END AS units,
        node_count > 1 AND (batch_node IS NULL OR (units - batch_units) % (node_count - 1) <> 0) AS is_even
    FROM placed
)
SELECT * FROM parted WHERE units > 0;
