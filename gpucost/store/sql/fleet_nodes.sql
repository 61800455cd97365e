-- reads: the nodes of a described fleet, bound as one list per column
-- writes: nodes
-- invariant: node_id is the hash of (cluster, name)
INSERT INTO nodes BY NAME
SELECT hash(cluster, node) AS node_id, * FROM (
    SELECT unnest($cluster::VARCHAR[]) AS cluster, unnest($name::VARCHAR[]) AS node,
        unnest($from_ms::BIGINT[]) AS up_from_ms, unnest($to_ms::BIGINT[]) AS up_to_ms,
        unnest($provider::VARCHAR[]) AS provider, unnest($region::VARCHAR[]) AS region, unnest($zone::VARCHAR[]) AS zone,
        unnest($instance_type::VARCHAR[]) AS instance_type, unnest($capacity_type::VARCHAR[]) AS capacity_type,
        unnest($gpu_model::VARCHAR[]) AS gpu_model, unnest($gpus::DOUBLE[]) AS gpu_count
);
