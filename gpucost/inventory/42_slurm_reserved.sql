-- reads: slurm_reservations, slurm_machines, closed_nodes, allocated, settings
-- writes: slurm_reserved, allocated: GPUs of reserved nodes without jobs, one row per (life of a node's GPUs of one model, account, span)
-- invariant: gpus > 0, and with the jobs' GPUs at most the node's; resource is 'reservation'; namespace is an account of the reservation if it pays, otherwise '': unallocated
-- only with: slurm_loads
-- A reservation's accounts pay equally for its idle GPUs. Maintenance is unavailable time. The first by name of
-- overlapping reservations counts.
CREATE OR REPLACE TEMP TABLE slurm_reserved AS
WITH named AS (
    SELECT cluster, name, from_ms, coalesce(to_ms, 9223372036854775807) AS to_ms, unnest(nodes) AS node,
        -- '-account' may not use it
        list_sort(list_distinct(list_filter(accounts, lambda account: account <> '' AND NOT starts_with(account, '-')))) AS accounts
    FROM slurm_reservations
    WHERE NOT list_contains(flags, 'MAINT')
),
granted AS (
    SELECT m.node_id, m.gpu_count, r.name, r.accounts, greatest(r.from_ms, m.up_from_ms) AS from_ms, least(r.to_ms, m.up_to_ms) AS to_ms
    FROM named AS r JOIN slurm_machines AS m ON m.cluster = r.cluster AND m.node = r.node AND r.from_ms < m.up_to_ms AND m.up_from_ms < r.to_ms
),
changes AS (
    SELECT node_id, at_ms, sum(gpus) AS gpus, sum(closed) AS closed
    FROM (
        SELECT node_id, unnest([from_ms, to_ms]) AS at_ms, 0.0 AS gpus, 0 AS closed FROM granted
        UNION ALL
        SELECT node_id, unnest([held_from_ms, held_to_ms]), unnest([gpus, -gpus]), 0 FROM allocated SEMI JOIN granted USING (node_id)
        UNION ALL
        SELECT m.node_id, unnest([c.from_ms, c.to_ms]), 0.0, unnest([1, -1])
        FROM closed_nodes AS c JOIN slurm_machines AS m USING (cluster, node) SEMI JOIN granted AS g ON g.node_id = m.node_id
    )
    GROUP BY ALL
),
levels AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(gpus) OVER w AS gpus, sum(closed) OVER w AS closed
    FROM changes
    WINDOW w AS (PARTITION BY node_id ORDER BY at_ms)
),
free AS (
    SELECT l.node_id, l.from_ms, l.to_ms, any_value(g.gpu_count) - any_value(l.gpus) AS gpus, min(g.name) AS name, arg_min(g.accounts, g.name) AS accounts
    FROM levels AS l JOIN granted AS g ON g.node_id = l.node_id AND g.from_ms <= l.from_ms AND l.to_ms <= g.to_ms
    WHERE l.closed = 0
    GROUP BY l.node_id, l.from_ms, l.to_ms
),
paid AS (
    SELECT f.* EXCLUDE (accounts),
        unnest(CASE WHEN c.charge_reservations AND len(f.accounts) > 0 THEN f.accounts ELSE [''] END) AS account,
        CASE WHEN c.charge_reservations THEN greatest(1, len(f.accounts)) ELSE 1 END AS payers
    FROM free AS f CROSS JOIN settings AS c
    -- sevenths do not add up exactly in binary
    WHERE f.gpus > 1e-6
)
SELECT p.node_id, m.cluster, m.node, p.name, p.account, p.gpus / p.payers AS gpus, p.from_ms, p.to_ms
FROM paid AS p JOIN slurm_machines AS m USING (node_id);

INSERT INTO allocated BY NAME
SELECT hash(cluster, name, account, node_id, from_ms) AS allocation_id, cluster, account AS namespace, name AS pod,
    'reservation/' || name || '/' || account || '/' || node_id || '@' || from_ms AS uid, node_id, 'reservation' AS resource, gpus AS units, gpus,
    from_ms AS held_from_ms, to_ms AS held_to_ms, 'Reservation' AS workload_kind, 'Reservation/' || name AS workload
FROM slurm_reserved;
