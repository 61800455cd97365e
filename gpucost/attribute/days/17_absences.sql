-- reads: state_intervals, nodes, unit_shares, closed_nodes, allocations
-- writes: absences, one row per (node, cause, span) in which GPUs were unavailable: not ready, cordoned, not allocatable, or no longer offered
-- invariant: cause '' is the whole node, others are the short resource, 'lost' for GPUs that the node has but does not offer, or the Slurm node that is a part of it
CREATE OR REPLACE TEMP TABLE absences AS
WITH closed AS (
    SELECT n.node_id, '' AS cause, n.gpu_count AS gpus, f.first_ms AS from_ms, f.end_ms AS to_ms
    FROM state_intervals AS f
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE (f.metric = 'kube_node_spec_unschedulable' AND f.value = 1)
        OR (f.metric = 'kube_node_status_condition' AND f.labels['condition'] = 'Ready' AND f.labels['status'] = 'true' AND f.value = 0)
    UNION ALL
    SELECT n.node_id, c.cause, coalesce(c.gpus * n.gpu_count / coalesce(n.machine_gpus, n.gpu_count), n.gpu_count), c.from_ms, c.to_ms
    FROM closed_nodes AS c JOIN nodes AS n ON n.cluster = c.cluster AND n.node = c.node AND c.from_ms < n.up_to_ms AND n.up_from_ms < c.to_ms
),
short AS (
    SELECT n.node_id, f.resource AS cause, greatest(0, c.value - f.value) * u.offered_share * n.gpu_count / coalesce(n.machine_gpus, n.gpu_count) AS gpus,
        greatest(f.first_ms, c.first_ms) AS from_ms, least(f.end_ms, c.end_ms) AS to_ms
    FROM state_intervals AS f
    JOIN state_intervals AS c ON c.cluster = f.cluster AND c.node = f.node AND c.resource = f.resource AND c.metric = 'kube_node_status_capacity'
        AND c.first_ms < f.end_ms AND f.first_ms < c.end_ms AND f.value < c.value
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = f.resource AND u.from_ms <= f.first_ms AND f.first_ms < u.to_ms
    WHERE f.metric = 'kube_node_status_allocatable'
),
-- After a reboot, a GPU that fell off the bus is missing in the capacity, too. Layouts of slices and claims do not give
-- the number of GPUs.
offered AS (
    SELECT n.node_id, n.gpu_count, coalesce(n.machine_gpus, n.gpu_count) AS machine_gpus, f.value * u.offered_share AS gpus,
        greatest(f.first_ms, n.up_from_ms) AS from_ms, least(f.end_ms, n.up_to_ms) AS to_ms
    FROM nodes AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = f.resource AND u.from_ms <= f.first_ms AND f.first_ms < u.to_ms
    WHERE NOT u.virtual AND n.node_id NOT IN (SELECT node_id FROM unit_shares WHERE profile IS NOT NULL UNION SELECT node_id FROM allocations WHERE resource = 'claim')
    QUALIFY min(f.resource) OVER (PARTITION BY n.node_id) = max(f.resource) OVER (PARTITION BY n.node_id) AND max(f.value) OVER (PARTITION BY n.node_id) > 0
),
lost AS (
    SELECT node_id, 'lost' AS cause, floor(machine_gpus - gpus + 1e-6) * gpu_count / machine_gpus AS gpus, from_ms, to_ms FROM offered WHERE machine_gpus - gpus > 1 - 1e-6
)
SELECT DISTINCT * FROM closed UNION SELECT DISTINCT * FROM short UNION SELECT DISTINCT * FROM lost;
