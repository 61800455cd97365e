"""The rules and the dashboard that gpucost prints, read by Prometheus itself: checked, unit-tested and asked for."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpucost import inventory
from gpucost.config.model import Activity, Alerts, Budget, Config, Idle, Prices, PrometheusSource, Targets
from gpucost.publish import openmetrics
from gpucost.publish.rules import RulePrice, RulePrices, alerting_rules, dashboard, recording_rules
from tests.programs import require
from tests.replay.cases.words import fleet, node
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.server import free_port, start_prometheus, stop

pytestmark = pytest.mark.services

TODAY = date(2026, 10, 17)
CONFIG = Config(
    alerts=Alerts(idle_minutes=30),
    prices=Prices(fx={"EUR": Decimal("1.25")}),
    budgets=[
        Budget(name="all", amount=Decimal(16000), currency="EUR"),
        Budget(name="Research", team="research", amount=Decimal(5000)),
        Budget(name="aims", team="research", efficiency=Decimal("0.8")),
    ],
)
PRICES = RulePrices(
    (
        RulePrice(Decimal("32"), "p4d.24xlarge", "us-east-1", "on_demand"),
        RulePrice(Decimal("12"), "p4d.24xlarge", "us-east-1", "spot"),
        RulePrice(Decimal("9"), node="rack-1"),
    ),
    "a test",
)
HOSTILE = Config(
    prometheus=[PrometheusSource(cluster_label="k8s_cluster")],
    activity=Activity(device_metric="DCGM_FI_PROF_GR_ENGINE_ACTIVE", device_scale=100),
    idle=Idle(threshold_percent=2.5),
    targets=Targets(spot_ratio=Decimal("0.5")),
    currency="CHF",
    alerts=Alerts(
        idle_ratio=Decimal("0.5"),
        labels={"severity": "{{ boom", "owner": "a: b #\u2028"},
    ),
    budgets=[
        Budget(name='a {{ $x }} "b" \n: #', amount=Decimal("1e6")),
        Budget(name="x", team='{{ $x }} "quoted" \\ \n: # -', amount=Decimal("0.5")),
        Budget(name="ok", team="ok", amount=Decimal(1)),
    ],
)

NODES = [
    # a node that Karpenter bought on demand, one on spot as EKS spells it, one without labels
    'kube_node_labels{node="od", label_node_kubernetes_io_instance_type="p4d.24xlarge", '
    'label_topology_kubernetes_io_region="us-east-1", label_karpenter_sh_capacity_type="on-demand"}',
    'kube_node_labels{node="sp", label_beta_kubernetes_io_instance_type="p4d.24xlarge", '
    'label_topology_kubernetes_io_region="us-east-1", label_eks_amazonaws_com_capacityType="SPOT"}',
    'kube_node_labels{node="rack-1"}',
]
CAPACITY = [f'kube_node_status_capacity{{node="{node}", resource="nvidia_com_gpu"}}' for node in ("od", "sp", "rack-1")]


def _pod(name: str, node: str, gpus: int, phase: str = "Running") -> list[dict[str, str]]:
    labels = f'namespace="ml", pod="{name}"'
    requests = f'kube_pod_container_resource_requests{{{labels}, container="c", node="{node}", resource="nvidia_com_gpu"}}'
    return [
        {"series": requests, "values": f"{gpus}x300"},
        {"series": f'kube_pod_status_phase{{{labels}, phase="{phase}"}}', "values": "1x300"},
    ]


def _activity(pod: str, device: int, values: str, exported: bool = False) -> dict[str, str]:
    where = (
        f'namespace="monitoring", pod="dcgm-x", exported_namespace="ml", exported_pod="{pod}"'
        if exported
        else f'namespace="ml", pod="{pod}"'
    )
    return {"series": f'DCGM_FI_DEV_GPU_UTIL{{{where}, UUID="GPU-{pod}-{device}", modelName="A100"}}', "values": values}


FLEET = [
    *({"series": series, "values": "1x300"} for series in NODES),
    *({"series": series, "values": "8x300"} for series in CAPACITY),
    *_pod("train", "od", 4),
    *_pod("sweep", "sp", 2),
    *_pod("dark", "sp", 1),
    *_pod("over", "od", 4, "Succeeded"),
    _activity("train", 0, "90x300"),
    _activity("train", 1, "0x300"),
    _activity("train", 2, "0x300", exported=True),
    # a burst after an hour: not idle for 30 minutes until half an hour later
    _activity("train", 3, "0x60 80x5 0x235"),
    _activity("sweep", 0, "0x300"),
    _activity("sweep", 1, "2147483632x300"),  # a blank sentinel is no activity
]


def _check(files: list[Path], *cases: dict[str, Any]) -> None:
    """promtool's unit tests of the rules in `files`."""
    file = files[0].with_name("tests.yml")
    rules = {"rule_files": [str(rules) for rules in files], "evaluation_interval": cases[0]["interval"], "tests": list(cases)}
    file.write_text(yaml.safe_dump(rules, allow_unicode=True))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _write(folder: Path, config: Config, prices: RulePrices = PRICES) -> list[Path]:
    files = [folder / "recording.yml", folder / "alerts.yml"]
    files[0].write_text(recording_rules(config, prices), encoding="utf-8")
    files[1].write_text(alerting_rules(config, TODAY), encoding="utf-8")
    return files


