-- reads: node_facts, shared_machines, twofold_nodes, allocation_teams, allocated, team_globs, node_devices, device_series, pods, collected, reservations, incarnations, missing_metrics, scale_remarks, state_intervals, settings, plain_hosts, blocks
-- writes: warnings (stored), about nodes, pods and devices
-- invariant: each row names its subject; fix is one command or setting, or null
INSERT INTO warnings BY NAME
SELECT 'unknown_capacity_type' AS code, cluster, node AS subject, up_from_ms AS from_ms, up_to_ms AS to_ms,
    'node ' || node || ' exports no labels: its capacity type is unknown, priced on-demand as an estimate' AS message,
    CASE WHEN node_id IN (SELECT node_id FROM plain_hosts) THEN 'add a machine without Kubernetes to [[hosts]]'
        ELSE 'kube-state-metrics --metric-labels-allowlist=nodes=[*]' END AS fix
FROM node_facts WHERE capacity_type = 'unknown' AND labels IS NULL
UNION ALL
SELECT 'no_capacity_label', cluster, cluster, min(up_from_ms), max(up_to_ms),
    'no node of cluster ' || cluster || ' has a capacity type label: its GPU nodes are priced on-demand as an estimate, and left out of the spot ratio',
    'kube-state-metrics --metric-labels-allowlist=nodes=[*]; if all labels are exported and no node is spot, load a bill'
FROM node_facts WHERE capacity_type = 'unknown' AND labels IS NOT NULL
GROUP BY cluster
UNION ALL
SELECT 'unassigned_namespace', a.cluster, a.namespace, min(a.held_from_ms), max(a.held_to_ms),
    'namespace ' || a.namespace || ' has no team: shown as unassigned',
    'add it to [[teams]] in gpucost.toml, or label the namespace'
FROM allocation_teams AS t JOIN allocated AS a USING (allocation_id)
-- free GPUs of a reservation have no owner
WHERE t.team = 'unassigned' AND NOT (a.namespace = '' AND a.resource IS NOT DISTINCT FROM 'reservation')
GROUP BY a.cluster, a.namespace
UNION ALL
SELECT 'label_conflict', f.cluster, f.namespace, min(f.first_ms), max(f.end_ms),
    format('{0}_conflict1 = {1} and {0}_conflict2 = {2} on {3} of namespace {4}: Prometheus reads two labels as one, shown as unassigned',
        f.label, f.labels[f.label || '_conflict1'], f.labels[f.label || '_conflict2'],
        CASE f.metric WHEN 'kube_pod_labels' THEN count(DISTINCT f.uid) || ' pods' ELSE 'the labels' END, f.namespace),
    'remove one of the two labels, or set another label in [team_labels] in gpucost.toml'
FROM (
    SELECT i.*, CASE i.metric WHEN 'kube_pod_labels' THEN c.team_pod_label ELSE c.team_namespace_label END AS label
    FROM state_intervals AS i CROSS JOIN settings AS c
    WHERE i.metric IN ('kube_pod_labels', 'kube_namespace_labels')
) AS f
SEMI JOIN allocated AS a ON a.cluster = f.cluster AND a.namespace = f.namespace
WHERE f.labels[f.label || '_conflict1'] <> f.labels[f.label || '_conflict2']
GROUP BY f.cluster, f.namespace, f.metric, f.label, f.labels[f.label || '_conflict1'], f.labels[f.label || '_conflict2']
UNION ALL
SELECT 'pod_without_node', p.cluster, p.namespace || '/' || p.pod, p.held_from_ms, p.held_to_ms,
    'pod ' || p.namespace || '/' || p.pod || ' ran on node ' || p.node || ', which has no known GPUs of this kind: not attributed',
    'export kube_node_created and kube_node_status_capacity from kube-state-metrics'
FROM pods AS p LEFT JOIN allocated AS a ON a.cluster = p.cluster AND a.uid = p.uid AND a.gpus > 0
ANTI JOIN (FROM reservations WHERE gives_way) AS r ON r.cluster = p.cluster AND r.uid = p.uid
WHERE p.asks_gpus AND a.uid IS NULL
    -- the cluster that keeps the machine has the same pod
    AND NOT ((p.cluster, p.node) IN (SELECT (cluster, node) FROM shared_machines) AND p.uid IN (SELECT uid FROM allocated)) AND EXISTS (
    FROM collected AS c WHERE c.cluster = p.cluster AND c.from_ms < p.held_to_ms AND p.held_from_ms < c.to_ms)
