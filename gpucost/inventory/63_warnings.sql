-- reads: node_facts, shared_machines, twofold_nodes, allocation_teams, allocated, team_globs, node_devices, device_series, pods, collected, reservations, incarnations, missing_metrics
-- writes: warnings (stored), what a reader should know about nodes, pods and devices
-- invariant: each row names what it is about; fix is one command or setting, or null
INSERT INTO warnings BY NAME
SELECT 'unknown_capacity_type' AS code, cluster, node AS subject, up_from_ms AS from_ms, up_to_ms AS to_ms,
    'node ' || node || ' exports no labels: spot or on demand is unknown, priced on demand as an estimate' AS message,
    'kube-state-metrics --metric-labels-allowlist=nodes=[*]' AS fix
FROM node_facts WHERE capacity_type = 'unknown'
UNION ALL
SELECT 'unassigned_namespace', a.cluster, a.namespace, min(a.held_from_ms), max(a.held_to_ms),
    'namespace ' || a.namespace || ' belongs to no team: shown as unassigned',
    'add it to [[teams]] in gpucost.toml, or label the namespace'
FROM allocation_teams AS t JOIN allocated AS a USING (allocation_id)
-- what a reservation keeps free is nobody's
WHERE t.team = 'unassigned' AND NOT (a.namespace = '' AND a.resource IS NOT DISTINCT FROM 'reservation')
GROUP BY a.cluster, a.namespace
UNION ALL
SELECT 'team_overlap', a.cluster, a.namespace, NULL, NULL,
    'namespace ' || a.namespace || ' matches several teams (' || string_agg(DISTINCT g.team, ', ' ORDER BY g.team) || '): the first listed wins',
    'make the globs under [[teams]] exclude each other'
FROM (SELECT DISTINCT cluster, namespace FROM allocated) AS a
JOIN team_globs AS g ON a.namespace GLOB g.pattern AND (len(g.clusters) = 0 OR list_contains(g.clusters, a.cluster))
GROUP BY a.cluster, a.namespace
HAVING count(DISTINCT g.team) > 1
UNION ALL
SELECT 'pod_without_node', p.cluster, p.namespace || '/' || p.pod, p.held_from_ms, p.held_to_ms,
    'pod ' || p.namespace || '/' || p.pod || ' ran on node ' || p.node || ', of which no such GPUs are known: not attributed',
    'export kube_node_created and kube_node_status_capacity from kube-state-metrics'
FROM pods AS p LEFT JOIN allocated AS a ON a.cluster = p.cluster AND a.uid = p.uid AND a.gpus > 0
ANTI JOIN (FROM reservations WHERE gives_way) AS r ON r.cluster = p.cluster AND r.uid = p.uid
WHERE p.asks_gpus AND a.uid IS NULL AND (p.cluster, p.node) NOT IN (SELECT (cluster, node) FROM twofold_nodes)
    -- the same pod in the cluster that keeps its machine
    AND NOT ((p.cluster, p.node) IN (SELECT (cluster, node) FROM shared_machines) AND p.uid IN (SELECT uid FROM allocated)) AND EXISTS (
    FROM collected AS c WHERE c.cluster = p.cluster AND c.from_ms < p.held_to_ms AND p.held_from_ms < c.to_ms)
UNION ALL
SELECT 'unplaced_device', d.cluster, d.host, min(d.first_ms), max(d.last_ms),
    count(DISTINCT d.uuid) || ' GPUs measured on host ' || d.host || ' belong to no known node',
    'let dcgm-exporter report the node''s name (Hostname, or a node label by relabeling)'
FROM device_series AS d
WHERE NOT EXISTS (FROM node_devices AS n WHERE n.series_id = d.series_id) AND (d.cluster, d.host) NOT IN (SELECT (cluster, node) FROM shared_machines)
GROUP BY d.cluster, d.host
UNION ALL
SELECT 'no_uid' AS code, a.cluster, a.cluster AS subject, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    'cluster ' || a.cluster || ': ' || count(*) || CASE count(*) WHEN 1 THEN ' pod' ELSE ' pods' END
        || ' without the label uid: told apart by namespace, name, node and start, so one that follows another of its name may be taken for it' AS message,
    'keep uid on kube_pod_*: look for labeldrop and metric_relabel_configs in Prometheus'' scrape configuration' AS fix
FROM allocated AS a JOIN incarnations AS i ON i.cluster = a.cluster AND i.uid = a.uid AND i.is_given
GROUP BY a.cluster
UNION ALL
SELECT 'twofold_node', cluster, node, from_ms, to_ms,
    'node ' || node || ' is two machines at once (two provider ids): clusters are mixed up, and it is not collected',
    'set [prometheus] cluster_label to ' || coalesce('"' || label || '"', 'the label that names the cluster, an external label of the server')
FROM twofold_nodes
UNION ALL
SELECT 'shared_machine', cluster, node, min(from_ms), max(to_ms),
    'node ' || node || ' is the same machine as node ' || any_value(other_node) || ' of cluster ' || any_value(other_cluster) || ': it is paid for once, by that one',
    'delete Node objects of machines that have another; where a cluster''s label was lost for a while, restore it in Prometheus'
FROM shared_machines
GROUP BY cluster, node
UNION ALL
SELECT code, cluster, metric AS subject, from_ms, to_ms, message, fix FROM missing_metrics WHERE level = 'warning';
