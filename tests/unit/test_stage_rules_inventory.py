"""Rules of single SQL stages of who held what, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000


def test_a_pod_ran_on_the_first_of_two_nodes_of_a_name(tables: Tables) -> None:
    tables.make(
        "pods: cluster VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT",
        "'c', 'u', 'n', 10, 90",
    )
    tables.make(
        "node_facts: node_id INT, cluster VARCHAR, node VARCHAR, created_ms BIGINT, up_from_ms BIGINT, up_to_ms BIGINT",
        "1, 'c', 'n', NULL, 0, 50",
        "2, 'c', 'n', NULL, 60, 100",
    )
    tables.run("inventory/33_pod_nodes")
    assert tables.rows("FROM pod_nodes") == [("c", "u", 1, 10, 50)]


def test_a_node_that_began_when_a_pod_ended_held_nothing_of_it(inventory: Tables) -> None:
    inventory.make(
        "pods: cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT",
        "'c', 'ns', 'u', 'n', 10, 50",
    )
    inventory.make(
        "pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE", "'c', 'u', 'x_org_y', 2"
    )
    inventory.make(
        "node_traits: node_id INT, cluster VARCHAR, node VARCHAR, machine_id VARCHAR, created_ms BIGINT, up_from_ms BIGINT,"
        " up_to_ms BIGINT, provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, capacity_type VARCHAR,"
        " gpu_model VARCHAR, gpu_count DOUBLE, labels MAP(VARCHAR, VARCHAR)",
        *(
            f"{node}, 'c', 'n', NULL, NULL, {up}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
            for node, up in ((1, "0, 50"), (2, "50, 90"))
        ),
    )
    inventory.add("state_intervals: cluster, node, metric, resource, value, first_ms, last_ms",
                  "'c', 'n', 'kube_node_status_capacity', 'x_org_y', 8, 0, 40")  # fmt: skip
    inventory.add("collected: cluster, from_ms, to_ms", "'c', 0, 100")
    inventory.run("inventory/38_unlisted_holdings")
    assert inventory.rows("SELECT node_id, units, part, from_ms, to_ms FROM unlisted_holdings") == [
        (1, 2, 0.25, 10, 50)
    ]
    assert inventory.rows("SELECT node_id FROM unlisted_nodes") == [(1,)]


def test_a_number_is_above_none_and_at_most_the_most_that_makes_sense(inventory: Tables) -> None:
    texts = ["0", "-1", "nan", "inf", "100.5", "x", "0.5", "100"]
    numbers = inventory.con.execute(
        "SELECT quantity(text, 100) FROM unnest(?) AS t(text)", [texts]
    ).fetchall()
    assert [number for (number,) in numbers] == [None, None, None, None, None, None, 0.5, 100]


def test_what_a_target_tells_holds_for_as_long_as_its_scrapes_lie_apart(inventory: Tables) -> None:
    series = "series: series_id, source, cluster, metric, labels"
    for number, (job, instance) in enumerate((("a", "i"), ("a", "j"), ("b", "i"))):
        labels = f"MAP {{'job': '{job}', 'instance': '{instance}', 'node': 'n'}}"
        inventory.add(series, f"{number}, 's', 'c', 'kube_node_info', {labels}")
        inventory.add("states: series_id, value, first_ms, last_ms", f"{number}, 1, {HOUR}, {HOUR + 1000}")
    inventory.add("scrape_gaps: source, cluster, job, instance, hour, gap_ms", "'s', 'c', 'a', 'i', 1, 15000")
    inventory.run("inventory/11_state_intervals")
    spans = inventory.rows(
        "SELECT labels['job'], labels['instance'], first_ms - begin_ms, end_ms - last_ms FROM state_intervals ORDER BY ALL"
    )
    assert spans == [("a", "i", 15000, 15000), ("a", "j", 15000, 15000), ("b", "i", 60000, 60000)]


def test_a_node_that_offers_none_of_a_part_of_devices_has_no_virtual_devices(inventory: Tables) -> None:
    inventory.make(
        "resources: pattern VARCHAR, kind VARCHAR, vendor VARCHAR, size DOUBLE, devices VARCHAR, instance_type VARCHAR",
        "'gpumem', 'memory', 'nvidia', 1, 'gpu', NULL",
    )
    inventory.make("claim_series: metric VARCHAR, kind VARCHAR, uid VARCHAR, claim VARCHAR")
    inventory.add(
        "state_intervals: cluster, metric, node, resource, value",
        "'c', 'kube_node_status_capacity', 'some', 'gpumem', 40",
        "'c', 'kube_node_status_capacity', 'none', 'gpumem', 0",
    )
    inventory.run("inventory/12_resource_kinds")
    assert inventory.rows("FROM virtual_devices") == [("c", "some", "gpu")]


def test_of_a_job_whose_rest_divides_by_its_other_nodes_it_is_told_how_it_lies(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.make(
        "slurm_spans: cluster VARCHAR, job_id INT, submit_ms BIGINT, nodes VARCHAR[], alloc_tres VARCHAR, from_ms BIGINT,"
        " to_ms BIGINT, names_gpus BOOLEAN",
        "'c', 1, 0, ['a', 'b', 'd', 'e'], 'gres/gpu=8', 0, 100, true",
        "'c', 2, 0, ['a', 'b', 'd'], 'gres/gpu=8', 0, 100, true",
        "'c', 3, 0, ['a', 'b'], 'gres/gpu=8', 0, 100, true",
    )
    inventory.add(
        "slurm_steps: cluster, job_id, step, nodes, alloc_tres, start_ms",
        "'c', 1, 'batch', ['a'], 'gres/gpu=2', 0",
        "'c', 2, 'batch', ['a'], 'gres/gpu=1', 0",
    )
    inventory.run("inventory/19_slurm_holdings")
    assert inventory.rows(
        "SELECT job_id, node, units, is_even FROM slurm_holdings ORDER BY job_id, node"
    ) == [
        (1, "a", 2, False),
        (1, "b", 2, False),
        (1, "d", 2, False),
        (1, "e", 2, False),
        (2, "a", 1, True),
        (2, "b", 3.5, True),
        (2, "d", 3.5, True),
        (3, "a", 4, True),
        (3, "b", 4, True),
    ]


def test_a_series_that_begins_as_its_pod_ends_was_measured_where_the_pod_ran(inventory: Tables) -> None:
    inventory.make(
        "node_lifetimes: node_id INT, cluster VARCHAR, node VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT",
        "1, 'c', 'n', 0, 100",
    )
    inventory.con.execute(
        "CREATE TEMP TABLE device_series AS SELECT * EXCLUDE (node_id, up_from_ms, up_to_ms, device_id) FROM node_devices"
    )
    inventory.make("device_hosts: cluster VARCHAR, host VARCHAR, node_label VARCHAR, node VARCHAR")
    inventory.add(
        "device_series: series_id, cluster, namespace, pod, host, uuid, gpu_instance_id, first_ms, last_ms",
        "1, 'c', 'ns', 'p', 'ip', 'GPU-1', '', 50, 60",
        "2, 'c', 'ns', 'p', 'ip', 'GPU-2', '', 51, 60",
    )
    inventory.add(
        "state_intervals: cluster, metric, namespace, pod, node, first_ms, last_ms, end_ms",
        "'c', 'kube_pod_info', 'ns', 'p', 'n', 0, 40, 50",
    )
    inventory.run("inventory/25_node_devices")
    assert inventory.rows("SELECT series_id, node_id, up_from_ms, up_to_ms FROM node_devices") == [
        (1, 1, 0, 100)
    ]


def test_a_node_of_slurm_is_as_it_was_described_last(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.make(
        "slurm_machines: node_id INT, cluster VARCHAR, node VARCHAR, created_ms BIGINT, up_from_ms BIGINT, up_to_ms BIGINT,"
        " gpu_model VARCHAR, type VARCHAR, gpu_count DOUBLE, machine_gpus DOUBLE",
        "1, 'c', 'n', NULL, 0, 100, 'A100', 'a100', 8, 8",
    )
    inventory.con.execute(
        "CREATE TEMP TABLE node_facts AS SELECT *, NULL::DOUBLE AS mig_slices FROM main.nodes LIMIT 0"
    )
    inventory.add("nodes: node_id")
    inventory.add(
        "slurm_nodes: cluster, node, instance_type, seen_ms, partitions",
        "'c', 'n', 'old', 10, ['p']",
        "'c', 'n', 'new', 20, ['q', 'r']",
        "'c', 'n', 'older', 5, ['p']",
    )
    inventory.run("inventory/26_slurm_nodes")
    assert inventory.rows("SELECT instance_type, gpu_count, labels['label_partition'] FROM nodes") == [
        ("new", 8, "q,r")
    ]


def test_a_machine_that_two_clouds_list_has_the_most_memory_that_one_lists(inventory: Tables) -> None:
    inventory.make(
        "node_facts: node_id INT, cluster VARCHAR, node VARCHAR, instance_type VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT",
        "1, 'c', 'n', 'M1', 0, 100",
    )
    inventory.make(
        "catalog_instances: instance_type VARCHAR, vcpus DOUBLE, memory_gib DOUBLE",
        "'m1', 8, 32",
        "'M1', 4, 64",
    )
    inventory.run("inventory/28_node_hosts")
    assert inventory.rows("FROM node_hosts ORDER BY part") == [(1, "cpu", 8), (1, "memory", 64 * 2**30)]


def test_a_node_is_closed_in_all_lives_of_its_gpus(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.add("slurm_events: cluster, node, state, from_ms, to_ms", "'c', 'n', 'DRAIN', 10, 90")
    inventory.add("slurm_reservations: cluster, nodes, from_ms, to_ms, flags")
    inventory.make(
        "slurm_machines: cluster VARCHAR, node VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT",
        "'c', 'n', 0, 40",
        "'c', 'n', 50, 80",
    )
    inventory.make("slurm_units: cluster VARCHAR, node VARCHAR, kind VARCHAR, units DOUBLE, share DOUBLE")
    inventory.run("inventory/29_slurm_absences")
    assert inventory.rows("SELECT node, from_ms, to_ms FROM closed_nodes") == [("n", 10, 80)]


def test_a_unit_that_is_not_known_any_more_is_what_it_was_last(inventory: Tables) -> None:
    inventory.make(
        "pod_nodes: cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT",
        "'c', 'after', 1, 30",
        "'c', 'before', 1, 5",
        "'c', 'between', 1, 22",
    )
    inventory.make(
        "pod_requests: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE",
        *(f"'c', '{uid}', 'gpu', 2" for uid in ("after", "before", "between")),
    )
    inventory.make("pod_parts: cluster VARCHAR, uid VARCHAR, resource VARCHAR, units DOUBLE, gpus DOUBLE")
    inventory.make("reservations: cluster VARCHAR, uid VARCHAR, gives_way BOOLEAN")
    inventory.add(
        "unit_shares: node_id, resource, from_ms, to_ms, share, shared",
        "1, 'gpu', 0, 10, 1, false",
        "1, 'gpu', 10, 20, 0.5, true",
        "1, 'gpu', 25, 30, 0.25, true",
    )
    inventory.run("inventory/34_pod_units")
    assert inventory.rows("SELECT uid, gpus FROM pod_units ORDER BY uid") == [
        ("after", 0.5),
        ("before", 2),
        ("between", 0.5),
    ]


def test_a_device_that_several_series_measure_is_told_of_once(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.add("slurm_devices: cluster, job_id, submit_ms, node, type, gpus", "'c', 7, 0, 'n', '', [0]")
    inventory.make(
        "allocated: allocation_id INT, cluster VARCHAR, uid VARCHAR, node_id INT, held_from_ms BIGINT, held_to_ms BIGINT",
        "5, 'c', '7@0/n/', 1, 0, 100",
    )
    inventory.make("slurm_machines: node_id INT, gpu_model VARCHAR", "1, NULL")
    inventory.make(
        "slurm_units: cluster VARCHAR, node VARCHAR, kind VARCHAR, profile VARCHAR, type VARCHAR, gpu_model VARCHAR",
        "'c', 'n', 'gpu', NULL, NULL, NULL",
    )
    inventory.add(
        "series: series_id, labels",
        *(f"{number}, MAP {{'gpu': '{gpu}'}}" for number, gpu in enumerate((0, 0, 1))),
    )
    inventory.add(
        "node_devices: series_id, node_id, gpu_instance_id, first_ms, last_ms, device_id",
        *(f"{number}, 1, '', 0, 100, {device}" for number, device in enumerate((8, 8, 9))),
    )
    inventory.run("inventory/40_slurm_devices")
    assert inventory.rows("FROM told_devices") == [(5, 8)]


def test_a_job_that_still_waits_waits_until_the_end_of_what_was_collected(inventory: Tables) -> None:
    inventory.add("loads: kind", "'slurm'")
    inventory.add("collected: cluster, from_ms, to_ms", "'c', 0, 50", "'c', 60, 90")
    inventory.add(
        "slurm_runs: cluster, job_id, submit_ms, job, account, eligible_ms, start_ms, end_ms, req_tres",
        "'c', 7, 10, '7', 'a', 20, NULL, NULL, 'cpu=4,gres/gpu=2'",
        "'c', 8, 10, '8', NULL, NULL, 40, 80, 'gres/gpu=1'",
        "'c', 9, 10, '9', NULL, NULL, NULL, 70, 'gres/gpu=1'",
    )
    inventory.add("pending_pods: cluster")
    inventory.run("inventory/44_slurm_pending")
    assert inventory.rows("SELECT pod, namespace, gpus, from_ms, to_ms FROM pending_pods ORDER BY pod") == [
        ("7", "a", 2, 20, 90),
        ("8", "", 1, 10, 40),
        ("9", "", 1, 10, 70),
    ]


def test_a_workload_is_of_the_type_of_the_first_rule_that_knows_it(inventory: Tables) -> None:
    columns = "kind VARCHAR, namespace VARCHAR, name VARCHAR, labels MAP(VARCHAR, VARCHAR), image VARCHAR, type VARCHAR"
    cases = (
        "'Deployment', 'ruled', 'web', MAP {'label_gpucost_io_workload_type': 'batch'}, NULL, 'development'",
        "'Deployment', 'ns', 'web', MAP {'label_gpucost_io_workload_type': 'Batch'}, NULL, 'batch'",
        "'StatefulSet', 'ns', 'nb', MAP {'label_notebook_name': 'nb'}, NULL, 'development'",
        "'Job', 'ns', 'x', MAP {'label_serving_kserve_io_inferenceservice': 'x'}, NULL, 'inference'",
        "'Pod', 'ns', 'x1', MAP {'label_ray_io_serve': 'true'}, NULL, 'inference'",
        "'Pod', 'ns', 'x2', MAP {'label_ray_io_cluster': 'x'}, NULL, 'training'",
        "'Pod', 'ns', 'x3', MAP {'label_jobset_sigs_k8s_io_jobset_name': 'x'}, NULL, 'training'",
        "'CronJob', 'ns', 'pretrain-llm', NULL, NULL, 'training'",
        "'Job', 'ns', 'nightly-eval', NULL, NULL, 'batch'",
        "'CronJob', 'ns', 'nightly', NULL, NULL, 'batch'",
        "'Job', 'ns', 'y', NULL, NULL, 'training'",
        "'Deployment', 'ns', 'my-jupyter', NULL, NULL, 'development'",
        "'Pod', 'ns', 'x4', NULL, 'quay.io/Jupyter/base', 'development'",
        "'Pod', 'ns', 'x5', MAP {'label_app': 'vLLM'}, NULL, 'inference'",
        "'Deployment', 'ns', 'z', NULL, NULL, 'inference'",
        "'Pod', 'ns', 'x6', NULL, NULL, 'other'",
    )
    inventory.make(f"cases: {columns}", *cases)
    inventory.con.execute(
        "CREATE TEMP TABLE allocated AS SELECT row_number() OVER () AS allocation_id, 'c' AS cluster, namespace,"
        " name || '-0' AS pod, name || kind || namespace AS uid, kind AS workload_kind, kind || '/' || name AS workload,"
        " 10::BIGINT AS held_from_ms, 90::BIGINT AS held_to_ms, labels, image, type FROM cases"
    )
    inventory.con.execute(
        "CREATE TEMP TABLE label_history AS SELECT 'pod' AS kind, cluster, uid AS name, labels, 20 AS from_ms"
        " FROM allocated WHERE pod <> 'x6-0'"
        " UNION ALL SELECT 'pod', cluster, uid, MAP {'label_notebook_name': 'old'}, 10 FROM allocated WHERE pod <> 'x6-0'"
    )
    inventory.con.execute(
        "INSERT INTO state_intervals BY NAME SELECT cluster, 'kube_pod_container_info' AS metric, uid,"
        " MAP {'image': image} AS labels FROM allocated WHERE image IS NOT NULL"
    )
    inventory.make(
        "type_rules: type VARCHAR, ordinal INT, namespaces VARCHAR[], names VARCHAR[], kinds VARCHAR[], labels VARCHAR[]",
        "'inference', 2, ['rule*'], [], [], []",
        "'development', 1, ['rule*'], ['web'], ['Deployment'], []",
        "'training', 0, ['rule*'], ['web'], ['Job'], []",
    )
    inventory.con.execute(
        "CREATE TEMP TABLE pods AS SELECT cluster, uid, type = 'batch' AS failed,"
        " CASE workload_kind WHEN 'Job' THEN 40 WHEN 'CronJob' THEN 95 WHEN 'Pod' THEN 5 END AS pending_to_ms FROM allocated"
    )
    inventory.add("allocation_traits: allocation_id")
    inventory.run("inventory/43_workload_types")
    assert (
        inventory.rows(
            "SELECT workload, type, workload_type FROM allocated JOIN allocation_traits USING (allocation_id)"
            " WHERE type <> workload_type OR failed <> (type = 'batch') OR started_ms IS DISTINCT FROM"
            " CASE workload_kind WHEN 'Job' THEN 40 WHEN 'CronJob' THEN 90 WHEN 'Pod' THEN 10 END"
        )
        == []
    )
    assert inventory.rows("SELECT count(*) FROM allocation_traits") == [(len(cases),)]


def test_metrics_tell_of_which_clusters_they_tell_quotas_limits_and_priorities(tables: Tables) -> None:
    told = (
        ("kube_resourcequota", "'namespace': 'a', 'resource': 'requests.nvidia.com/gpu'", 50),
        ("kube_resourcequota", "'namespace': 'b', 'resource': 'requests.cpu'", 50),
        ("kube_limitrange", "'exported_namespace': 'd', 'namespace': 'x', 'resource': 'nvidia.com/gpu'", 50),
        ("kube_limitrange", "'namespace': 'late', 'resource': 'nvidia.com/gpu'", 5),
        ("karpenter_nodepools_limit", "'nodepool': 'p', 'resource_type': 'cpu'", 50),
        ("karpenter_nodepools_usage", "'nodepool': 'q', 'resource_type': 'cpu'", 50),
        ("karpenter_nodepools_usage", "'nodepool': 'r', 'resource_type': 'nvidia.com/gpu'", 50),
        ("kube_pod_info", "'uid': 'u1', 'priority_class': 'high'", 50),
        ("kube_pod_info", "'uid': 'u2', 'priority_class': ''", 50),
        ("kube_node_info", "'uid': 'u3', 'priority_class': 'x'", 50),
    )
    for number, (metric, labels, last) in enumerate(told):
        tables.add(
            "series: series_id, cluster, metric, labels", f"{number}, 'c', '{metric}', MAP {{{labels}}}"
        )
        tables.add("states: series_id, first_ms, last_ms", f"{number}, 0, {last}")
    tables.add(
        "nodes: node_id, cluster, labels",
        "1, 'c', MAP {'label_karpenter_sh_nodepool': 'p'}",
        "2, 'c', MAP {'label_karpenter_sh_provisioner_name': 'old'}",
        "3, 'c', MAP {}",
    )
    rows = tables.run(
        "questions/policy/facts",
        from_ms=10,
        to_ms=90,
        accelerators="nvidia_com_gpu",
        other_resources="cpu|memory",
    )
    assert rows == [
        ("limit_range", "c", "d"),
        ("limit_range_told", "c", ""),
        ("node_pool", "c", "1 p"),
        ("node_pool", "c", "2 old"),
        ("node_pool_limit", "c", "p"),
        ("node_pool_limit_told", "c", ""),
        ("priority_class", "c", "u1"),
        ("priority_class_told", "c", ""),
        ("quota", "c", "a"),
        ("quota_told", "c", ""),
    ]
