"""Exported rules, checked and unit-tested by promtool, and a Prometheus that scrapes exported metrics."""

from __future__ import annotations

import json
import subprocess
import time
import tomllib
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from gpucost import inventory
from gpucost.config.model import Config
from gpucost.publish.rules import RulePrice, RulePrices, alerting_rules, dashboard, recording_rules
from gpucost.store.connection import Store
from tests.golden.report_fleet import sample
from tests.loopback import Quiet, serving
from tests.programs import listening, require
from tests.replay.cases.words import fleet, node
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.server import free_port
from tests.text_tables import text_rows
from tests.unit.command import call

pytestmark = pytest.mark.services


def configured(text: str) -> Config:
    return Config.model_validate(tomllib.loads(text))


CONFIG = configured("""
    alerts.idle_minutes = 30
    prices.fx.EUR = "1.25"
    budgets = [
        { name = "all", amount = 16000, currency = "EUR" },
        { name = "Research", team = "research", amount = 5000 },
        { name = "aims", team = "research", efficiency = "0.8" },
    ]
""")
PRICES = RulePrices(
    tuple(
        RulePrice(Decimal(price), *where)
        for price, *where in text_rows("""
32 | p4d.24xlarge | us-east-1 | on_demand
12 | p4d.24xlarge | us-east-1 | spot
9  |              |           |           | rack-1
""")
    ),
    "a test",
)
HOSTILE = configured(r"""
    prometheus = [{ cluster_label = "k8s_cluster" }]
    activity = { device_metric = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", device_scale = 100 }
    idle.threshold_percent = 2.5
    targets.spot_ratio = "0.5"
    currency = "CHF"
    alerts = { idle_ratio = "0.5", labels = { severity = "{{ boom", owner = "a: b #\u2028" } }
    budgets = [
        { name = "a {{ $x }} \"b\" \n: #", amount = "1e6" },
        { name = "x", team = "{{ $x }} \"quoted\" \\ \n: # -", amount = "0.5" },
        { name = "ok", team = "ok", amount = 1 },
    ]
""")

