-- reads: $facts, columns as parallel lists
-- writes: instance_types
-- invariant: one row per element
INSERT INTO instance_types
SELECT
    $provider,
    unnest($instance_type::VARCHAR[]),
    unnest($gpu_model::VARCHAR[]),
    unnest($gpu_count::DOUBLE[]),
    unnest($gpu_memory_mib::INTEGER[]),
    unnest($vcpus::DOUBLE[]),
    unnest($memory_gib::DOUBLE[]),
    $seen_on,
    unnest($source::VARCHAR[]);
