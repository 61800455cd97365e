-- reads: allocated, label_history, state_intervals, type_rules, pods
-- writes: allocation_traits (stored), one row per allocation: its type, when it began to run, whether it failed
-- invariant: held_from_ms <= started_ms <= held_to_ms; docs/waste.md lists the rules in this order
INSERT INTO allocation_traits BY NAME
WITH kinds (kind, type) AS (
    VALUES
        ('PyTorchJob', 'training'), ('MPIJob', 'training'), ('TFJob', 'training'), ('XGBoostJob', 'training'), ('PaddleJob', 'training'),
        ('JAXJob', 'training'), ('MXJob', 'training'), ('TrainJob', 'training'), ('JobSet', 'training'), ('RayJob', 'training'),
        ('RayCluster', 'training'), ('Experiment', 'training'), ('Trial', 'training'), ('Job', 'training'),
        ('CronJob', 'batch'), ('Workflow', 'batch'), ('CronWorkflow', 'batch'), ('PipelineRun', 'batch'),
        ('TaskRun', 'batch'), ('SparkApplication', 'batch'),
        ('Deployment', 'inference'), ('ReplicaSet', 'inference'), ('ReplicationController', 'inference'), ('InferenceService', 'inference'),
        ('LeaderWorkerSet', 'inference'), ('Rollout', 'inference'), ('RayService', 'inference'), ('Revision', 'inference'),
        ('Notebook', 'development')
),
images AS (
    SELECT f.cluster, f.uid, string_agg(DISTINCT lower(coalesce(nullif(f.labels['image_spec'], ''), f.labels['image'])), ' ') AS images
    FROM state_intervals AS f SEMI JOIN allocated AS a ON a.cluster = f.cluster AND a.uid = f.uid
    WHERE f.metric = 'kube_pod_container_info'
    GROUP BY ALL
),
described AS (
    SELECT a.allocation_id, a.cluster, a.namespace, a.pod, a.workload_kind, k.type AS kind_type,
        a.workload[length(a.workload_kind) + 2:] AS name,
        coalesce(l.labels, MAP {}::MAP(VARCHAR, VARCHAR)) AS labels,
        lower(concat_ws(' ', l.labels['label_app'], l.labels['label_app_kubernetes_io_name'], l.labels['label_app_kubernetes_io_component'],
            l.labels['label_component'])) AS app,
        lower(concat_ws(' ', a.workload, a.pod)) AS names,
        coalesce(i.images, '') AS images
    FROM allocated AS a
    LEFT JOIN (
        FROM label_history WHERE kind = 'pod' QUALIFY row_number() OVER (PARTITION BY cluster, name ORDER BY from_ms DESC) = 1
    ) AS l ON l.cluster = a.cluster AND l.name = a.uid
    LEFT JOIN images AS i ON i.cluster = a.cluster AND i.uid = a.uid
    LEFT JOIN kinds AS k ON k.kind = a.workload_kind
),
ruled AS (
    SELECT d.allocation_id, arg_min(r.type, r.ordinal) AS type
    FROM described AS d
    JOIN type_rules AS r
        ON (len(r.namespaces) = 0 OR len(list_filter(r.namespaces, lambda p: d.namespace GLOB p)) > 0)
        AND (len(r.names) = 0 OR len(list_filter(r.names, lambda p: d.name GLOB p OR d.pod GLOB p)) > 0)
        AND (len(r.kinds) = 0 OR list_contains(r.kinds, d.workload_kind))
        AND (len(r.labels) = 0 OR list_has_any(r.labels, list_transform(map_entries(d.labels), lambda e: e.key || '=' || e.value)))
    GROUP BY ALL
),
marked AS (
    SELECT *,
        len(list_filter(map_keys(labels), lambda k: starts_with(k, 'label_serving_kserve_io_') OR starts_with(k, 'label_serving_knative_dev_')
            OR k = 'label_leaderworkerset_sigs_k8s_io_name')) > 0 AS serves,
        len(list_filter(map_keys(labels), lambda k: starts_with(k, 'label_ray_io_'))) > 0 AS on_ray,
        len(list_filter(map_keys(labels), lambda k: starts_with(k, 'label_training_kubeflow_org_')
            OR starts_with(k, 'label_trainer_kubeflow_org_') OR starts_with(k, 'label_jobset_sigs_k8s_io_'))) > 0 AS trains
    FROM described
),
workload_types AS (
    -- one row per allocation: training, inference, development, batch or other
    SELECT s.allocation_id,
        CASE
            WHEN r.type IS NOT NULL THEN r.type
            WHEN lower(s.labels['label_gpucost_io_workload_type']) IN ('training', 'inference', 'development', 'batch', 'other')
                THEN lower(s.labels['label_gpucost_io_workload_type'])
            WHEN s.labels['label_notebook_name'] IS NOT NULL THEN 'development'
            WHEN s.serves THEN 'inference'
            WHEN s.on_ray AND (s.labels['label_ray_io_originated_from_crd'] = 'RayService' OR s.labels['label_ray_io_serve'] = 'true') THEN 'inference'
            WHEN s.on_ray OR s.trains THEN 'training'
            -- a workload that runs to its end may be either: its name decides
            WHEN (s.kind_type = 'batch' OR s.workload_kind = 'Job') AND regexp_matches(concat_ws(' ', s.names, s.app), '(^|[^a-z])((pre|re)-?)?train|fine-?tun') THEN 'training'
            WHEN s.workload_kind = 'Job' AND regexp_matches(concat_ws(' ', s.names, s.app), '(^|[^a-z])(batch|etl|infer|predict|embed|eval|process|preprocess|postprocess|export|convert|transcode|render|index|backfill)')
                THEN 'batch'
            WHEN s.kind_type IN ('training', 'batch') THEN s.kind_type
            WHEN regexp_matches(concat_ws(' ', s.names, s.app, s.images), 'jupyter|notebook|code-?server|singleuser-server|rstudio|vscode')
                THEN 'development'
            WHEN regexp_matches(s.app, 'vllm|triton|text-generation-inference|sglang|inference|ollama') THEN 'inference'
            ELSE coalesce(s.kind_type, 'other')
        END AS workload_type
    FROM marked AS s LEFT JOIN ruled AS r USING (allocation_id)
)
SELECT a.allocation_id, t.workload_type, p.failed,
    CASE WHEN p.pending_to_ms IS NOT NULL THEN greatest(a.held_from_ms, least(p.pending_to_ms, a.held_to_ms))::BIGINT END AS started_ms
FROM allocated AS a
JOIN workload_types AS t USING (allocation_id)
JOIN pods AS p ON p.cluster = a.cluster AND p.uid = a.uid;