# Series and their values per minute, in promtool's notation.
# A Karpenter on-demand node, a spot node in EKS's spelling, a node without labels.
NODES = """
kube_node_labels{node="od", label_node_kubernetes_io_instance_type="p4d.24xlarge", label_topology_kubernetes_io_region="us-east-1", label_karpenter_sh_capacity_type="on-demand"} | 1x300
kube_node_labels{node="sp", label_beta_kubernetes_io_instance_type="p4d.24xlarge", label_topology_kubernetes_io_region="us-east-1", label_eks_amazonaws_com_capacityType="SPOT"} | 1x300
kube_node_labels{node="rack-1"}                                           | 1x300
kube_node_status_capacity{node="od", resource="nvidia_com_gpu"}           | 8x300
kube_node_status_capacity{node="sp", resource="nvidia_com_gpu"}           | 8x300
kube_node_status_capacity{node="rack-1", resource="nvidia_com_gpu"}       | 8x300
"""  # noqa: E501
TRAIN = """
kube_pod_container_resource_requests{namespace="ml", pod="train", container="c", node="od", resource="nvidia_com_gpu"} | 4x300
kube_pod_status_phase{namespace="ml", pod="train", phase="Running"}       | 1x300
"""
SWEEP = """
kube_pod_container_resource_requests{namespace="ml", pod="sweep", container="c", node="sp", resource="nvidia_com_gpu"} | 2x300
kube_pod_status_phase{namespace="ml", pod="sweep", phase="Running"}       | 1x300
"""
OTHERS = """
kube_pod_container_resource_requests{namespace="ml", pod="dark", container="c", node="sp", resource="nvidia_com_gpu"} | 1x300
kube_pod_status_phase{namespace="ml", pod="dark", phase="Running"}        | 1x300
kube_pod_container_resource_requests{namespace="ml", pod="over", container="c", node="od", resource="nvidia_com_gpu"} | 4x300
kube_pod_status_phase{namespace="ml", pod="over", phase="Succeeded"}      | 1x300
"""
# train has a burst after an hour, so it is idle for 30 minutes only later; a blank sentinel is not activity
ACTIVITY = """
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="train", UUID="GPU-train-0", modelName="A100"} | 90x300
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="train", UUID="GPU-train-1", modelName="A100"} | 0x300
DCGM_FI_DEV_GPU_UTIL{namespace="monitoring", pod="dcgm-x", exported_namespace="ml", exported_pod="train", UUID="GPU-train-2", modelName="A100"} | 0x300
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="train", UUID="GPU-train-3", modelName="A100"} | 0x60 80x5 0x235
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="sweep", UUID="GPU-sweep-0", modelName="A100"} | 0x300
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="sweep", UUID="GPU-sweep-1", modelName="A100"} | 2147483632x300
"""  # noqa: E501
# per minute, two waits under 10 minutes, eight between 40 and 90 minutes
QUEUES = """
kueue_admission_wait_time_seconds_bucket{cluster_queue="gpu", le="640"}   | 0+2x300
kueue_admission_wait_time_seconds_bucket{cluster_queue="gpu", le="2560"}  | 0+2x300
kueue_admission_wait_time_seconds_bucket{cluster_queue="gpu", le="5120"}  | 0+10x300
kueue_admission_wait_time_seconds_bucket{cluster_queue="gpu", le="+Inf"}  | 0+10x300
kueue_pending_workloads{cluster_queue="stuck", status="active"}           | 3x300
kueue_pending_workloads{cluster_queue="stuck", status="inadmissible"}     | 9x300
kueue_admitted_workloads_total{cluster_queue="stuck"}                     | 7x300
kueue_pending_workloads{cluster_queue="gpu", status="active"}             | 3x300
kueue_admitted_workloads_total{cluster_queue="gpu"}                       | 0+10x300
gpucost_fleet_cost{period="month_to_date", currency="USD"}                | 12000x300
gpucost_team_cost{period="month_to_date", team="research", currency="USD"} | 2600x300
gpucost_period_elapsed_ratio{period="month_to_date"}                      | 0.05x100 0.5x200
gpucost_collected_timestamp_seconds                                       | 0x300
"""
# a daily average of 9 % in bursts after idle hours, and of 12 %
LITTLE = f"""
DCGM_FI_DEV_GPU_UTIL{{namespace="ml", pod="train", UUID="GPU-train-0", modelName="A100"}} | {"90x5 0x53 " * 50}
DCGM_FI_DEV_GPU_UTIL{{namespace="ml", pod="train", UUID="GPU-train-1", modelName="A100"}} | {"90x7 0x51 " * 50}
"""
# dcgm-exporter 4.9 and the old one on one GPU, its MIG instances, AMD, and nvidia_gpu_exporter with dcgm-exporter
EXPORTERS = """
DCGM_FI_DEV_GPU_UTIL{namespace="ml", pod="train", UUID="GPU-1", modelName="A100", Hostname="od"} | 40x300
DCGM_FI_DEV_GPU_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-1", modelName="A100", hostname="od"} | 0.4x300
DCGM_FI_DEV_GPU_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-2", modelName="A100", hostname="od"} | 0.5x300
nvidia_smi_utilization_gpu_ratio{namespace="ml", pod="train", uuid="GPU-2"} | 0.9x300
DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{namespace="ml", pod="train", UUID="GPU-3", GPU_I_ID="1"} | 0.07x300
gpu_gfx_activity{exported_namespace="ml", exported_pod="sweep", serial_number="S-1"} | 3x300
duty_cycle{namespace="ml", pod="sweep", accelerator_id="no TPU"}          | 80x300
"""
PODS = TRAIN + SWEEP + OTHERS
FLEET = NODES + PODS + ACTIVITY
#: An expression and its samples.
# train: one of four devices is active; sweep: the only measured device is idle; dark: unmeasured
RECORDED = """
sum by (node, capacity_type) (gpucost:node_gpus:capacity) | {node="od", capacity_type="on_demand"} 8 | {node="sp", capacity_type="spot"} 8 | {node="rack-1", capacity_type="unknown"} 8
sum by (node) (gpucost:node_gpu_price:per_hour) | {node="od"} 4 | {node="sp"} 1.5 | {node="rack-1"} 1.125
sum by (node) (gpucost:node_gpus:unallocated)   | {node="od"} 4 | {node="sp"} 5 | {node="rack-1"} 8
gpucost:namespace_gpus:allocated         | gpucost:namespace_gpus:allocated{namespace="ml"} 7
gpucost:namespace_gpus:active            | gpucost:namespace_gpus:active{namespace="ml"} 1
gpucost:namespace_gpus:idle              | gpucost:namespace_gpus:idle{namespace="ml"} 5
gpucost:namespace_gpus:unmeasured        | gpucost:namespace_gpus:unmeasured{namespace="ml"} 1
gpucost:namespace_cost:per_hour          | gpucost:namespace_cost:per_hour{namespace="ml"} 20.5
gpucost:namespace_idle_cost:per_hour     | gpucost:namespace_idle_cost:per_hour{namespace="ml"} 15
gpucost:cluster_cost:per_hour            | gpucost:cluster_cost:per_hour 53
gpucost:cluster_unallocated_cost:per_hour | gpucost:cluster_unallocated_cost:per_hour 32.5
round(gpucost:cluster_gpus:spot_ratio, 0.0001) | {} 0.4286
"""  # noqa: E501
ONCE_IN_PERCENT = """
max by (pod, UUID, GPU_I_ID) (gpucost:device_activity:percent) | {pod="train", UUID="GPU-1"} 40 | {pod="train", UUID="GPU-2"} 50 | {pod="train", UUID="GPU-3", GPU_I_ID="1"} 7.000000000000001 | {pod="sweep", UUID="S-1"} 3
count(gpucost:device_activity:percent) | {} 4
"""  # noqa: E501


