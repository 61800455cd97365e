-- The time from $first_s until $until_s of a fleet that runs until $end_s, as fleets.Fleet describes it, in the tables that
-- loading its samples would fill. `pods`, `free` and `kinds` are its frames, and `kind_blocks` are the loaded blocks of the kinds.
CREATE TEMP TABLE reported AS
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
    FROM (SELECT *, least(stop, $end_s - 60) AS last FROM pods), LATERAL (VALUES
        ('kube_pod_container_resource_requests', MAP {'node': 'n' || gpu // 8, 'container': 'main', 'resource': 'nvidia_com_gpu'}, 1, start, last),
        ('kube_pod_info', MAP {'node': 'n' || gpu // 8}, 1, start, last),
        ('kube_pod_status_scheduled_time', MAP {'job': 'kube-state-metrics'}, start, start, last),
        ('kube_pod_status_phase', MAP {'phase': 'Running'}, 1, start, stop - 60),
        ('kube_pod_completion_time', MAP {'job': 'kube-state-metrics'}, stop, stop, stop),
        ('kube_pod_status_phase', MAP {'phase': 'Succeeded'}, 1, stop, stop)
    ) AS t (metric, more, value, from_s, to_s)
    WHERE to_s < $end_s
);
-- a series for each pod, and one for each GPU without a pod
CREATE TEMP TABLE spans AS
SELECT -number - 1 AS series_id, gpu, number % 3 AS phase, number, start, stop FROM pods
UNION ALL
SELECT -1000000000 - gpu, gpu, -1, 0, start, stop FROM free;
INSERT INTO series
SELECT series_id, hash(series_id), 'bench', 'bench', metric, map_concat(labels, MAP {'job': 'kube-state-metrics', 'instance': 'ksm:8080'})
FROM reported
WHERE first_s < $until_s AND series_id NOT IN (SELECT series_id FROM series)
UNION ALL
SELECT series_id, hash(series_id), 'bench', 'bench', 'DCGM_FI_DEV_GPU_UTIL', map_concat(MAP {
    'job': 'dcgm', 'instance': format('n{}:9400', gpu // 8), 'gpu': (gpu % 8)::VARCHAR, 'UUID': 'GPU-' || gpu, 'Hostname': 'n' || gpu // 8,
    'modelName': 'NVIDIA A100-SXM4-40GB'}, CASE WHEN phase < 0 THEN MAP {} ELSE MAP {
    'namespace': 'team-' || gpu % 40, 'pod': 'job-' || number, 'container': 'main'} END)
FROM (SELECT DISTINCT ON (series_id) * FROM spans WHERE start < $until_s)
WHERE series_id NOT IN (SELECT series_id FROM series);
DELETE FROM states;
INSERT INTO states
SELECT series_id, value, first_s * 1000, least(last_s, $until_s - 60) * 1000 FROM reported WHERE first_s < $until_s ORDER BY ALL;
INSERT INTO scrape_gaps
SELECT 'bench', 'bench', 'kube-state-metrics', 'ksm:8080', hour, 600000 FROM range($first_s // 3600, $until_s // 3600) AS h (hour);
INSERT INTO loads
SELECT (day_s - $start_s) // 86400 + 1, 1, 'prometheus', 'bench', day_s * 1000, (day_s + 86400) * 1000, $gpus * 1440, 0, now()
FROM range($first_s, $until_s, 86400) AS d (day_s);
CREATE TEMP TABLE typed_blocks AS
SELECT k.phase, k.value, k.late, k.half, k.first, k.last, b.* EXCLUDE (kind) FROM kind_blocks AS b JOIN kinds AS k USING (kind);
INSERT INTO blocks BY NAME
WITH hours AS (
    SELECT series_id, gpu, phase, number, hour, greatest(0, start - hour * 3600) // 300 AS first, (least(3600, stop - hour * 3600) - 1) // 300 AS last
    FROM (
        SELECT *, unnest(range(greatest(start, $first_s) // 3600, (least(stop, $until_s) - 1) // 3600 + 1)) AS hour
        FROM spans WHERE start < $until_s AND $first_s < stop
    )
),
typed AS (
    SELECT series_id, hour, phase, first, last, hour % 2 AS half, (gpu // 8 * 7 + hour // 2 * 13) % $kinds AS late,
        CASE WHEN phase >= 0 AND first = 0 AND last = 11 THEN (number * 31 + hour // 2 * 17) % $kinds ELSE 0 END AS value
    FROM hours
)
SELECT t.series_id, t.hour, b.* EXCLUDE (phase, value, late, half, first, last)
FROM typed AS t JOIN typed_blocks AS b USING (phase, value, late, half, first, last)
ORDER BY t.hour // 24, t.series_id, t.hour;
