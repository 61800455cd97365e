-- reads: slurm_devices, slurm_units, slurm_machines, allocated, node_devices, series
-- writes: told_devices, one row per (run of a job on a node, device that scontrol reports for it)
-- invariant: devices are whole GPUs of the node, measured while the run held GPUs
-- only with: slurm_loads
INSERT INTO told_devices BY NAME
WITH told AS (
    SELECT cluster, job_id || '@' || submit_ms AS run, node, nullif(type, '') AS type, unnest(gpus) AS gpu FROM slurm_devices
)
SELECT DISTINCT a.allocation_id, d.device_id
FROM told AS t
JOIN allocated AS a ON a.cluster = t.cluster AND split_part(a.uid, '/', 1) = t.run AND split_part(a.uid, '/', 2) = t.node
JOIN slurm_machines AS m ON m.node_id = a.node_id
JOIN slurm_units AS u ON u.cluster = t.cluster AND u.node = t.node AND u.kind = 'gpu' AND u.profile IS NULL
    AND u.type IS NOT DISTINCT FROM t.type AND u.gpu_model IS NOT DISTINCT FROM m.gpu_model
JOIN node_devices AS d ON d.node_id = a.node_id AND d.gpu_instance_id = '' AND d.first_ms < a.held_to_ms AND a.held_from_ms <= d.last_ms
JOIN series AS s ON s.series_id = d.series_id AND try_cast(s.labels['gpu'] AS INTEGER) = t.gpu;
