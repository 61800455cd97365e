"""A real Prometheus that scrapes what gpucost exports: its rules and its dashboard have something to show."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import requests

from gpucost.config.model import Config
from gpucost.publish.rules import alerting_rules, dashboard
from gpucost.store.connection import Store
from tests.golden.report_fleet import sample
from tests.loopback import Quiet, serving
from tests.programs import listening, require
from tests.replay.server import free_port
from tests.services.test_export_rules import HOSTILE, configured
from tests.unit.command import call

pytestmark = pytest.mark.services

# The golden fleet's A100 node at this moment, as kube-state-metrics and dcgm-exporter tell it.
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


def asked(url: str, expression: str) -> Any:
    """What an expression of the dashboard gives."""
    words = expression.replace("$cluster", ".*").replace("$namespace", ".*")
    answer = requests.get(f"{url}/api/v1/query", {"query": words}, timeout=10)
    answer.raise_for_status()
    return answer.json()["data"]["result"]


def expressions(config: Config) -> list[str]:
    panels = json.loads(dashboard(config))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_panels_of_the_dashboard_have_something_to_show(in_an_empty_folder: Path) -> None:
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
                    if asked(url, "gpucost:cluster_cost:per_hour"):
                        break
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
            empty = [expression for expression in expressions(Config()) if not asked(url, expression)]
            # no queues, and of DCGM's metrics only the activity
            assert all("kueue_" in one or "DCGM_FI_DEV_FB_USED" in one or "POWER" in one for one in empty), (
                empty
            )
            # it understands those of any words, or answers HTTP 400
            assert len([asked(url, expression) for expression in expressions(HOSTILE)]) > 20
