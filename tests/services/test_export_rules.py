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
    alerts=Alerts(idle_ratio=Decimal("0.5"), labels={"severity": "{{ boom", "owner": "a: b #\u2028"}),
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
CAPACITY = [
    f'kube_node_status_capacity{{node="{node}", resource="nvidia_com_gpu"}}'
    for node in ("od", "sp", "rack-1")
]


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
    return {
        "series": f'DCGM_FI_DEV_GPU_UTIL{{{where}, UUID="GPU-{pod}-{device}", modelName="A100"}}',
        "values": values,
    }


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
    rules = {
        "rule_files": [str(rules) for rules in files],
        "evaluation_interval": cases[0]["interval"],
        "tests": list(cases),
    }
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
    return {
        "expr": expr,
        "eval_time": at,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
    }


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
        _expected(
            "gpucost:namespace_cost:per_hour", (f"gpucost:namespace_cost:per_hour{ml}", 4 * 4 + 3 * 1.5)
        ),
        _expected(
            "gpucost:namespace_idle_cost:per_hour",
            (f"gpucost:namespace_idle_cost:per_hour{ml}", 3 * 4 + 2 * 1.5),
        ),
        _expected("gpucost:cluster_cost:per_hour", ("gpucost:cluster_cost:per_hour", 32 + 12 + 9)),
        _expected(
            "gpucost:cluster_unallocated_cost:per_hour",
            ("gpucost:cluster_unallocated_cost:per_hour", 16 + 7.5 + 9),
        ),
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


