-- reads: allocations, billed_hours, billed_nodes, cost_runs, coverage_gaps, node_devices, node_runs, node_stops, nodes, settings, unproven_ends, unseen_time
-- writes: warnings (stored): pods without a proven end, billed time without metrics, nodes that stopped
-- invariant: each row names its subject and its time; hours and cost are the attributed ones
-- only with: unproven_ends, unseen_time, billed_hours, node_stops, slurm_loads
-- One row per cluster and month: the maximum excess of pods without phases that may have been charged after they ended;
-- hours and cost as in cost_runs.
INSERT INTO warnings BY NAME
WITH cells AS (
    SELECT allocation_id, from_ms + later_ms AS from_ms, to_ms + later_ms AS to_ms, gpu_ms, cost
    FROM (SELECT *, unnest(range(hours)) * 3600000 AS later_ms FROM cost_runs SEMI JOIN unproven_ends USING (allocation_id))
),
parts AS (
    SELECT u.cluster, u.allocation_id, date_trunc('month', epoch_ms(h.from_ms)) AS month,
        greatest(h.from_ms, u.from_ms) AS from_ms, least(h.to_ms, u.to_ms) AS to_ms,
        (least(h.to_ms, u.to_ms) - greatest(h.from_ms, u.from_ms)) / (h.to_ms - h.from_ms) AS part, h.gpu_ms, h.cost
    FROM cells AS h JOIN unproven_ends AS u ON u.allocation_id = h.allocation_id AND u.from_ms < h.to_ms AND h.from_ms < u.to_ms
)
SELECT 'unproven_end' AS code, cluster, 'kube_pod_status_phase' AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('cluster {}: up to {:.1f} GPU-hours and {:.2f} {} between {}Z and {}Z may be charged too much: the phase of {} {} not scraped, '
        'so they count as running while their requests are listed',
        cluster, sum(part * gpu_ms) / 3600000, sum(part * cost)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M'),
        count(DISTINCT allocation_id), CASE count(DISTINCT allocation_id) WHEN 1 THEN 'pod was' ELSE 'pods was' END) AS message,
    'kube-state-metrics: keep kube_pod_status_phase in --metric-allowlist' AS fix
FROM parts CROSS JOIN settings AS c
GROUP BY cluster, month;
-- One row per cluster and month: machines billed while [[clusters]] declares the cluster off; hours and cost as in
-- unseen_time. Off hours without a bill are not included.
-- only with: unseen_time
INSERT INTO warnings BY NAME
WITH unseen AS (
    SELECT n.cluster, u.from_ms, u.to_ms, (u.to_ms - u.from_ms) * u.up_ratio / 3600000 AS hours, u.price_per_hour
    FROM unseen_time AS u JOIN nodes AS n USING (node_id)
),
declared AS (
    SELECT cluster, from_ms, to_ms FROM coverage_gaps WHERE kind = 'off' AND starts_with(reason, 'declared off')
),
parts AS (
    SELECT u.*, date_trunc('month', epoch_ms(u.from_ms)) AS month
    FROM unseen AS u ASOF JOIN declared AS d ON d.cluster = u.cluster AND u.from_ms >= d.from_ms
    WHERE u.from_ms < d.to_ms
)
SELECT 'off_but_billed' AS code, cluster, cluster AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('cluster {} was declared off, but billed: {:.1f} hours of its machines and {:.2f} {} between {}Z and {}Z, without metrics of their users',
        cluster, sum(hours), sum(hours * price_per_hour)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M')) AS message,
    'stop machines that need not run; otherwise declare these running hours in [[clusters]]' AS fix
FROM parts CROSS JOIN settings AS c
GROUP BY cluster, month;
-- One row per cluster and month: GPU machines of its accounts that are not nodes, and were billed only in its coverage
-- gaps. A machine billed for over 10 minutes of collected time belongs to another cluster: metrics would show it.
-- only with: billed_hours
INSERT INTO warnings BY NAME
WITH accounts AS (
    SELECT DISTINCT n.cluster, h.provider, h.account
    FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id)
),
strangers AS (
    SELECT a.cluster, h.instance_key, h.from_ms, h.to_ms, sum(h.instance_hours) AS hours, sum(h.effective_cost * h.rate) AS cost
    FROM billed_hours AS h
    JOIN accounts AS a ON a.provider = h.provider AND a.account IS NOT DISTINCT FROM h.account
    ANTI JOIN billed_nodes AS b ON b.instance_key = h.instance_key
    GROUP BY ALL
),
missed AS (
    SELECT p.cluster, p.from_ms, p.to_ms, sum(least(p.to_ms, g.to_ms) - greatest(p.from_ms, g.from_ms)) AS missed_ms
    FROM (SELECT DISTINCT cluster, from_ms, to_ms FROM strangers) AS p
    JOIN coverage_gaps AS g ON g.cluster = p.cluster AND g.kind IN ('not_collected', 'off') AND g.from_ms < p.to_ms AND p.from_ms < g.to_ms
    GROUP BY ALL
),
unseen AS (
    SELECT s.*
    FROM strangers AS s LEFT JOIN missed AS m USING (cluster, from_ms, to_ms)
    QUALIFY bool_and(s.hours * 3600000 <= coalesce(m.missed_ms, 0) + 600000) OVER (PARTITION BY s.cluster, s.instance_key)
)
SELECT 'billed_unseen' AS code, cluster, cluster AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('{} with GPUs {} billed only while cluster {} was not collected: {:.1f} hours and {:.2f} {} between {}Z and {}Z are not included',
        CASE count(DISTINCT instance_key) WHEN 1 THEN 'one machine' ELSE count(DISTINCT instance_key) || ' machines' END,
        CASE count(DISTINCT instance_key) WHEN 1 THEN 'was' ELSE 'were' END,
        cluster, sum(hours), coalesce(sum(cost), 0)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M')) AS message,
    'run gpucost reconcile, which lists them: they may belong to the cluster' AS fix
FROM unseen CROSS JOIN settings AS c
GROUP BY cluster, date_trunc('month', epoch_ms(from_ms));
-- One row per node and span of bridged time in which it did not run; spans of one node and reason do not touch.
-- only with: node_stops
INSERT INTO warnings BY NAME
WITH marked AS (
    SELECT s.*, coalesce(s.from_ms > lag(s.to_ms) OVER (PARTITION BY s.node_id, s.reason ORDER BY s.from_ms), true) AS begins
    FROM node_stops AS s
    -- another warning names nodes that are two machines
    WHERE s.reason <> 'mixed'
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY node_id, reason ORDER BY from_ms) AS number FROM marked
)
SELECT 'stopped_node' AS code, n.cluster, n.node AS subject, min(s.from_ms) AS from_ms, max(s.to_ms) AS to_ms,
    format('{:.1f} h of node {} are not charged: {}', (max(s.to_ms) - min(s.from_ms)) / 3600000, n.node,
        CASE s.reason WHEN 'boot' THEN 'it booted during a coverage gap, and may have been off before that'
            WHEN 'silent' THEN 'no exporter reported its GPUs'
            ELSE 'metrics are missing, and its bill does not include these hours' END) AS message,
    NULL AS fix
