"""A real Prometheus that scrapes what gpucost exports, and evaluates its rules on what it scraped."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.model import Budget, Config
from gpucost.publish.rules import alerting_rules
from tests.golden.report_fleet import alone, sample
from tests.loopback import Quiet, serving
from tests.programs import require
from tests.replay.server import free_port, stop
from tests.services.test_export_rules import expressions

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


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Metrics and recording rules of the golden fleet, as the commands print them."""
    from gpucost.store.connection import Store

    path = tmp_path_factory.mktemp("scraped") / "store.duckdb"
    sample(hours=48).write(path)
    with Store(path).write() as con:
        con.execute(
            "INSERT INTO node_prices SELECT node_id, up_from_ms, up_to_ms, 24.48, 'price_book', NULL, NULL FROM nodes"
        )
    with pytest.MonkeyPatch.context() as patched:
        alone(path.parent, patched)
        metrics = CliRunner().invoke(
            app, ["export", "openmetrics", "--store", str(path), "--month", "2026-10"]
        )
        rules = CliRunner().invoke(app, ["export", "recording-rules", "--store", str(path)])
    assert (metrics.exit_code, rules.exit_code) == (0, 0)
    return metrics.stdout, rules.stdout


@pytest.fixture(scope="module")
def prometheus(exported: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("prometheus", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    metrics, rules = exported
    config = Config(
        budgets=[
            Budget(name="all", amount=Decimal(1)),
            Budget(name="research", team="research", amount=Decimal(1)),
        ]
    )
    (folder / "recording.yml").write_text(rules.replace("interval: 1m", "interval: 1s"))
    (folder / "alerts.yml").write_text(alerting_rules(config, date(2026, 10, 1)))

    class Handler(Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((CLUSTER + metrics).encode())

    with serving(Handler) as exporter:
        scraped = {
            "job_name": "all",
            "honor_labels": True,
            "static_configs": [{"targets": [exporter.removeprefix("http://")]}],
        }
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["recording.yml", "alerts.yml"],
            "scrape_configs": [scraped],
        }
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        url = f"127.0.0.1:{free_port()}"
        command = [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
        ]
        process = subprocess.Popen([*command, f"--web.listen-address={url}", "--log.level=error"])
        try:
            _wait_for(f"http://{url}", "gpucost:cluster_cost:per_hour")
            yield f"http://{url}"
        finally:
            stop(process)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of a server started here
        return json.load(answer)["data"]


def _ask(url: str, expr: str) -> list[tuple[dict[str, str], float]]:
    data = _get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expr})}")
    if data["resultType"] == "scalar":
        return [({}, float(data["result"][1]))]
    return [(item["metric"], float(item["value"][1])) for item in data["result"]]


def _wait_for(url: str, expr: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if _ask(url, expr):
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"no answer to {expr}")


def test_panels_of_the_dashboard_have_something_to_show(prometheus: str) -> None:
    empty = [
        expr
        for expr in expressions(Config())
        if not _ask(prometheus, expr.replace("$cluster", ".*").replace("$namespace", ".*"))
    ]
    # no queues, and of DCGM's metrics only the activity
    assert all("kueue_" in expr or "DCGM_FI_DEV_FB_USED" in expr or "POWER" in expr for expr in empty), empty
