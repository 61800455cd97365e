"""A month's bundle end to end, as cron runs it: collected from a real Prometheus, first without the bill, then with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.replay.bill_files import aws_cur
from tests.replay.billing import charges
from tests.replay.cases.words import BOOK, HEADER, busy, fleet, node, pod

pytestmark = pytest.mark.services


def cron(*options: str) -> subprocess.CompletedProcess[str]:
    """The command without a terminal, with next to no environment."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "gpucost", "chargeback", "--month", "2026-03", "--out", "bundles", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def contents() -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in sorted(Path("bundles").rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_a_month_as_cron_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prometheus_server: Callable[[dict[str, Any]], str]
) -> None:
    kind = "p4de.24xlarge"
    nodes = [node("n1", kind, 0, 24), node("n2", kind, 0, 24, "spot")]
    pods = [pod("a", "n1", [0, 1], 1, 20, "train"), pod("b", "n2", list(range(8)), 2, 23, "serve")]
    truth = fleet(24, nodes, pods, busy("n1", [0], 1, 20), scrape=900)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    url = prometheus_server(truth)
    (tmp_path / "gpucost.toml").write_text(
        f'[prometheus]\nurl = "{url}"\ncluster = "main"\n[prices]\nbook = "prices.csv"\n[aws]\nexports = ["cur.csv"]\n'
    )
    # the bill is not there yet: the command says so, and writes all the same
    first = cron("--collect")
    assert first.returncode == 4, first.stdout + first.stderr
    assert "the bill of AWS is missing" in first.stderr
    assert "\x1b" not in first.stdout + first.stderr
    before = json.loads(Path("bundles/2026-03/index.json").read_text())
    assert {team["team"] for team in before["teams"]} == {"train", "serve"}

    def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal]:
        return ("spot", Decimal(3)) if node["capacity_type"] == "spot" else ("on_demand", Decimal(20))

    billed = list(charges(truth, rate))
    Path("cur.csv").write_text(aws_cur(billed))
    second = cron("--collect")
    # the rest of the month is older than the server's data: it stays incomplete
    assert second.returncode == 4
    assert "bill of AWS" not in second.stderr
    after = json.loads(Path("bundles/2026-03/index.json").read_text())
    assert after["replaces"]["state"] == "estimate"
    assert after["reconciliation"]["is_exact"]
    assert after["reconciliation"]["effective_cost"] == pytest.approx(float(sum(charge.cost for charge in billed)))
    focus = duckdb.read_parquet("bundles/2026-03/focus.parquet").sum("EffectiveCost").fetchall()[0][0]
    assert focus == sum((charge.cost for charge in billed), Decimal(0))
    files = contents()
    third = cron("--collect", "-q")
    assert (third.returncode, third.stdout) == (4, "")
    assert contents() == files
