-- A fleet of $gpus GPUs for $days days, as fleets.Fleet describes it, in the tables that loading its samples would fill.
CREATE TEMP TABLE pods AS
SELECT row_number() OVER (ORDER BY gpu, start_s) - 1 AS number, *,
    -- for pods that continue, the last ten-minute sample
    CASE WHEN stop_s < $end_s THEN stop_s ELSE start_s + ($end_s - 1 - start_s) // 600 * 600 END AS last_s
FROM (
    SELECT gpu, unnest(range($start_s + gpu * 37 % 60 * 60, $end_s, 172800)) AS start_s, least(start_s + 172800 - 120, $end_s) AS stop_s
    FROM range($gpus) AS g (gpu)
);
CREATE TEMP TABLE told AS
SELECT row_number() OVER () AS series_id, * FROM (
    SELECT metric, map_concat(MAP {'node': 'n' || n}, more) AS labels, value, $start_s AS first_s, $end_s - 60 AS last_s
    FROM range($gpus // 8) AS nodes (n), LATERAL (VALUES
        ('kube_node_created', MAP {'job': 'kube-state-metrics'}, $start_s),
        ('kube_node_info', MAP {'provider_id': format('aws:///us-east-1a/i-{:017x}', n)}, 1),
        ('kube_node_labels', MAP {
            'label_node_kubernetes_io_instance_type': 'p4d.24xlarge', 'label_topology_kubernetes_io_region': 'us-east-1',
            'label_karpenter_sh_capacity_type': CASE WHEN n % 3 > 0 THEN 'spot' ELSE 'on-demand' END,
            'label_nvidia_com_gpu_count': '8', 'label_nvidia_com_gpu_product': 'NVIDIA-A100-SXM4-40GB'}, 1)
    ) AS t (metric, more, value)
    UNION ALL
    SELECT metric, map_concat(MAP {'namespace': 'team-' || gpu % 40, 'pod': 'job-' || number, 'uid': 'u' || number}, more), value, from_s, to_s
    FROM pods, LATERAL (VALUES
        ('kube_pod_container_resource_requests', MAP {'node': 'n' || gpu // 8, 'container': 'main', 'resource': 'nvidia_com_gpu'},
            1, start_s, last_s),
        ('kube_pod_info', MAP {'node': 'n' || gpu // 8}, 1, start_s, last_s),
        ('kube_pod_status_scheduled_time', MAP {'job': 'kube-state-metrics'}, start_s, start_s, last_s),
        ('kube_pod_completion_time', MAP {'job': 'kube-state-metrics'}, stop_s, stop_s, stop_s),
        ('kube_pod_status_phase', MAP {'phase': 'Running'}, 1, start_s, stop_s - 60),
        ('kube_pod_status_phase', MAP {'phase': 'Succeeded'}, 1, stop_s, stop_s)
    ) AS t (metric, more, value, from_s, to_s)
    WHERE to_s < $end_s
);
INSERT INTO series
SELECT series_id, hash(series_id), 'bench', 'bench', metric, map_concat(labels, MAP {'job': 'kube-state-metrics', 'instance': 'ksm:8080'}) FROM told
UNION ALL
SELECT -number - 1, hash(-number - 1), 'bench', 'bench', 'DCGM_FI_DEV_GPU_UTIL', MAP {
    'job': 'dcgm', 'instance': format('n{}:9400', gpu // 8), 'gpu': (gpu % 8)::VARCHAR, 'UUID': 'GPU-' || gpu, 'Hostname': 'n' || gpu // 8,
    'modelName': 'NVIDIA A100-SXM4-40GB', 'namespace': 'team-' || gpu % 40, 'pod': 'job-' || number, 'container': 'main'}
FROM pods;
INSERT INTO states SELECT series_id, value, first_s * 1000, last_s * 1000 FROM told ORDER BY ALL;
INSERT INTO scrape_gaps
SELECT 'bench', 'bench', 'kube-state-metrics', 'ksm:8080', hour, 600000 FROM range($start_s // 3600, $end_s // 3600) AS h (hour);
INSERT INTO loads
SELECT number, 1, 'prometheus', 'bench', ($start_s + (number - 1) * 86400) * 1000, ($start_s + number * 86400) * 1000, $gpus * 1440, 0, now()
FROM range(1, $days + 1) AS d (number);
-- hours that are two thirds active, in intervals of 20 minutes
CREATE TEMP TABLE templates AS
SELECT phase, variant, list_transform(range(0, 3600, 60), lambda s: CASE
    WHEN (s // 1200 + phase) % 3 > 0 THEN 5 + hash(phase, variant, s) % 96 ELSE hash(phase, variant, s) % 5 END::DOUBLE) AS vals
FROM range(3) AS p (phase), range(1024) AS v (variant);
INSERT INTO blocks BY NAME
WITH hours AS (
    SELECT number, hour, greatest(0, -(-start_s // 60) * 60 - hour * 3600) AS first_s, least(3600, stop_s - hour * 3600) AS end_s
    FROM (SELECT *, unnest(range(start_s // 3600, (stop_s - 1) // 3600 + 1)) AS hour FROM pods)
),
sampled AS (
    SELECT h.number, h.hour, h.first_s, t.vals[h.first_s // 60 + 1:(h.end_s - 1) // 60 + 1] AS vals
    FROM hours AS h JOIN templates AS t ON t.phase = h.number % 3 AND t.variant = hash(h.number, h.hour) % 1024
    WHERE h.first_s < h.end_s
)
SELECT -number - 1 AS series_id, hour, len(vals) AS samples, list_sum(vals) AS value_sum,
    len(list_filter(vals[:-2], lambda v: v < 5)) AS idle_samples, 5 AS idle_threshold, first_s * 1000 AS first_offset_ms,
    CASE WHEN samples > 1 THEN 60000 END AS step_ms, step_ms AS gap_ms, first_offset_ms + (samples - 1) * 60000 AS last_offset_ms,
    vals[-1] AS last_value, vals
FROM sampled
ORDER BY hour // 24, series_id, hour;
