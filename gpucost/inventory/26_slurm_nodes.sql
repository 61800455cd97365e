-- reads: slurm_machines, slurm_nodes, node_facts
-- writes: node_facts, nodes (stored), one row per life of a node's GPUs of one model
-- invariant: labels hold Slurm's facts about the node, several values separated by commas: partition, feature, node
-- only with: slurm_loads
-- rows from measured GPUs alone give way to Slurm's facts
DELETE FROM node_facts WHERE node_id IN (SELECT node_id FROM slurm_machines);
DELETE FROM nodes WHERE node_id IN (SELECT node_id FROM slurm_machines);

INSERT INTO node_facts BY NAME
WITH described AS (
    SELECT * FROM slurm_nodes QUALIFY row_number() OVER (PARTITION BY cluster, node ORDER BY seen_ms DESC) = 1
)
SELECT m.node_id, m.cluster, m.node, m.created_ms, m.up_from_ms, m.up_to_ms, d.instance_type, 'on_demand' AS capacity_type, m.gpu_model, m.gpu_count,
    7::DOUBLE AS mig_slices,
    map_from_entries(list_filter([
        {'k': 'label_node', 'v': m.node},
        {'k': 'label_nvidia_com_gpu_product', 'v': m.type},
        {'k': 'label_partition', 'v': array_to_string(d.partitions, ',')},
        {'k': 'label_feature', 'v': array_to_string(d.features, ',')}], lambda entry: coalesce(entry.v, '') <> '')) AS labels
FROM slurm_machines AS m LEFT JOIN described AS d USING (cluster, node);

INSERT INTO nodes BY NAME
SELECT m.node_id, m.cluster, m.node, f.created_ms, f.up_from_ms, f.up_to_ms, f.instance_type, f.capacity_type, f.gpu_model, f.gpu_count, f.labels,
    nullif(m.machine_gpus, m.gpu_count) AS machine_gpus
FROM slurm_machines AS m JOIN node_facts AS f USING (node_id);
