"""A fleet and its bill end to end, as a user runs it: a real Prometheus, a Cost and Usage Report, report, explain, reconcile."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.oracle import calculate
from tests.oracle.billed import billed_book
from tests.replay.bill_files import aws_cur
from tests.replay.billing import Charge, charges
from tests.replay.cases.words import BOOK, HEADER, MORNING, busy, fleet, node, pod

pytestmark = [pytest.mark.services, pytest.mark.slow]

FROM, TO = "2026-03-10", "2026-03-12"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal]:
    if node["capacity_type"] == "spot":
        return "spot", Decimal(3) + Decimal(hour // 3600 % 5) / 8
    return ("savings_plan", Decimal("12.5")) if node["name"] == "n1" else ("on_demand", Decimal(20))


@pytest.fixture
def told() -> dict[str, Any]:
    kind = "p4de.24xlarge"
    nodes = [node("n1", kind, 0, 48), node("n2", kind, 5.25, 30.75), node("n3", kind, 2, 40.5, "spot")]
    pods = [
        pod("a", "n1", [0, 1, 2], 1, 30, "train", keep_until=MORNING + 32 * 3600),
        pod("b", "n2", [0], 6, 29.25, "serve", keep_until=MORNING + 30 * 3600),
        pod("c", "n3", list(range(8)), 3.5, 39.25, "batch", keep_until=MORNING + 40 * 3600),
    ]
    return fleet(48, nodes, pods, busy("n1", [0], 1, 30), scrape=900)


def by_namespace(document: str) -> dict[str | None, float]:
    return {row["namespace"]: round(row["cost"], 5) for row in json.loads(document)["rows"] if row["kind"] == "allocated"}


def truth(told: dict[str, Any], billed: list[Charge]) -> dict[str | None, float]:
    found: dict[str | None, Fraction] = defaultdict(Fraction)
    for (_, namespace), figures in calculate(told, billed_book(billed, [])).namespaces.items():
        found[namespace] += figures.cost
    return {name: round(float(cost), 5) for name, cost in found.items()}


def test_a_fleet_with_its_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any], prometheus_server: Callable[[dict[str, Any]], str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    url = prometheus_server(told)
    (tmp_path / "gpucost.toml").write_text(
        f'[prometheus]\nurl = "{url}"\ncluster = "main"\n[prices]\nbook = "prices.csv"\n[aws]\nexports = ["cur.csv"]\n'
        '[[coverage.accept]]\nfrom = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "it ran for a day"\n'
    )
    run("collect", "prometheus", "--from", FROM, "--to", TO)
    period = ("--from", FROM, "--to", TO, "--by", "namespace", "--format", "json")
    estimated = run("report", *period)
    assert json.loads(estimated)["coverage"]["price_sources"] == {"price_book": 1.0}

    billed = list(charges(told, rate, booting=420))
    Path("cur.csv").write_text(aws_cur(billed))
    assert "rows, billed" in run("collect", "aws")
    final = run("report", *period)
    assert json.loads(final)["coverage"]["price_sources"] == {"bill": 1.0}
    assert by_namespace(final) == truth(told, billed)
    assert by_namespace(final) != by_namespace(estimated)

    why = json.loads(run("explain", "node", "n2", "--at", "2026-03-10T12:30:00Z", "--format", "json"))
    pooled = Decimal("16.25")
    assert (why["price_source"], Decimal(str(why["price_per_hour"]))) == ("bill", pooled)
    winner, *losers = why["candidates"]
    assert (winner["origin"], winner["wins"]) == ("bill of aws, 2026-03, shared with machines of its kind", True)
    assert (losers[0]["price_source"], losers[0]["price_per_hour"]) == ("price_book", 40.0)

    # the minutes before the machines were nodes are billed, too
    account = json.loads(run("reconcile", "--month", "2026-03", "--format", "json"))
    assert round(account["effective_cost"], 5) == round(float(sum(charge.cost for charge in billed)), 5)
