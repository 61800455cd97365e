-- reads: state_intervals, node_facts, twofold_nodes, bridged_gaps
-- writes: node_stops (stored), uncharged time of a node: bridged time before it booted, as it may not have run; or time in which its name was two machines
-- invariant: rows of one reason and node do not overlap; a boot row begins with the gap and ends within it
-- only with: bridged_gaps, twofold_nodes
INSERT INTO node_stops BY NAME
WITH addresses AS (
    SELECT DISTINCT cluster, node, labels['internal_ip'] AS address FROM state_intervals WHERE metric = 'kube_node_info' AND node IS NOT NULL
    UNION
    SELECT DISTINCT cluster, node, node FROM node_facts
),
boots AS (
    SELECT DISTINCT f.cluster, a.node, round(f.value * 1000)::BIGINT AS boot_ms
    FROM state_intervals AS f
    JOIN addresses AS a ON a.cluster = f.cluster AND a.address = coalesce(
        f.node, f.labels['nodename'], f.labels['kubernetes_node'], regexp_replace(f.labels['instance'], ':[0-9]+$', ''))
    WHERE f.metric = 'node_boot_time_seconds'
)
SELECT n.node_id, greatest(g.from_ms, n.up_from_ms) AS from_ms, max(b.boot_ms) AS to_ms, 'boot' AS reason
FROM boots AS b
JOIN bridged_gaps AS g ON g.cluster = b.cluster AND g.from_ms < b.boot_ms AND b.boot_ms < g.to_ms
JOIN node_facts AS n ON n.cluster = b.cluster AND n.node = b.node AND n.up_from_ms < b.boot_ms AND b.boot_ms < n.up_to_ms
GROUP BY n.node_id, g.from_ms, n.up_from_ms
UNION ALL
SELECT n.node_id, greatest(t.from_ms, n.up_from_ms), least(t.end_ms, n.up_to_ms), 'mixed'
FROM twofold_nodes AS t JOIN node_facts AS n USING (cluster, node)
WHERE n.machine_id IS NOT NULL AND t.from_ms < n.up_to_ms AND n.up_from_ms < t.end_ms;