# label and value, as exported, and the capacity type that they tell
BOUGHT = [
    (
        {"karpenter_sh_capacity_type": "reserved", "karpenter_k8s_aws_capacity_reservation_id": "cr-1"},
        "reserved",
    ),
    (
        {"karpenter_sh_capacity_type": "on-demand", "karpenter_k8s_aws_capacity_reservation_id": "cr-1"},
        "reserved",
    ),
    (
        {"karpenter_sh_capacity_type": "reserved", "karpenter_k8s_aws_capacity_reservation_type": "default"},
        "reserved",
    ),
    ({"cloud_google_com_reservation_name": "mine"}, "reserved"),
    (
        {
            "karpenter_sh_capacity_type": "reserved",
            "karpenter_k8s_aws_capacity_reservation_type": "capacity-block",
        },
        "capacity_block",
    ),
    (
        {
            "karpenter_sh_capacity_type": "reserved",
            "eks_amazonaws_com_capacity_reservation_type": "capacity-block",
        },
        "capacity_block",
    ),
    ({"eks_amazonaws_com_capacityType": "CAPACITY_BLOCK"}, "capacity_block"),
    ({"cloud_google_com_gke_flex_start": "true"}, "flex_start"),
    (
        {"cloud_google_com_gke_flex_start": "true", "cloud_google_com_gke_provisioning": "standard"},
        "flex_start",
    ),
    (
        {"cloud_google_com_gke_flex_start": "false", "cloud_google_com_gke_provisioning": "standard"},
        "on_demand",
    ),
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
        series.append(
            {
                "series": f'kube_node_status_capacity{{node="n{number}", resource="nvidia_com_gpu"}}',
                "values": "1x10",
            }
        )
    samples = [
        (f'{{node="n{number}", capacity_type="{told}"}}', 1) for number, (_, told) in enumerate(BOUGHT)
    ]
    tests = [_expected("sum by (node, capacity_type) (gpucost:node_gpus:capacity)", *samples, at="5m")]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    _check(files, case)
    nodes = [
        node(f"n{number}", "p5.48xlarge", 0, 1, "", labels=_exported(labels))
        for number, (labels, _) in enumerate(BOUGHT)
    ]
    described = fleet(1, nodes, [], {})
    with load(
        described, scrape(described), write_config(described, tmp_path, tmp_path / "prices.csv"), 1
    ).write() as con:
        inventory.stage(con, Config())
        found = con.execute(
            "SELECT capacity_type FROM nodes ORDER BY CAST(substr(node, 2) AS INTEGER)"
        ).fetchall()
    assert [told for (told,) in found] == [told for _, told in BOUGHT]


def _exported(labels: dict[str, str]) -> dict[str, str | None]:
    return {"label_karpenter_sh_capacity_type": None} | {
        f"label_{name}": value for name, value in labels.items()
    }


def _long(series: list[dict[str, str]], samples: int) -> list[dict[str, str]]:
    """The same series over as many samples, without bursts."""
    return [
        {
            "series": one["series"],
            "values": one["values"].replace("0x60 80x5 0x235", "0x300").replace("x300", f"x{samples}"),
        }
        for one in series
    ]


QUEUE = "kueue_admission_wait_time_seconds_bucket"
QUEUES = {  # two a minute wait under 10 minutes, eight between 40 minutes and an hour and a half
    **{
        f'{QUEUE}{{cluster_queue="gpu", le="{le}"}}': f"0+{n}x300"
        for le, n in (("640", 2), ("2560", 2), ("5120", 10), ("+Inf", 10))
    },
    'kueue_pending_workloads{cluster_queue="stuck", status="active"}': "3x300",
    'kueue_pending_workloads{cluster_queue="stuck", status="inadmissible"}': "9x300",
    'kueue_admitted_workloads_total{cluster_queue="stuck"}': "7x300",
    'kueue_pending_workloads{cluster_queue="gpu", status="active"}': "3x300",
    'kueue_admitted_workloads_total{cluster_queue="gpu"}': "0+10x300",
    'gpucost_fleet_cost{period="month_to_date", currency="USD"}': "12000x300",
    'gpucost_team_cost{period="month_to_date", team="research", currency="USD"}': "2600x300",
    'gpucost_period_elapsed_ratio{period="month_to_date"}': "0.05x100 0.5x200",
    "gpucost_collected_timestamp_seconds": "0x300",
}
OLD = {"series": "gpucost_collected_timestamp_seconds", "values": "0x600"}
LITTLE = [  # 9 % on average over a day, in bursts that end every idle hour, and 12 %
    *_long([*FLEET[:6], *_pod("train", "od", 2)], 3000),
    _activity("train", 0, " ".join(["90x5 0x53"] * 50)),
    _activity("train", 1, " ".join(["90x7 0x51"] * 50)),
]
#: By name: settings, interval, series, and alerts that fire at a time with these labels, or not at all.
ALERTS: dict[str, tuple[Config, str, list[dict[str, str]], str]] = {
    "idle": (CONFIG, "1m", FLEET, """
        GpucostGpuIdle     29m  -
        GpucostGpuIdle     31m  namespace=ml pod=train node=od
        GpucostNodeUnused  100m -"""),
    "unused": (CONFIG, "1m", [series for series in FLEET if "pod=" not in series["series"]], """
        GpucostNodeUnused  29m  -
        GpucostNodeUnused  31m  node=od capacity_type=on_demand instance_type=p4d.24xlarge region=us-east-1"""),
    "little activity": (CONFIG, "1m", LITTLE, """
        GpucostActivityLow 23h  -
        GpucostActivityLow 25h  namespace=ml pod=train node=od"""),
    "queues and budgets": (CONFIG, "1m", [*FLEET, *({"series": name, "values": text} for name, text in QUEUES.items())], """
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
    "the end": (CONFIG, "5m", [*_long([one for one in FLEET if "DCGM" not in one["series"]], 360), OLD], """
        GpucostBudgetBurn     10h -
        GpucostBudgetBurn     26h budget=all
        GpucostSpotShareLow   23h -
        GpucostSpotShareLow   25h severity=warning
        GpucostClusterMissing 29h -
        GpucostClusterMissing 31h severity=warning
        GpucostCollectLate    36h -
        GpucostCollectLate    37h severity=warning"""),
    # of seven GPUs five are idle: three of train's four, and both of sweep's
    "idle share": (Config(alerts=Alerts(idle_ratio=Decimal("0.7"))), "5m", _long(FLEET, 360), """
        GpucostIdleShareHigh 23h -
        GpucostIdleShareHigh 25h namespace=ml"""),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["idle", *(pytest.param(name, marks=pytest.mark.slow) for name in ALERTS if name != "idle")]
)
def test_alerts_fire_when_they_are_true(name: str, tmp_path: Path) -> None:
    """Their texts are frozen answers; which GPUs idle is in the records."""
    require("promtool", package="prometheus")
    config, interval, series, table = ALERTS[name]
    tests = []
    for alert, at, *pairs in map(str.split, table.strip().splitlines()):
        labels = dict(pair.split("=") for pair in pairs if pair != "-")
        expr = f'count by ({", ".join(labels)}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
        shown = "{" + ", ".join(f'{label}="{value}"' for label, value in labels.items()) + "}"
        tests.append(_expected(expr, *([(shown, 1)] if labels else []), at=at))
    _check(
        _write(tmp_path, config), {"interval": interval, "input_series": series, "promql_expr_test": tests}
    )


@pytest.mark.parametrize(("at", "count"), [("31m", 3), ("62m", 2), ("97m", 3)])
def test_gpu_with_a_burst_is_not_idle_for_half_an_hour(at: str, count: int, tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    texts = {
        "summary": f"ml/train idles on {count} on-demand GPU(s)",
        "description": f"{count} GPU(s) on od stayed under 5 % for 30 minutes. Each costs 4.00 USD an hour.",
    }
    labels = {"severity": "warning", "namespace": "ml", "pod": "train", "node": "od"}
    alert = {"exp_labels": labels, "exp_annotations": texts}
    test = {"eval_time": at, "alertname": "GpucostGpuIdle", "exp_alerts": [alert]}
    _check(_write(tmp_path, CONFIG), {"interval": "1m", "input_series": FLEET, "alert_rule_test": [test]})


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
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=10
            ) as answer:
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