FROM numbered AS s JOIN nodes AS n USING (node_id)
GROUP BY n.cluster, n.node, s.node_id, s.reason, s.number;
-- One row per Slurm node with the name of a Kubernetes node or GPU pod, without proof that they are the same machine or
-- different ones.
-- only with: slurm_loads
INSERT INTO warnings BY NAME
WITH ours AS (
    -- Slurm's nodes have these labels
    FROM nodes WHERE machine_id IS NULL AND labels['label_node'] = node
),
alike AS (
    SELECT s.node_id, 'node' AS kind, k.cluster, k.up_from_ms AS from_ms, k.up_to_ms AS to_ms
    FROM ours AS s JOIN nodes AS k ON k.node = s.node AND coalesce(k.machine_gpus, k.gpu_count) = coalesce(s.machine_gpus, s.gpu_count) AND k.node_id NOT IN (SELECT node_id FROM ours)
    WHERE s.node_id NOT IN (SELECT node_id FROM node_devices) OR k.node_id NOT IN (SELECT node_id FROM node_devices)
    UNION ALL
    SELECT s.node_id, 'pod', a.cluster, a.held_from_ms, a.held_to_ms
    FROM ours AS s JOIN allocations AS a ON a.pod = s.node AND a.workload_kind NOT IN ('Job', 'Reservation', 'Host') AND a.gpus > 0
),
costs AS (
    SELECT s.cluster, s.node, l.kind, l.cluster AS other, min(r.from_ms) AS from_ms, max(r.to_ms + (r.hours - 1) * 3600000) AS to_ms, sum(r.node_cost * r.hours) AS cost
    FROM ours AS s
    JOIN (SELECT node_id, kind, min(cluster) AS cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM alike GROUP BY node_id, kind) AS l USING (node_id)
    JOIN node_runs AS r ON r.node_id = s.node_id AND r.from_ms < l.to_ms AND l.from_ms < r.to_ms + (r.hours - 1) * 3600000
    GROUP BY s.cluster, s.node, l.kind, l.cluster
)
SELECT 'unproven_machine' AS code, cluster, node AS subject, from_ms, to_ms,
    format('node {} of Slurm has the name of a {} of Kubernetes cluster {}, without proof that they are one machine: both are priced, {:.2f} {} of it twice if they are',
        node, kind, other, cost::DOUBLE, c.currency) AS message,
    'if they are one machine, set [slurm] in_kubernetes = ["' || node || '"], or make dcgm-exporter report hpc_job' AS fix
FROM costs CROSS JOIN settings AS c;
