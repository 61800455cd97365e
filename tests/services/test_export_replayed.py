"""The rules over described fleets, read by promtool: which alerts fire, that none fires falsely, and that no rule ever fails."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.config.model import Budget, Config
from gpucost.publish.rules import RulePrice, RulePrices, alerting_rules, recording_rules
from tests.programs import require
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.scrape import scrape

pytestmark = [pytest.mark.services, pytest.mark.slow]

READ = re.compile(
    r"kube_node_(labels|status_capacity)|kube_pod_(container_resource_requests|status_phase)|DCGM_FI_\w+"
)
# What is true of a fleet; a budget of a million a month is never burnt.
FIRES = {
    "amd": set(),  # its activity is measured by nobody, and none is missing
    "cordoned-and-not-ready": {"GpucostNodeUnused"},
    "exporter-silent-and-nonsense": {"GpucostGpuIdle", "GpucostActivityMissing"},
    "gke-partitions-and-clients": {"GpucostGpuIdle"},
    "idle-fleet": {"GpucostGpuIdle"},
    "mig-single": {"GpucostGpuIdle"},
    "moved-across-hour-edges": None,
    "mps-slots": set(),  # one slot of four is labeled
    "names-reused-within-a-scrape": None,
    "no-node-labels": set(),
    "one-label-for-three": {"GpucostGpuIdle"},
    "prometheus-pair": {"GpucostGpuIdle"},
    "reservation-block-and-flex-start": set(),
    "reserved-capacity-block": set(),
    "short-pods": set(),
    "spot-churn": set(),
    "three-kube-state-metrics": {"GpucostGpuIdle", "GpucostClusterMissing"},
    "time-slicing": {"GpucostGpuIdle"},
    "two-clusters": {"GpucostGpuIdle"},
}


def _series(fleet: Fleet) -> list[dict[str, str]]:
    step, start = fleet["scrape"] * 1000, fleet["start"] * 1000
    count = (fleet["end"] * 1000 - start) // step + 1
    found = []
    for series in scrape(fleet):
        if not READ.fullmatch(series.labels["__name__"]):
            continue
        values = ["_"] * count
        for at, value in zip(series.times, series.values, strict=True):
            values[min(count - 1, round((at - start) / step))] = (
                repr(float(value)) if value == value else "stale"
            )
        labels = ",".join(
            f"{name}={json.dumps(text)}" for name, text in series.labels.items() if name != "__name__"
        )
        found.append({"series": f"{series.labels['__name__']}{{{labels}}}", "values": " ".join(values)})
    return found


@pytest.mark.parametrize("name", FIRES)
def test_alerts_of_a_fleet_are_those_that_are_true(name: str, tmp_path: Path) -> None:
    require("promtool", package="prometheus")
    fleet = read_fleet(CASES / name)
    config = Config(budgets=[Budget(name="all", amount=Decimal(1_000_000))])
    price = RulePrice(Decimal(4), "g6.12xlarge", None, "on_demand")
    alerts = alerting_rules(config, date(2026, 10, 1))
    (tmp_path / "recording.yml").write_text(recording_rules(config, RulePrices((price,), "a test")))
    (tmp_path / "alerts.yml").write_text(alerts)
    minutes = (fleet["end"] - fleet["start"]) // 60
    wanted = [
        {"eval_time": f"{at}m", "alertname": alert, "exp_alerts": []}
        for alert in set(re.findall(r"alert: (\S+)", alerts)) - {"GpucostCollectLate"}
        for at in range(70, minutes, 20)
    ]
    case: dict[str, Any] = {
        "interval": f"{fleet['scrape']}s",
        "input_series": _series(fleet),
        "alert_rule_test": wanted,
    }
    tests = {"rule_files": ["recording.yml", "alerts.yml"], "evaluation_interval": "2m", "tests": [case]}
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "tests.yml")], capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    assert "err:" not in said, said
    if FIRES[name] is not None:
        assert set(re.findall(r"alertname: (\w+), time", said)) == FIRES[name], said