UNION ALL
SELECT 'unplaced_device', d.cluster, d.host, min(d.first_ms), max(d.last_ms),
    count(DISTINCT d.uuid) || ' GPUs measured on host ' || d.host || ' belong to no known node',
    'make dcgm-exporter report the node''s name (Hostname, or a node label by relabeling), or add a machine without Kubernetes to [[hosts]]'
FROM device_series AS d
WHERE NOT EXISTS (FROM node_devices AS n WHERE n.series_id = d.series_id) AND (d.cluster, d.host) NOT IN (SELECT (cluster, node) FROM shared_machines)
GROUP BY d.cluster, d.host
UNION ALL
SELECT code, cluster, metric AS subject, from_ms, to_ms, message, fix FROM missing_metrics
-- if [[hosts]] names every host, kube-state-metrics is not needed
WHERE level = 'warning' AND (code <> 'no_kube_state_metrics' OR cluster IN (SELECT cluster FROM plain_hosts WHERE labels IS NULL)
    OR cluster NOT IN (SELECT cluster FROM plain_hosts));

-- only with: team_globs
INSERT INTO warnings BY NAME
SELECT 'team_overlap' AS code, a.cluster, a.namespace AS subject,
    'namespace ' || a.namespace || ' matches several teams (' || string_agg(DISTINCT g.team, ', ' ORDER BY g.team) || '): the first listed wins' AS message,
    'make the globs in [[teams]] exclusive' AS fix
FROM (SELECT DISTINCT cluster, namespace FROM allocated) AS a
JOIN team_globs AS g ON a.namespace GLOB g.pattern AND (len(g.clusters) = 0 OR list_contains(g.clusters, a.cluster))
GROUP BY a.cluster, a.namespace
HAVING count(DISTINCT g.team) > 1;

-- only with: incarnations, twofold_nodes, shared_machines, scale_remarks, plain_hosts
INSERT INTO warnings BY NAME
SELECT 'no_uid' AS code, a.cluster, a.cluster AS subject, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    'cluster ' || a.cluster || ': ' || count(*) || CASE count(*) WHEN 1 THEN ' pod' ELSE ' pods' END
        || ' without the label uid: identified by namespace, name, node and start, so pods that reuse a name may be confused' AS message,
    'keep uid on kube_pod_*: check labeldrop and metric_relabel_configs in Prometheus'' scrape configuration' AS fix
FROM allocated AS a JOIN incarnations AS i ON i.cluster = a.cluster AND i.uid = a.uid AND i.is_given
GROUP BY a.cluster
UNION ALL
SELECT 'twofold_node', cluster, node, from_ms, end_ms,
    'node ' || node || ' is two machines at once (two provider ids): several clusters are mixed, and the node is not collected',
    fix
FROM twofold_nodes
UNION ALL
SELECT 'shared_machine', cluster, node, min(from_ms), max(to_ms),
    'node ' || node || ' is the same machine as node ' || any_value(other_node) || ' of cluster ' || any_value(other_cluster) || ': charged once, as that node',
    'delete the stale Node object; if the cluster label was lost temporarily, restore it in Prometheus'
FROM shared_machines
GROUP BY cluster, node
UNION ALL
FROM scale_remarks
UNION ALL
SELECT 'host_without_users', h.cluster, h.cluster, min(h.up_from_ms), max(h.up_to_ms),
    format('GPUs on plain hosts in cluster {} have no known users ({}): their time is unallocated, but never counts as empty; the GPUs were active in {:.1f} % of their samples',
        h.cluster, array_to_string(list_sort(list(DISTINCT h.node))[:9], ', '),
        -- idle_samples excludes the last sample of an hour
        100 - 100 * sum(b.idle_samples + (b.last_value < b.idle_threshold)::INTEGER) / sum(b.samples)),
    coalesce('no activity metric of these hosts has the label ' || h.user_label || ': correct [[hosts]] user_label',
        'set [[hosts]] user_label to the label of activity metrics that names the user')
FROM plain_hosts AS h JOIN node_devices AS d USING (node_id) JOIN blocks AS b USING (series_id)
WHERE d.scale = d.usual_scale AND h.labels IS NOT NULL AND h.node_id NOT IN (SELECT node_id FROM allocated)
GROUP BY h.cluster, h.user_label;
