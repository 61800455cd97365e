"""From one cost basis to another, as a user goes: the report says what to collect again, and then nothing is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.replay.fleet import CASES, read_fleet
from tests.replay.load import write_config

pytestmark = pytest.mark.services
CASE = CASES / "basis-opencost"


@pytest.mark.slow
def test_a_store_collected_for_gpus_alone_says_what_to_collect_again(
    tmp_path: Path, prometheus_server: Callable[[dict[str, Any]], str]
) -> None:
    fleet = read_fleet(CASE)
    url = prometheus_server(fleet)
    # as long as there are pods: without any, nothing proves that they would have been reported
    period = Period(*(datetime.fromtimestamp(fleet["start"] + 3600 * hour, UTC) for hour in (0, 8)))
    span = ["--from", f"{period.start:%Y-%m-%dT%H:%MZ}", "--to", f"{period.end:%Y-%m-%dT%H:%MZ}"]

    def run(config: Config, *words: str) -> str:
        result = CliRunner().invoke(app, [*words, "--config", str(config.path)])
        assert result.exit_code == 0, result.output
        return result.stdout

    def report(config: Config) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run(config, "report", *span, "--by", "pod", "--format", "json"))
        return answer

    plain = write_config({**fleet, "cost_basis": "node"}, tmp_path, CASE / "prices.csv", url, cluster="main")
    run(plain, "collect", "prometheus", *span, "-q")
    with Store(plain.store).read() as con:
        assert con.execute("SELECT count(*) FROM series WHERE labels['resource'] IN ('cpu', 'memory')").fetchall() == [(0,)]
    assert [row["pod"] for row in report(plain)["rows"]] == ["trainer", None]

    split = write_config(fleet, tmp_path, CASE / "prices.csv", url, cluster="main")
    (warning,) = report(split)["coverage"]["warnings"]
    assert warning["code"] == "basis_needs_requests"
    command = warning["fix"].split()
    assert command[:3] == ["gpucost", "collect", "prometheus"]
    run(split, *command[1:], "-q")
    whole = report(split)
    assert not whole["coverage"]["warnings"] and whole["coverage"]["cost_basis"] == "opencost"
    assert {row["pod"]: row["cost"] for row in whole["rows"]} == pytest.approx({"trainer": 5.23559, "helper": 0.388472, None: 0})