@pytest.mark.parametrize("config", [Config(), CONFIG, HOSTILE], ids=["defaults", "budgets", "hostile"])
def test_promtool_accepts_the_rules(config: Config, tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, config)
    done = subprocess.run(["promtool", "check", "rules", *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == 2


def _expected(expr: str, *samples: tuple[str, float], at: str = "100m") -> dict[str, Any]:
    return {"expr": expr, "eval_time": at, "exp_samples": [{"labels": labels, "value": value} for labels, value in samples]}


def test_what_the_recording_rules_record(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    ml = '{namespace="ml"}'
    od, sp, rack = (f'{{node="{node}"}}' for node in ("od", "sp", "rack-1"))
    tests = [
        _expected(
            "sum by (node, capacity_type) (gpucost:node_gpus:capacity)",
            ('{node="od", capacity_type="on_demand"}', 8),
            ('{node="sp", capacity_type="spot"}', 8),
            ('{node="rack-1", capacity_type="unknown"}', 8),
        ),
        _expected("sum by (node) (gpucost:node_gpu_price:per_hour)", (od, 4), (sp, 1.5), (rack, 1.125)),
        _expected("gpucost:namespace_gpus:allocated", (f"gpucost:namespace_gpus:allocated{ml}", 7)),
        # train: one of four devices is active; sweep: the one device that is measured is idle; dark: unmeasured
        _expected("gpucost:namespace_gpus:active", (f"gpucost:namespace_gpus:active{ml}", 1)),
        _expected("gpucost:namespace_gpus:idle", (f"gpucost:namespace_gpus:idle{ml}", 5)),
        _expected("gpucost:namespace_gpus:unmeasured", (f"gpucost:namespace_gpus:unmeasured{ml}", 1)),
        _expected("sum by (node) (gpucost:node_gpus:unallocated)", (od, 4), (sp, 5), (rack, 8)),
        _expected("gpucost:namespace_cost:per_hour", (f"gpucost:namespace_cost:per_hour{ml}", 4 * 4 + 3 * 1.5)),
        _expected("gpucost:namespace_idle_cost:per_hour", (f"gpucost:namespace_idle_cost:per_hour{ml}", 3 * 4 + 2 * 1.5)),
        _expected("gpucost:cluster_cost:per_hour", ("gpucost:cluster_cost:per_hour", 32 + 12 + 9)),
        _expected("gpucost:cluster_unallocated_cost:per_hour", ("gpucost:cluster_unallocated_cost:per_hour", 16 + 7.5 + 9)),
        _expected("round(gpucost:cluster_gpus:spot_ratio, 0.0001)", ("{}", round(3 / 7, 4))),
    ]
    case = {"interval": "1m", "input_series": FLEET, "promql_expr_test": tests}
    _check(files, case)


def test_any_exporter_and_version_is_recorded_once_and_in_percent(tmp_path: Path) -> None:
    """dcgm-exporter 4.9 beside the old one on one GPU, its MIG instances, AMD, and nvidia_gpu_exporter beside dcgm-exporter."""
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    names = {
        'DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="train", UUID="GPU-1", modelName="A100", Hostname="od"}': "40",
        'DCGM_FI_DEV_GPU_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-1", modelName="A100", hostname="od"}': "0.4",
        'DCGM_FI_DEV_GPU_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-2", modelName="A100", hostname="od"}': "0.5",
        'nvidia_smi_utilization_gpu_ratio{namespace="ml", pod="train", uuid="GPU-2"}': "0.9",
        'DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-3", GPU_I_ID="1"}': "0.07",
        'gpu_gfx_activity{exported_namespace="ml", exported_pod="sweep", serial_number="S-1"}': "3",
        'duty_cycle{namespace="ml", pod="sweep", accelerator_id="no TPU"}': "80",
    }
    series = [*FLEET[:6], *_pod("train", "od", 4), *_pod("sweep", "sp", 2)]
    series += [{"series": name, "values": f"{value}x300"} for name, value in names.items()]
    tests = [
        _expected(
            "max by (pod, UUID, GPU_I_ID) (gpucost:device_activity:percent)",
            ('{pod="train", UUID="GPU-1"}', 40),
            ('{pod="train", UUID="GPU-2"}', 50),
            ('{pod="train", UUID="GPU-3", GPU_I_ID="1"}', 7.000000000000001),
            ('{pod="sweep", UUID="S-1"}', 3),
        ),
        _expected("count(gpucost:device_activity:percent)", ("{}", 4)),
    ]
    _check(files, {"interval": "1m", "input_series": series, "promql_expr_test": tests})


@pytest.mark.slow
def test_gpus_of_little_average_activity(tmp_path: Path) -> None:
    """9 % on average over a day, in bursts that end every idle hour, and 12 %: one of the two GPUs."""
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    series = [{"series": item["series"], "values": item["values"].replace("x300", "x3000")} for item in FLEET[:6]]
    series += [{"series": item["series"], "values": item["values"].replace("x300", "x3000")} for item in _pod("train", "od", 2)]
    series += [_activity("train", 0, " ".join(["90x5 0x53"] * 50)), _activity("train", 1, " ".join(["90x7 0x51"] * 50))]
    labels = {"namespace": "ml", "pod": "train", "node": "od"}
    told = "The average activity of 1 GPU(s) on od over the last 24 hours is under 10 %."
    tests = [
        _alert("GpucostActivityLow", "23h"),
        _alert("GpucostActivityLow", "25h", labels, "ml/train uses 1 GPU(s) little", told),
    ]
    _check(files, {"interval": "1m", "input_series": series, "alert_rule_test": tests})


# label and value, as exported, and the capacity type that they tell
BOUGHT = [
    ({"karpenter_sh_capacity_type": "reserved", "karpenter_k8s_aws_capacity_reservation_id": "cr-1"}, "reserved"),
    ({"karpenter_sh_capacity_type": "on-demand", "karpenter_k8s_aws_capacity_reservation_id": "cr-1"}, "reserved"),
    ({"karpenter_sh_capacity_type": "reserved", "karpenter_k8s_aws_capacity_reservation_type": "default"}, "reserved"),
    ({"cloud_google_com_reservation_name": "mine"}, "reserved"),
    (
        {"karpenter_sh_capacity_type": "reserved", "karpenter_k8s_aws_capacity_reservation_type": "capacity-block"},
        "capacity_block",
    ),
    (
        {"karpenter_sh_capacity_type": "reserved", "eks_amazonaws_com_capacity_reservation_type": "capacity-block"},
        "capacity_block",
    ),
    ({"eks_amazonaws_com_capacityType": "CAPACITY_BLOCK"}, "capacity_block"),
    ({"cloud_google_com_gke_flex_start": "true"}, "flex_start"),
    ({"cloud_google_com_gke_flex_start": "true", "cloud_google_com_gke_provisioning": "standard"}, "flex_start"),
    ({"cloud_google_com_gke_flex_start": "false", "cloud_google_com_gke_provisioning": "standard"}, "on_demand"),
    ({"cloud_google_com_gke_provisioning": "FLEX_START"}, "flex_start"),
    ({"cloud_google_com_gke_spot": "true", "cloud_google_com_reservation_name": "mine"}, "spot"),
    ({"karpenter_sh_capacity_type": "on-demand"}, "on_demand"),
]


def test_rules_and_inventory_tell_capacity_types_alike(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, Config())
    series = []
    for number, (labels, _) in enumerate(BOUGHT):
        text = ", ".join(f'label_{name}="{value}"' for name, value in labels.items())
        series.append({"series": f'kube_node_labels{{node="n{number}", {text}}}', "values": "1x10"})
        series.append({"series": f'kube_node_status_capacity{{node="n{number}", resource="nvidia_com_gpu"}}', "values": "1x10"})
    samples = [(f'{{node="n{number}", capacity_type="{told}"}}', 1) for number, (_, told) in enumerate(BOUGHT)]
    tests = [_expected("sum by (node, capacity_type) (gpucost:node_gpus:capacity)", *samples, at="5m")]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    _check(files, case)
    nodes = [node(f"n{number}", "p5.48xlarge", 0, 1, "", labels=_exported(labels)) for number, (labels, _) in enumerate(BOUGHT)]
    described = fleet(1, nodes, [], {})
    with load(described, scrape(described), write_config(described, tmp_path, tmp_path / "prices.csv"), 1).write() as con:
        inventory.stage(con, Config())
        found = con.execute("SELECT capacity_type FROM nodes ORDER BY CAST(substr(node, 2) AS INTEGER)").fetchall()
    assert [told for (told,) in found] == [told for _, told in BOUGHT]


def _exported(labels: dict[str, str]) -> dict[str, str | None]:
    return {"label_karpenter_sh_capacity_type": None} | {f"label_{name}": value for name, value in labels.items()}


def _alert(name: str, at: str, labels: dict[str, str] | None = None, summary: str = "", description: str = "") -> dict[str, Any]:
    """That an alert fires with these labels and texts at a time, or that it does not."""
    texts = {"summary": summary, "description": description}
    found = {"exp_labels": {"severity": "warning", **(labels or {})}, "exp_annotations": texts}
    return {"eval_time": at, "alertname": name, "exp_alerts": [] if labels is None else [found]}


def test_idle_gpus_and_unused_nodes(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    train = {"namespace": "ml", "pod": "train", "node": "od"}

    def idle(count: int) -> tuple[dict[str, str], str, str]:
        told = f"{count} GPU(s) on od stayed under 5 % for 30 minutes. Each costs 4.00 USD an hour."
        return train, f"ml/train idles on {count} on-demand GPU(s)", told

    tests = [
        _alert("GpucostGpuIdle", "29m"),
        _alert("GpucostGpuIdle", "31m", *idle(3)),
        _alert("GpucostGpuIdle", "62m", *idle(2)),
        _alert("GpucostGpuIdle", "97m", *idle(3)),
        _alert("GpucostNodeUnused", "100m"),  # somebody holds GPUs of every on-demand node
    ]
    labels = {"node": "od", "capacity_type": "on_demand", "instance_type": "p4d.24xlarge", "region": "us-east-1"}
    unused = "8 GPU(s) were held by nobody for 30 minutes. Each costs 4.00 USD an hour."
    fires = _alert("GpucostNodeUnused", "31m", labels, "Nobody holds a GPU of on-demand node od", unused)
    empty = [series for series in FLEET if "pod=" not in series["series"]]
    cases = [
        {"interval": "1m", "input_series": FLEET, "alert_rule_test": tests},
        {"interval": "1m", "input_series": empty, "alert_rule_test": [_alert("GpucostNodeUnused", "29m"), fires]},
    ]
    _check(files, *cases)


@pytest.mark.slow
def test_queues_budgets_and_missing_telemetry(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    queue = 'cluster_queue="gpu"'
    waits = [  # two a minute wait under 10 minutes, eight between 40 minutes and an hour and a half
        {"series": f'kueue_admission_wait_time_seconds_bucket{{{queue}, le="640"}}', "values": "0+2x300"},
        {"series": f'kueue_admission_wait_time_seconds_bucket{{{queue}, le="2560"}}', "values": "0+2x300"},
        {"series": f'kueue_admission_wait_time_seconds_bucket{{{queue}, le="5120"}}', "values": "0+10x300"},
        {"series": f'kueue_admission_wait_time_seconds_bucket{{{queue}, le="+Inf"}}', "values": "0+10x300"},
        {"series": 'kueue_pending_workloads{cluster_queue="stuck", status="active"}', "values": "3x300"},
        {"series": 'kueue_pending_workloads{cluster_queue="stuck", status="inadmissible"}', "values": "9x300"},
        {"series": 'kueue_admitted_workloads_total{cluster_queue="stuck"}', "values": "7x300"},
        {"series": 'kueue_pending_workloads{cluster_queue="gpu", status="active"}', "values": "3x300"},
        {"series": 'kueue_admitted_workloads_total{cluster_queue="gpu"}', "values": "0+10x300"},
    ]
    paces = [
        {"series": 'gpucost_fleet_cost{period="month_to_date", currency="USD"}', "values": "12000x300"},
        {"series": 'gpucost_team_cost{period="month_to_date", team="research", currency="USD"}', "values": "2600x300"},
        {"series": 'gpucost_period_elapsed_ratio{period="month_to_date"}', "values": "0.05x100 0.5x200"},
        {"series": "gpucost_collected_timestamp_seconds", "values": "0x300"},
    ]
    tests = [
        _alert(
            "GpucostQueueWait", "100m", {"cluster_queue": "gpu"}, "Workloads of queue gpu wait too long",
            "One in ten workloads that queue gpu admitted in the last hour had waited 1h 20m 0s or more; "
            "the limit is 30 minutes.",
        ),
        _alert(
            "GpucostQueueStuck", "100m", {"cluster_queue": "stuck"}, "Queue stuck admits nothing",
            "3 workload(s) of queue stuck are pending, and none was admitted for 30 minutes.",
        ),
        _alert("GpucostBudgetBurn", "290m"),  # a fleet that has just begun has no rate of a day
        _alert("GpucostBudgetPace", "90m"),  # too early in the month to say
        _alert(
            "GpucostBudgetPace", "120m", {"budget": "all"}, "GPU nodes are on their way over the budget",
            "Going on as it did, the month comes to 24000 USD; the budget is 20000.",
        ),
        _alert(
            "GpucostTeamBudgetPace", "120m", {"team": "research", "budget": "Research"},
            "Team research is on its way over its budget",
            "Going on as it did, the month comes to 5200 USD; the budget is 5000.",
        ),
        _alert("GpucostActivityMissing", "10m"),
        _alert(
            "GpucostActivityMissing", "20m", {"node": "sp"}, "1 GPU(s) of sp are held and not measured",
            "dcgm-exporter said nothing of pods that hold GPUs on sp for 15 minutes: their GPU-hours will be unmeasured. "
            "gpucost doctor says what is missing.",
        ),
        _alert("GpucostCollectLate", "100m"),
        _alert("GpucostClusterMissing", "100m"),
    ]  # fmt: skip
    case = {"interval": "1m", "input_series": [*FLEET, *waits, *paces], "alert_rule_test": tests}
    _check(files, case)


@pytest.mark.slow
def test_spot_share_stale_data_and_a_cluster_that_is_gone(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, CONFIG)
    series = [
        {"series": item["series"], "values": item["values"].replace("x300", "x360")}
        for item in FLEET
        if "DCGM" not in item["series"]
    ]
    series.append({"series": "gpucost_collected_timestamp_seconds", "values": "0x600"})
    tests = [
        _alert("GpucostBudgetBurn", "10h"),
        _alert(
            "GpucostBudgetBurn", "26h", {"budget": "all"}, "GPU nodes burn more than the budget",
            "At the rate of the last day GPU nodes cost 38690 USD in a month of 730 hours; the budget is 20000.",
        ),
        _alert("GpucostSpotShareLow", "23h"),
        _alert(
            "GpucostSpotShareLow", "25h", {}, "Only 42.86% of the GPUs in use are spot",
            "Over the last 24 hours 42.86% of the GPUs that pods held were spot; the target is 0.7.",
        ),
        _alert("GpucostClusterMissing", "29h"),
        _alert(
            "GpucostClusterMissing", "31h", {}, "kube-state-metrics says nothing of GPU nodes",
            "A cluster had GPU nodes in the last day, and for 15 minutes kube-state-metrics told of none: "
            "it is gone, or the last GPU node is.",
        ),
        _alert("GpucostCollectLate", "36h"),
        _alert(
            "GpucostCollectLate", "37h", {}, "gpucost has collected nothing for 1d 13h 0m 0s",
            "What Prometheus forgets before it is collected is lost. Run gpucost collect prometheus, "
            "then gpucost export openmetrics.",
        ),
    ]  # fmt: skip
    case = {"interval": "5m", "input_series": series, "alert_rule_test": tests}
    _check(files, case)


@pytest.mark.slow
def test_a_namespace_that_idles_for_a_day(tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    files = _write(tmp_path, Config(alerts=Alerts(idle_ratio=Decimal("0.7"))))
    series = [{"series": item["series"], "values": item["values"].replace("0x60 80x5 0x235", "0x300")} for item in FLEET]
    series = [{"series": item["series"], "values": item["values"].replace("x300", "x360")} for item in series]
    tests = [
        _alert("GpucostIdleShareHigh", "23h"),
        # of seven GPUs five are idle: three of train's four, and both of sweep's
        _alert(
            "GpucostIdleShareHigh", "25h", {"namespace": "ml"}, "71.43% of the GPU time of ml is idle",
            "Over the last 24 hours 71.43% of the GPU-hours that pods of ml held were idle; the limit is 0.7.",
        ),
    ]  # fmt: skip
    _check(files, {"interval": "5m", "input_series": series, "alert_rule_test": tests})


def expressions(config: Config) -> list[str]:
    """Every PromQL expression of the dashboard, in order."""
    panels = json.loads(dashboard(config))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


@pytest.mark.parametrize("config", [CONFIG, HOSTILE], ids=["usual", "hostile"])
def test_prometheus_understands_every_expression_of_the_dashboard(config: Config, tmp_path: Path) -> None:
    require("prometheus", "promtool", package="prometheus")
    found = expressions(config)
    assert len(found) > 20
    port = free_port()
    process = start_prometheus(tmp_path, port)
    try:
        for expr in found:
            asked = expr.replace("$cluster", ".*").replace("$namespace", "a|b")
            query = urllib.parse.urlencode({"query": asked})
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=10) as answer:
                assert json.load(answer)["status"] == "success", expr
    finally:
        stop(process)


def test_the_dashboard_reads_only_what_is_recorded_or_exported(tmp_path: Path) -> None:
    """A rule or a metric that is renamed must not leave an empty panel behind."""
    recorded = set(re.findall(r"record: (\S+)", recording_rules(CONFIG, PRICES)))
    read = set()
    for text in (*expressions(CONFIG), alerting_rules(CONFIG, TODAY)):
        read |= set(re.findall(r"\bgpucost:\w+:\w+|\bgpucost_\w+(?=[{)])", text))
    assert {name for name in read if ":" in name} <= recorded
    assert {name for name in read if ":" not in name} <= set(openmetrics._HELP)
