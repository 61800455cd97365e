"""The type of a workload, from rules of the configuration, labels, owners, names and images, in that order."""

from __future__ import annotations

from tests.text_tables import table, words
from tests.unit.stage_tables import Tables

#: Pods, their types, owners, labels and images; names of pods x… do not indicate a type.
PODS = table("""
pod                  | type        | owner                     | labels | image
    bare                 | other       |                           | |
    stateful             | other       | StatefulSet/db            | |
    daemon               | other       | DaemonSet/agent           | |
    web                  | inference   | ReplicaSet/web-5d8        | |
    rollout              | inference   | Rollout/web               | |
    z-0                  | inference   | Deployment/z              | |
    torch                | training    | PyTorchJob/bert           | |
    jobset               | training    | JobSet/bert               | |
    job                  | training    | Job/bert-large            | |
    job-of-batch         | batch       | Job/embed-catalog         | |
    nightly-0            | batch       | Job/nightly-eval          | |
    job-that-trains      | training    | Job/train-batch-512       | |
    cron                 | batch       | CronJob/nightly           | |
    cron-that-trains     | training    | CronJob/retrain-weekly    | |
    x9                   | training    | CronJob/pretrain-llm      | |
    workflow             | batch       | Workflow/pipeline-x       | |
    workflow-that-trains | training    | Workflow/finetune-7b      | |
    user-notebook        | development |                           | |
    jupyter-ann          | development | StatefulSet/jupyter-ann   | |
    my-jupyter-0         | development | Deployment/my-jupyter     | |
    ide                  | development | ReplicaSet/code-server-7f | |
    by-image             | development | StatefulSet/ann           | | quay.io/jupyter/pytorch-notebook:cuda12
    x4                   | development |                           | | quay.io/Jupyter/base
    by-kind              | development | Notebook/ann              | |
    by-notebook          | development | StatefulSet/nb            | notebook_name=nb |
    papermill            | batch       | CronJob/nightly-notebook  | |
    by-app               | inference   | StatefulSet/llm           | app_kubernetes_io_name=vllm |
    x5                   | inference   |                           | app=vLLM |
    by-lws               | inference   | StatefulSet/llm-0         | leaderworkerset_sigs_k8s_io_name=llm |
    by-kserve            | inference   | StatefulSet/x             | serving_kserve_io_inferenceservice=x |
    job-of-kserve        | inference   | Job/x                     | serving_kserve_io_inferenceservice=x |
    by-kubeflow          | training    | StatefulSet/x             | training_kubeflow_org_job_name=x |
    by-trainer           | training    | StatefulSet/x             | trainer_kubeflow_org_trainjob_ancestor_step=x |
    by-jobset            | training    | Job/embed-0               | jobset_sigs_k8s_io_jobset_name=x |
    x3                   | training    |                           | jobset_sigs_k8s_io_jobset_name=x |
    ray                  | training    | RayCluster/r              | ray_io_cluster=r |
    x2                   | training    |                           | ray_io_cluster=r |
    ray-serves           | inference   | RayCluster/r              | ray_io_cluster=r ray_io_serve=true |
    x1                   | inference   |                           | ray_io_serve=true |
    ray-of-service       | inference   | RayCluster/r              | ray_io_cluster=r ray_io_originated_from_crd=RayService |
    by-own-label         | batch       | ReplicaSet/web-5d8        | gpucost_io_workload_type=Batch |
    label-of-no-type     | inference   | ReplicaSet/web-5d8        | gpucost_io_workload_type=web |
    web-of-ruled         | development | Deployment/web            | gpucost_io_workload_type=batch |
    ruled-by-name        | batch       | ReplicaSet/scorer-1       | gpucost_io_workload_type=training |
    ruled-by-label       | other       | ReplicaSet/web-5d8        | tier=test |
    not-ruled            | inference   | ReplicaSet/web-5d8        | tier=prod |
    x6                   | other       |                           | |""")
RULES = """
type_rules: type VARCHAR, ordinal INT, namespaces VARCHAR[], names VARCHAR[], kinds VARCHAR[], labels VARCHAR[]
'training', 0, ['*ruled'], ['web'], ['Job'], []
'development', 1, ['*of-ruled'], ['web'], ['Deployment'], []
'inference', 2, ['*of-ruled'], [], [], []
'batch', 3, [], ['scorer-*'], ['ReplicaSet', 'Deployment'], []
'training', 4, [], ['scorer-*'], [], []
'other', 5, ['n-*'], [], [], ['label_tier=test', 'label_tier=dev']

allocation_traits: allocation_id

cases: kind VARCHAR, name VARCHAR, pod VARCHAR, labels MAP(VARCHAR, VARCHAR), image VARCHAR, type VARCHAR
"""
# earlier labels belong to a notebook; the last pod has none
MADE = """
CREATE TEMP TABLE allocated AS SELECT row_number() OVER () AS allocation_id, 'c' AS cluster, 'n-' || pod AS namespace, pod,
    pod || kind AS uid, kind AS workload_kind, kind || '/' || name AS workload, 10::BIGINT AS held_from_ms,
    90::BIGINT AS held_to_ms, labels, image, type FROM cases;
CREATE TEMP TABLE label_history AS SELECT 'pod' AS kind, cluster, uid AS name, labels, 20 AS from_ms FROM allocated
    WHERE pod <> 'x6'
    UNION ALL SELECT 'pod', cluster, uid, MAP {'label_notebook_name': 'old'}, 10 FROM allocated WHERE pod <> 'x6';
INSERT INTO state_intervals BY NAME SELECT cluster, 'kube_pod_container_info' AS metric, uid, MAP {'image': image} AS labels
    FROM allocated WHERE image IS NOT NULL;
CREATE TEMP TABLE pods AS SELECT cluster, uid, type = 'batch' AS failed,
    CASE workload_kind WHEN 'Job' THEN 40 WHEN 'CronJob' THEN 95 WHEN 'Pod' THEN 5 END AS pending_to_ms FROM allocated"""
# the type of each pod, and whether its failure or start differ from the expected ones
FOUND = """
SELECT pod, workload_type, failed <> (type = 'batch') OR started_ms IS DISTINCT FROM
    CASE workload_kind WHEN 'Job' THEN 40 WHEN 'CronJob' THEN 90 WHEN 'Pod' THEN 10 END
FROM allocated JOIN allocation_traits USING (allocation_id)"""


def test_first_matching_rule_sets_the_workload_type(inventory: Tables) -> None:
    cases = []
    for row in PODS:
        kind, name = row.get("owner", f"Pod/{row['pod']}").split("/")
        labels = {f"label_{key}": value for key, value in words(row.get("labels", "")).items()}
        image = f"'{row['image']}'" if "image" in row else "NULL"
        label_map = f"MAP {labels}" if labels else "NULL"
        cases.append(f"'{kind}', '{name}', '{row['pod']}', {label_map}, {image}, '{row['type']}'")
    inventory.fill(RULES + "\n".join(cases))
    inventory.con.execute(MADE)
    inventory.run("inventory/43_workload_types")
    assert sorted(inventory.rows(FOUND)) == sorted((row["pod"], row["type"], False) for row in PODS)
