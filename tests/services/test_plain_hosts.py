"""Machines without Kubernetes, scraped by a real Prometheus: what `collect`, `report` and `doctor` say of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.periods import from_ms, iso
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.edits import drop
from tests.replay.plain import PRICES, USERS, as_ratios, boxes
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import prometheus_over_text, require_prometheus

pytestmark = pytest.mark.services

RULE = '[[hosts]]\nname = "box-*"\ninstance_type = "box-2"\n'
SPAN = ["--from", iso(from_ms(at(0) * 1000)), "--to", iso(from_ms(at(24) * 1000))]
Row = tuple[str | None, str | None, float, float, float, float]


class Answer:
    """What the commands say of what a server holds."""

    def __init__(self, folder: Path, url: str, rules: str) -> None:
        self.config = folder / "gpucost.toml"
        (folder / "prices.csv").write_text(PRICES)
        server = f'[[prometheus]]\nurl = "{url}"\ncluster = "lab"\n'
        self.config.write_text(f'store = "s.duckdb"\n{server}[prices]\nbook = "prices.csv"\n{rules}')
        self.collected = self.run("collect", "prometheus", *SPAN)
        report = self.run("report", *SPAN, "--by", "namespace,node", "--format", "json")
        self.report: dict[str, Any] = json.loads(report)
        self.doctor: list[dict[str, Any]] = json.loads(self.run("doctor", "--format", "json", codes=(0, 1, 3)))

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        result = CliRunner().invoke(app, [*words, "--config", str(self.config)])
        assert result.exit_code in codes, result.output
        return result.stdout if words[0] != "collect" else result.output

    def rows(self) -> list[Row]:
        """Namespace, node, hours held, active and unallocated, and what they cost."""
        return [
            (
                *(row.get("namespace"), row["node"], row["allocated_gpu_hours"], row["active_gpu_hours"]),
                *(row.get("unallocated_gpu_hours", 0), row["cost"] + row.get("unallocated_cost", 0)),
            )
            for row in self.report["rows"]
        ]

    def warnings(self) -> list[str]:
        return [warning["code"] for warning in self.report["coverage"]["warnings"]]


@pytest.fixture
def answer_to(tmp_path: Path) -> Callable[[list[Series], str], Answer]:
    require_prometheus()

    def answer(series: list[Series], rules: str) -> Answer:
        with prometheus_over_text(lambda out: write_openmetrics(series, out), tmp_path / "data") as url:
            return Answer(tmp_path, url, rules)

    return answer


@pytest.mark.slow
def test_hosts_without_users(answer_to: Callable[[list[Series], str], Answer]) -> None:
    answer = answer_to(as_ratios(boxes()), RULE)
    assert answer.rows() == [(None, "box-1", 0, 0, 48, 96), (None, "box-2", 0, 0, 48, 96)]
    assert answer.warnings() == ["host_without_users"]
    message = answer.report["coverage"]["warnings"][0]["message"]
    assert message.endswith(
        "(box-1, box-2): this time is unallocated, but never counts as empty; the GPUs were active in 32.3 % of their samples"
    )
    # nothing says to install what such machines do not have
    assert "kube-state-metrics" not in answer.collected
    told = [check for check in answer.doctor if "kube-state-metrics" in check["subject"] + str(check["fix"])]
    assert [check["subject"] for check in told] == ["time"]  # all data is of the past
    told = [check for check in answer.doctor if check["found"] == "there, and [[hosts]] describes machines without Kubernetes"]
    assert [check["status"] for check in told] == ["ok"]


@pytest.mark.slow
def test_users_by_label(answer_to: Callable[[list[Series], str], Answer]) -> None:
    answer = answer_to(as_ratios(boxes(USERS)), RULE + 'user_label = "user"\n')
    assert sorted(answer.rows(), key=str) == [
        ("alice", "box-1", 16.5, 7, 0, 33),
        ("bob", "box-1", 4, 0, 0, 8),
        (None, "box-1", 0, 0, 27.5, 55),
        (None, "box-2", 0, 0, 48, 96),
    ]
    assert answer.warnings() == ["host_without_users"]


def test_hosts_beside_kubernetes(answer_to: Callable[[list[Series], str], Answer]) -> None:
    """A pod holds the GPU of kube-1 ($1) for 8 h. Box 1 is named, box 2 is not."""
    described = fleet(24, [node("kube-1", "g5.xlarge", 0, 24)], [pod("a", "kube-1", [0], 2, 10)], {})
    series = [*drop(scrape(described), "DCGM_.*"), *as_ratios(boxes(USERS))]
    answer = answer_to(series, RULE.replace("box-*", "box-1") + 'user_label = "user"\n')
    assert sorted(answer.rows(), key=str) == [
        ("alice", "box-1", 16.5, 7, 0, 33),
        ("bob", "box-1", 4, 0, 0, 8),
        ("train", "kube-1", 8, 0, 0, 8),
        (None, "box-1", 0, 0, 27.5, 55),
        (None, "kube-1", 0, 0, 16, 16),
    ]
    unplaced = [w["message"] for w in answer.report["coverage"]["warnings"] if w["code"] == "unplaced_device"]
    assert unplaced == ["2 GPUs measured on host box-2 belong to no known node"]
