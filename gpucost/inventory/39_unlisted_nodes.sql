-- reads: node_traits, unlisted_holdings
-- writes: unlisted_nodes, the nodes without known accelerators on which pods held what no table knows, as nodes are stored
-- invariant: none of them is in node_facts
INSERT INTO unlisted_nodes BY NAME
SELECT node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms, provider, region, zone, instance_type,
    capacity_type, gpu_model, 1::DOUBLE AS gpu_count, labels
FROM node_traits AS n
SEMI JOIN unlisted_holdings USING (node_id)
WHERE coalesce(n.gpu_count, 0) <= 0;
