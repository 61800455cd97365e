-- reads: node_facts
-- writes: nodes (stored), one row per node life that has GPUs
-- invariant: one row per node_id
INSERT INTO nodes BY NAME
SELECT node_id, cluster, node, machine_id, created_ms, up_from_ms, up_to_ms, provider, region, zone, instance_type,
    capacity_type, gpu_model, gpu_count, labels
FROM node_facts;
