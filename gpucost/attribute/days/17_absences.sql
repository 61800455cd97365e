-- reads: state_intervals, nodes, unit_shares, closed_nodes
-- writes: absences, one row per (node, cause, stretch) in which GPUs could not be held: not ready, cordoned, or not allocatable
-- invariant: cause '' is all of the node, another the resource that is short, or the node of Slurm that is a part of it
CREATE OR REPLACE TEMP TABLE absences AS
WITH closed AS (
    SELECT n.node_id, '' AS cause, n.gpu_count AS gpus, f.first_ms AS from_ms, f.end_ms AS to_ms
    FROM state_intervals AS f
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE (f.metric = 'kube_node_spec_unschedulable' AND f.value = 1)
        OR (f.metric = 'kube_node_status_condition' AND f.labels['condition'] = 'Ready' AND f.labels['status'] = 'true' AND f.value = 0)
    UNION ALL
    SELECT n.node_id, c.cause, coalesce(c.gpus, n.gpu_count), c.from_ms, c.to_ms
    FROM closed_nodes AS c JOIN nodes AS n ON n.cluster = c.cluster AND n.node = c.node AND c.from_ms < n.up_to_ms AND n.up_from_ms < c.to_ms
),
short AS (
    SELECT n.node_id, f.resource AS cause, greatest(0, c.value - f.value) * u.offered_share AS gpus,
        greatest(f.first_ms, c.first_ms) AS from_ms, least(f.end_ms, c.end_ms) AS to_ms
    FROM state_intervals AS f
    JOIN state_intervals AS c ON c.cluster = f.cluster AND c.node = f.node AND c.resource = f.resource AND c.metric = 'kube_node_status_capacity'
        AND c.first_ms < f.end_ms AND f.first_ms < c.end_ms AND f.value < c.value
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = f.resource AND u.from_ms <= f.first_ms AND f.first_ms < u.to_ms
    WHERE f.metric = 'kube_node_status_allocatable'
)
SELECT DISTINCT * FROM closed UNION SELECT DISTINCT * FROM short;
