-- reads: node_facts, device_spans, unit_shares, state_intervals
-- writes: gpu_counts, one row per (node life with added GPUs, span): its number of GPUs; extensible, the lives to which GPUs may have been added
-- invariant: spans of a node cover its life without overlap, each with more GPUs than the one before, the last with gpu_count; a lost GPU still counts
-- an instance type has all of its GPUs from the start
CREATE OR REPLACE TEMP VIEW extensible AS FROM node_facts WHERE NOT coalesce(has_fixed_count, false) AND gpu_count > 1;

-- only with: extensible
-- otherwise: gpu_counts (node_id UBIGINT, gpu_count DOUBLE, from_ms BIGINT, to_ms BIGINT)
CREATE OR REPLACE TEMP TABLE gpu_counts AS
WITH labeled AS (
    SELECT n.node_id, f.first_ms AS at_ms,
        coalesce(quantity(f.labels['label_nvidia_com_gpu_count'], 1000), quantity(f.labels['label_cloud_google_com_gke_accelerator_count'], 1000)) AS gpus
    FROM extensible AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_labels'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    WHERE gpus > 0
),
unlabeled AS MATERIALIZED (
    FROM extensible
    WHERE node_id NOT IN (SELECT node_id FROM labeled) AND node_id NOT IN (SELECT node_id FROM unit_shares WHERE profile IS NOT NULL)
),
told AS (
    FROM labeled
    UNION ALL
    SELECT node_id, at_ms, sum(sum(change)) OVER (PARTITION BY node_id ORDER BY at_ms)
    FROM (SELECT d.node_id, unnest([from_ms, to_ms]) AS at_ms, unnest([1, -1]) AS change FROM device_spans AS d SEMI JOIN unlabeled USING (node_id))
    GROUP BY node_id, at_ms
    UNION ALL
    SELECT n.node_id, f.first_ms, f.value * u.offered_share
    FROM unlabeled AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = f.resource AND u.from_ms <= f.first_ms AND f.first_ms < u.to_ms
    WHERE f.value > 0
),
levels AS (
    -- exporters and device plugins start one by one: GPUs of the first ten minutes were there from the start
    SELECT node_id, CASE WHEN at_ms < min(at_ms) OVER (PARTITION BY node_id) + 600000 THEN 0 ELSE at_ms END AS at_ms, gpus FROM told WHERE gpus > 0
),
steps AS (
    SELECT node_id, at_ms, least(max(gpus) OVER (PARTITION BY node_id ORDER BY at_ms), n.gpu_count) AS gpu_count, n.up_from_ms, n.up_to_ms
    FROM (SELECT node_id, at_ms, max(gpus) AS gpus FROM levels GROUP BY ALL) JOIN extensible AS n USING (node_id)
    WHERE at_ms < n.up_to_ms
    QUALIFY max(gpus) OVER (PARTITION BY node_id) > min(gpus) OVER (PARTITION BY node_id)
),
rises AS (
    FROM steps
    QUALIFY gpu_count > lag(gpu_count, 1, 0) OVER (PARTITION BY node_id ORDER BY at_ms)
)
SELECT node_id, gpu_count, greatest(at_ms, up_from_ms) AS from_ms, lead(at_ms, 1, up_to_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms
FROM rises
QUALIFY count(*) OVER (PARTITION BY node_id) > 1;