def check(folder: Path, config: Config, series: str, expected: str, at: str = "100m", **more: Any) -> None:
    """Run promtool's unit tests of a configuration's rules: values of expressions at a time."""
    require("promtool", package="prometheus")
    (folder / "recording.yml").write_text(recording_rules(config, PRICES), encoding="utf-8")
    (folder / "alerts.yml").write_text(alerting_rules(config, date(2026, 10, 17)), encoding="utf-8")
    tests = []
    for expression, *samples in text_rows(expected):
        values = [sample.rpartition(" ") for sample in samples]
        samples = [{"labels": labels, "value": float(value)} for labels, _, value in values]
        tests.append({"expr": expression, "eval_time": at, "exp_samples": samples})
    case: dict[str, Any] = {"interval": "1m", "promql_expr_test": tests} | more
    case["input_series"] = [{"series": name, "values": values} for name, values in text_rows(series)]
    files = ["recording.yml", "alerts.yml"]
    case = {"rule_files": files, "evaluation_interval": case["interval"], "tests": [case]}
    (folder / "tests.yml").write_text(yaml.safe_dump(case, allow_unicode=True))
    words = ["promtool", "test", "rules", "tests.yml"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_rules_with_any_names(tmp_path: Path) -> None:
    check(tmp_path, HOSTILE, FLEET, "")


def test_rules_record_activity_and_count_idle_gpus(tmp_path: Path) -> None:
    """The GPU with a burst does not count as idle for half an hour."""
    alerts = []
    for at, count in (("31m", 3), ("62m", 2), ("97m", 3)):
        texts = {
            "summary": f"ml/train leaves {count} on-demand GPU(s) idle",
            "description": f"{count} GPU(s) on od stayed under 5 % for 30 minutes. Each costs 4.00 USD an hour.",
        }
        labels = {"severity": "warning", "namespace": "ml", "pod": "train", "node": "od"}
        fired = {"exp_labels": labels, "exp_annotations": texts}
        alerts.append({"eval_time": at, "alertname": "GpucostGpuIdle", "exp_alerts": [fired]})
    check(tmp_path, CONFIG, FLEET, RECORDED, alert_rule_test=alerts)


def test_every_exporter_version_is_recorded_once_in_percent(tmp_path: Path) -> None:
    check(tmp_path, CONFIG, NODES + TRAIN + SWEEP + EXPORTERS, ONCE_IN_PERCENT)


# The capacity type and the exported labels that state it.
BOUGHT = """
reserved       | karpenter_sh_capacity_type=reserved karpenter_k8s_aws_capacity_reservation_id=cr-1
reserved       | karpenter_sh_capacity_type=on-demand karpenter_k8s_aws_capacity_reservation_id=cr-1
reserved       | karpenter_sh_capacity_type=reserved karpenter_k8s_aws_capacity_reservation_type=default
reserved       | cloud_google_com_reservation_name=mine
capacity_block | karpenter_sh_capacity_type=reserved karpenter_k8s_aws_capacity_reservation_type=capacity-block
capacity_block | karpenter_sh_capacity_type=reserved eks_amazonaws_com_capacity_reservation_type=capacity-block
capacity_block | eks_amazonaws_com_capacityType=CAPACITY_BLOCK
flex_start     | cloud_google_com_gke_flex_start=true
flex_start     | cloud_google_com_gke_flex_start=true cloud_google_com_gke_provisioning=standard
on_demand      | cloud_google_com_gke_flex_start=false cloud_google_com_gke_provisioning=standard
flex_start     | cloud_google_com_gke_provisioning=FLEX_START
spot           | cloud_google_com_gke_spot=true cloud_google_com_reservation_name=mine
on_demand      | karpenter_sh_capacity_type=on-demand
"""


def test_rules_and_inventory_agree_on_capacity_types(tmp_path: Path) -> None:
    nodes, series, samples = [], "", "sum by (node, capacity_type) (gpucost:node_gpus:capacity)"
    for number, (capacity_type, text) in enumerate(text_rows(BOUGHT)):
        labels = {f"label_{name}": value for name, value in (pair.split("=") for pair in text.split())}
        exported = {"label_karpenter_sh_capacity_type": None} | labels
        nodes.append(node(f"n{number}", "p5.48xlarge", 0, 1, "", labels=exported))
        shown = ", ".join(f'{name}="{value}"' for name, value in labels.items())
        series += f'kube_node_labels{{node="n{number}", {shown}}} | 1x10\n'
        series += f'kube_node_status_capacity{{node="n{number}", resource="nvidia_com_gpu"}} | 1x10\n'
        samples += f' | {{node="n{number}", capacity_type="{capacity_type}"}} 1'
    check(tmp_path, Config(), series, samples, "5m")
    described = fleet(1, nodes, [], {})
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    with load(described, scrape(described), config, 1).write() as con:
        inventory.stage(con, Config())
        found = con.execute("SELECT capacity_type FROM nodes ORDER BY substr(node, 2)::INTEGER").fetchall()
    assert [capacity_type for (capacity_type,) in found] == [
        capacity_type for capacity_type, _ in text_rows(BOUGHT)
    ]


def longer(series: str, samples: int) -> str:
    """Return the same series over so many samples, without bursts."""
    return series.replace("0x60 80x5 0x235", "0x300").replace("x300", f"x{samples}")


#: By name: settings, interval, series, and alerts with these labels that fire at a time, or never.
ALERTS: dict[str, tuple[Config, str, str, str]] = {
    "idle": (CONFIG, "1m", FLEET, """
        GpucostGpuIdle     29m  -
        GpucostGpuIdle     31m  namespace=ml pod=train node=od
        GpucostNodeUnused  100m -"""),
    "unused": (CONFIG, "1m", NODES, """
        GpucostNodeUnused  29m  -
        GpucostNodeUnused  31m  node=od capacity_type=on_demand instance_type=p4d.24xlarge region=us-east-1"""),
    "little activity": (CONFIG, "1m", longer(NODES + TRAIN.replace("4x", "2x"), 3000) + LITTLE, """
        GpucostActivityLow 23h  -
        GpucostActivityLow 25h  namespace=ml pod=train node=od"""),
    "queues and budgets": (CONFIG, "1m", FLEET + QUEUES, """
        GpucostQueueWait       100m cluster_queue=gpu
        GpucostQueueStuck      100m cluster_queue=stuck
        GpucostBudgetBurn      290m -
        GpucostBudgetPace      90m  -
        GpucostBudgetPace      120m budget=all
        GpucostTeamBudgetPace  120m team=research budget=Research
        GpucostActivityMissing 10m  -
        GpucostActivityMissing 20m  node=sp
        GpucostCollectLate     100m -
        GpucostClusterMissing  100m -"""),
    "the end": (CONFIG, "5m", f"{longer(NODES + PODS, 360)}gpucost_collected_timestamp_seconds | 0x600", """
        GpucostBudgetBurn     10h -
        GpucostBudgetBurn     26h budget=all
        GpucostSpotShareLow   23h -
        GpucostSpotShareLow   25h severity=warning
        GpucostClusterMissing 29h -
        GpucostClusterMissing 31h severity=warning
        GpucostCollectLate    36h -
        GpucostCollectLate    37h severity=warning"""),
    # five of seven GPUs are idle: three of train's four, and both of sweep's
    "idle share": (configured('alerts.idle_ratio = "0.7"'), "5m", longer(FLEET, 360), """
        GpucostIdleShareHigh 23h -
        GpucostIdleShareHigh 25h namespace=ml"""),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["idle", *(pytest.param(name, marks=pytest.mark.slow) for name in ALERTS if name != "idle")]
)
def test_alerts_fire_when_true(name: str, tmp_path: Path) -> None:
    """Frozen answers cover the texts; the recorded series contain the idle GPUs."""
    config, interval, series, table = ALERTS[name]
    tests: list[dict[str, Any]] = []
    for alert, at, *pairs in map(str.split, table.strip().splitlines()):
        labels = dict(pair.split("=") for pair in pairs if pair != "-")
        expression = f'count by ({", ".join(labels)}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
        shown = ", ".join(f'{label}="{value}"' for label, value in labels.items())
        fired = [{"labels": f"{{{shown}}}", "value": 1}] if labels else []
        tests.append({"expr": expression, "eval_time": at, "exp_samples": fired})
    check(tmp_path, config, series, "", interval=interval, promql_expr_test=tests)


# The current series of the golden fleet's A100 node from kube-state-metrics and dcgm-exporter.
CLUSTER = """\
kube_node_labels{node="a100-1",label_node_kubernetes_io_instance_type="p4d",label_topology_kubernetes_io_region="us-east-1",label_karpenter_sh_capacity_type="on-demand"} 1
kube_node_status_capacity{node="a100-1",resource="nvidia_com_gpu"} 8
kube_pod_container_resource_requests{namespace="ml-research",pod="jupyter-alice-0",container="c",node="a100-1",resource="nvidia_com_gpu"} 2
kube_pod_status_phase{namespace="ml-research",pod="jupyter-alice-0",phase="Running"} 1
DCGM_FI_DEV_GPU_UTIL{namespace="ml-research",pod="jupyter-alice-0",UUID="GPU-1",modelName="A100"} 0
DCGM_FI_DEV_GPU_UTIL{namespace="ml-research",pod="jupyter-alice-0",UUID="GPU-2",modelName="A100"} 77
"""  # noqa: E501


def exported(*words: str) -> str:
    return call("export", *words, "--store", "store.duckdb")[0]


def queried(url: str, expression: str) -> Any:
    """Return the result of an expression of the dashboard."""
    words = expression.replace("$cluster", ".*").replace("$namespace", ".*")
    answer = requests.get(f"{url}/api/v1/query", {"query": words}, timeout=10)
    answer.raise_for_status()
    return answer.json()["data"]["result"]


def expressions(config: Config) -> list[str]:
    panels = json.loads(dashboard(config))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_dashboard_panels_have_data(in_an_empty_folder: Path) -> None:
    require("prometheus", package="prometheus")
    folder = in_an_empty_folder
    sample(hours=48).write(folder / "store.duckdb")
    with Store(folder / "store.duckdb").write() as con:
        con.execute(
            "INSERT INTO node_prices SELECT node_id, up_from_ms, up_to_ms, 24.48, 'price_book', NULL, NULL FROM nodes"
        )
    metrics = CLUSTER + exported("openmetrics", "--month", "2026-10")
    rules = exported("recording-rules").replace("interval: 1m", "interval: 1s")
    (folder / "recording.yml").write_text(rules)
    config = configured(
        'budgets = [{ name = "all", amount = 1 }, { name = "r", team = "research", amount = 1 }]'
    )
    (folder / "alerts.yml").write_text(alerting_rules(config, date(2026, 10, 1)))

    class Handler(Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.respond(200, metrics.encode(), {"Content-Type": "text/plain; version=0.0.4"})

    port = free_port()
    flags = ("--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
    with serving(Handler) as exporter:
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [recording.yml, alerts.yml]\nscrape_configs: "
            f'[{{job_name: all, honor_labels: true, static_configs: [{{targets: ["{exporter.removeprefix("http://")}"]}}]}}]\n'
        )
        with listening(["prometheus", *flags], port, folder / "log") as url:
            deadline = time.monotonic() + 60
            while True:
                with suppress(OSError):  # it answers 503 at first
                    if queried(url, "gpucost:cluster_cost:per_hour"):
                        break
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
            empty = [expression for expression in expressions(Config()) if not queried(url, expression)]
            # no queues, and only activity from DCGM
            assert all("kueue_" in one or "DCGM_FI_DEV_FB_USED" in one or "POWER" in one for one in empty), (
                empty
            )
            # it accepts rules with any names, or answers HTTP 400
            assert len([queried(url, expression) for expression in expressions(HOSTILE)]) > 20
