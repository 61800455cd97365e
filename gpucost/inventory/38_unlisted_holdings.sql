-- reads: pods, pod_requests, node_traits, state_intervals, collected, unlisted_holdings
-- writes: unlisted_holdings, pods that held resources that no table lists, with node and collected time; part is the pod's part of the node's units; unlisted_nodes, nodes with such pods and without known accelerators, with the columns of nodes
-- invariant: from_ms < to_ms; 0 < part <= 1; no unlisted node is in node_facts
-- only with: share_hints
INSERT INTO unlisted_holdings BY NAME
WITH offered AS (
    SELECT n.node_id, f.resource, max(f.value) AS units
    FROM node_traits AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    WHERE is_unlisted(f.resource) AND f.value > 0
    GROUP BY ALL
)
SELECT p.cluster, p.namespace, p.uid, n.node_id, r.resource, r.units, least(1, coalesce(r.units / o.units, 1)) AS part,
    greatest(p.held_from_ms, n.up_from_ms, c.from_ms) AS from_ms, least(p.held_to_ms, n.up_to_ms, c.to_ms) AS to_ms
FROM pods AS p
JOIN pod_requests AS r USING (cluster, uid)
JOIN node_traits AS n ON n.cluster = p.cluster AND n.node = p.node AND n.up_from_ms < p.held_to_ms AND p.held_from_ms < n.up_to_ms
JOIN collected AS c ON c.cluster = p.cluster AND c.from_ms < least(p.held_to_ms, n.up_to_ms) AND greatest(p.held_from_ms, n.up_from_ms) < c.to_ms
LEFT JOIN offered AS o ON o.node_id = n.node_id AND o.resource = r.resource
WHERE is_unlisted(r.resource);

INSERT INTO unlisted_nodes BY NAME
SELECT node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms, provider, region, zone, instance_type,
    capacity_type, gpu_model, 1::DOUBLE AS gpu_count, labels
FROM node_traits AS n
SEMI JOIN unlisted_holdings USING (node_id)
WHERE coalesce(n.gpu_count, 0) <= 0;
