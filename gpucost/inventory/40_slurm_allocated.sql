-- reads: slurm_holdings, slurm_units, slurm_machines, slurm_hosts, node_facts, slurm_runs, allocated
-- writes: slurm_places, the place of each Slurm node: a life of its own, or of a Kubernetes node; allocated, pods, pod_units: one row per (run of a job, life of a node's GPUs of one model) with held GPUs
-- invariant: gpus > 0; held_from_ms < held_to_ms within the node's life; uid names the run and its node
-- only with: slurm_loads
CREATE OR REPLACE TEMP TABLE slurm_places AS
SELECT cluster, node, gpu_model, false AS is_host, node_id, up_from_ms, up_to_ms FROM slurm_machines
UNION ALL
SELECT h.cluster, h.node, NULL, true, n.node_id, greatest(h.from_ms, n.up_from_ms), least(h.to_ms, n.up_to_ms)
FROM slurm_hosts AS h
JOIN node_facts AS n ON n.cluster = h.kube_cluster AND n.node = h.kube_node AND n.gpu_count > 0 AND n.up_from_ms < h.to_ms AND h.from_ms < n.up_to_ms;

INSERT INTO allocated BY NAME
SELECT CASE WHEN m.is_host THEN hash(h.cluster, h.job_id, h.submit_ms, m.node_id, h.node, m.up_from_ms)
        ELSE hash(h.cluster, h.job_id, h.submit_ms, m.node_id) END AS allocation_id,
    h.cluster, coalesce(r.account, '') AS namespace, r.job AS pod,
    -- unlike a pod, a job may be on several nodes
    h.job_id || '@' || h.submit_ms || '/' || h.node || '/' || coalesce(m.gpu_model, '') || '/' || m.up_from_ms AS uid,
    m.node_id,
    CASE WHEN count(DISTINCT (h.kind, h.type)) > 1 THEN 'mixed' ELSE any_value('gres_' || h.kind || coalesce('_' || h.type, '')) END AS resource,
    sum(h.units)::DOUBLE AS units, sum(h.units * u.share)::DOUBLE AS gpus,
    greatest(h.from_ms, m.up_from_ms) AS held_from_ms, least(h.to_ms, m.up_to_ms) AS held_to_ms,
    'Job' AS workload_kind, 'Job/' || coalesce(r.name, r.job) AS workload
FROM slurm_holdings AS h
JOIN slurm_units AS u ON u.cluster = h.cluster AND u.node = h.node AND u.kind = h.kind AND u.type IS NOT DISTINCT FROM h.type
JOIN slurm_places AS m ON m.cluster = h.cluster AND m.node = h.node AND (m.is_host OR m.gpu_model IS NOT DISTINCT FROM u.gpu_model)
    AND m.up_from_ms < h.to_ms AND h.from_ms < m.up_to_ms
JOIN slurm_runs AS r ON r.cluster = h.cluster AND r.job_id = h.job_id AND r.submit_ms = h.submit_ms
GROUP BY ALL;

INSERT INTO pods BY NAME
SELECT a.cluster, a.namespace, a.pod, a.uid, true AS asks_gpus, n.node, NULL AS pending_to_ms,
    r.state IN ('FAILED', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL') AS failed, a.held_from_ms, a.held_to_ms
FROM allocated AS a
JOIN node_facts AS n USING (node_id)
JOIN slurm_runs AS r ON r.cluster = a.cluster AND r.job_id || '@' || r.submit_ms = split_part(a.uid, '/', 1);

INSERT INTO pod_units BY NAME
SELECT a.cluster, a.uid, a.resource, a.units, a.gpus, bool_or(u.profile IS NOT NULL) AS sliced, bool_or(u.kind <> 'gpu') AS shared
FROM allocated AS a
JOIN slurm_places AS p ON p.cluster = a.cluster AND p.node = split_part(a.uid, '/', 2) AND p.node_id = a.node_id
JOIN slurm_units AS u ON u.cluster = p.cluster AND u.node = p.node AND (p.is_host OR u.gpu_model IS NOT DISTINCT FROM p.gpu_model)
    AND (a.resource = 'mixed' OR a.resource = 'gres_' || u.kind || coalesce('_' || u.type, ''))
GROUP BY ALL;
