"""`gpucost explain team`, `namespace`, `workload`: from a figure to the bill's rows; what is said to be billed and what not."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gpucost
from gpucost.cli.app import app
from gpucost.periods import Period
from gpucost.questions.explain import explain_cost, stages
from gpucost.questions.explain.costs import CostExplained
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.render import terminal
from gpucost.render.view import ReportView
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.unit.bills import csv_text
from tests.unit.test_price_bill_fleets import Billed, machines, rate

NO_MONEY = Decimal(0)


@pytest.fixture
def fleet(partly_billed: Billed) -> Billed:
    """Three nodes, of which n3, the spot one, is on no bill yet."""
    return partly_billed


def query(fleet: Billed, *by: str, **options: Any) -> Query:
    period = Period(*(datetime.fromtimestamp(fleet.fleet[edge], UTC) for edge in ("start", "end")))
    return Query(period=period, period_name="two days", by=by, **options)


@cache
def explained(fleet: Billed, rows: int = 3, **filters: Any) -> CostExplained:
    return explain_cost(fleet.config, fleet.store, query(fleet, **filters), rows)


@cache
def report(fleet: Billed, *by: str, **options: Any) -> ReportView:
    return reading.report(fleet.config, fleet.store, query(fleet, *by, **options))


@pytest.mark.parametrize("namespace", ["train", "serve", "batch"])
def test_every_sum_adds_up_to_the_report(fleet: Billed, namespace: str) -> None:
    answer = explained(fleet, namespaces=(namespace,))
    totals = report(fleet, namespaces=(namespace,)).totals
    assert (answer.cost, answer.estimated_cost) == (totals.cost, totals.estimated_cost)
    assert answer.allocated_gpu_hours == pytest.approx(totals.allocated_gpu_hours)
    for parts in (answer.workloads, answer.nodes):
        assert sum((part.cost for part in parts), NO_MONEY) == answer.cost
        assert sum((part.estimated_cost for part in parts), NO_MONEY) == answer.estimated_cost
    for node in answer.nodes:
        assert node.cost + node.others_cost + node.unallocated_cost == node.node_cost
        assert sum(node.node_cost_by_price_source.values()) == node.node_cost
        for machine in node.bill:
            shown = sum((row.cost or NO_MONEY for row in machine.first_rows), NO_MONEY)
            assert len(machine.first_rows) == 3
            assert machine.more_cost is not None and shown + machine.more_cost == machine.cost
            assert (node.machine_id or "").endswith(machine.instance_key)


def test_rows_of_the_bill_are_those_of_the_file_and_what_none_covers_is_an_estimate(fleet: Billed) -> None:
    answer = explained(fleet, rows=10_000, namespaces=("train",))
    (node,) = answer.nodes
    (machine,) = node.bill
    lines = (fleet.folder / "cur.csv").read_text().splitlines()
    assert machine.more_rows == 0
    for row in machine.first_rows:
        assert machine.instance_key in lines[row.source_row]
    assert sum(row.instance_hours or 0 for row in machine.first_rows) == pytest.approx(machine.instance_hours)
    assert {price.price_source for price in node.prices} == {"bill"}
    assert answer.workloads[0].price_sources == ["bill"]
    assert machine.cost == node.node_cost
    # n2 ran ten minutes in its first hour before it was a node: they are billed, and no part of its cost
    later = next(node for node in explained(fleet, namespaces=("serve",)).nodes if node.node == "n2")
    assert later.bill[0].cost is not None and round(later.bill[0].cost - later.node_cost, 6) == Decimal(
        "3.66"
    )
    answer = explained(fleet, namespaces=("batch",))
    assert answer.estimated_cost == answer.cost > 0
    assert [node.bill for node in answer.nodes] == [[]]
    view = report(fleet, "node")
    for row in view.rows:
        cost = row.measures.cost + (row.unallocated.unallocated_cost if row.unallocated else 0)
        assert row.measures.estimated_cost == (cost if row.keys["node"] == "n3" else 0)
    assert view.totals.estimated_cost == sum(row.measures.estimated_cost for row in view.rows)
    assert view.coverage.billed_cost + view.coverage.estimated_cost == view.node_totals.node_cost
    said = f"${view.coverage.billed_cost:,.2f}; ${view.totals.estimated_cost:,.2f} is an estimate until its bill is collected"
    assert said in " ".join(terminal.render(view, 120, color=False).split())
    alone = report(fleet, namespaces=("serve",))
    assert alone.coverage.estimated_cost == 0
    assert f"all of it: ${alone.totals.cost:,.2f}" in terminal.render(alone, 120, color=False)


def run(fleet: Billed, monkeypatch: pytest.MonkeyPatch, *options: str, columns: int = 120) -> Result:
    monkeypatch.setenv("COLUMNS", str(columns))
    return CliRunner().invoke(app, ["explain", *options, "--config", str(fleet.folder / "gpucost.toml")])


def as_json(fleet: Billed, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    return json.loads(run(fleet, monkeypatch, *options, "--format", "json").stdout)


def test_as_text_and_as_json_with_the_pods_of_a_team(fleet: Billed, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = as_json(fleet, monkeypatch, "namespace", "serve", "--rows", "2")
    assert (answer["schema"], answer["namespace"]) == ("gpucost.explain.namespace/1", "serve")
    assert answer["cost"] == pytest.approx(sum(node["cost"] for node in answer["nodes"]))
    assert {"from", "to", "price_per_hour", "price_source", "price_as_of"} == answer["nodes"][0]["prices"][
        0
    ].keys()
    assert {"from", "to", "source_file", "source_row", "effective_cost"} <= answer["nodes"][0]["bill"][0][
        "first_rows"
    ][0].keys()
    result = run(fleet, monkeypatch, "team", "serve", "--top", "1", "--rows", "1", columns=200)
    text = result.stdout
    assert result.exit_code == 0
    assert text.startswith(f"team serve, March 2026: ${answer['cost']:,.2f} for ")
    assert "all of it from bills" in text
    assert "cur.csv:" in text
    assert "more rows" in text
    assert re.search(r"of time outside the node's life or this period +-\$3\.66\n", text)
    assert re.search(r"shared with machines of its kind, \[prices\] commitment_sharing +\$0\.00\n", text)
    assert re.search(r"More nodes\n  and 1 more, [\d.,]+ GPU-hours, .*\$\d", text)
    answer = as_json(fleet, monkeypatch, "team", "serve", "--month", "2026-03")
    assert answer["schema"] == "gpucost.explain.team/1"
    assert sum(pod["cost"] for pod in answer["pods"]) == pytest.approx(answer["cost"])
    costs = [pod["cost"] for pod in answer["pods"]]
    assert costs == sorted(costs, reverse=True)
    assert all(pod["devices"] for pod in answer["pods"])


def test_one_day_and_each_price_of_a_node_whose_price_changes(
    fleet: Billed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"2026-03-10": ("--month", "2026-03", "--day", "10"), "2026-03-11": ("--day", "2026-03-11")}
    days = {day: as_json(fleet, monkeypatch, "namespace", "train", *words) for day, words in asked.items()}
    month = as_json(fleet, monkeypatch, "namespace", "train", "--month", "2026-03")
    assert sum(day["cost"] for day in days.values()) == pytest.approx(month["cost"])
    assert {day: answer["from"] for day, answer in days.items()} == {day: f"{day}T00:00:00Z" for day in days}
    answer = as_json(fleet, monkeypatch, "namespace", "serve")
    prices = max((node["prices"] for node in answer["nodes"]), key=len)
    assert len(prices) > 1
    text = run(fleet, monkeypatch, "namespace", "serve", "--rows", str(len(prices))).stdout
    for price in prices:
        assert re.search(
            rf"{price['from'][:10]} {price['from'][11:16]} +{price['to'][:10]} {price['to'][11:16]} ", text
        )
    assert "more prices in turn" not in text
    assert (
        f"{len(prices)} more prices in turn: --rows {len(prices)}"
        in run(fleet, monkeypatch, "namespace", "serve", "--rows", "0").stdout
    )


def test_a_workload_down_to_its_pods(fleet: Billed, monkeypatch: pytest.MonkeyPatch) -> None:
    view = report(fleet, "namespace", "workload")
    row = max((row for row in view.rows if row.kind == "allocated"), key=lambda row: row.measures.cost)
    name, space = row.keys["workload"] or "", row.keys["namespace"] or ""
    answer = as_json(fleet, monkeypatch, "workload", name, "--namespace", space, "--month", "2026-03")
    assert (answer["schema"], answer["workload"]) == ("gpucost.explain.workload/1", name)
    assert answer["cost"] == pytest.approx(float(row.measures.cost))
    for parts in ("workloads", "nodes", "pods"):
        assert sum(part["cost"] for part in answer[parts]) == pytest.approx(answer["cost"])
    for pod in answer["pods"]:
        hours = datetime.fromisoformat(pod["to"]) - datetime.fromisoformat(pod["from"])
        assert pod["gpus"] * hours.total_seconds() / 3600 == pytest.approx(pod["allocated_gpu_hours"])
        measured = pod["active_gpu_hours"] + pod["idle_gpu_hours"] + pod["unmeasured_gpu_hours"]
        assert measured == pytest.approx(pod["allocated_gpu_hours"])
    short = run(
        fleet, monkeypatch, "workload", name.rpartition("/")[2], "--namespace", space, "--month", "2026-03"
    )
    assert "By pod, and when it held which GPUs (UTC)" in short.stdout
    assert answer["pods"][0]["pod"][:10] in short.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("team", "srve"), 1, "no team 'srve' held GPUs in March 2026\nfix: name one that did: serve"),
        (("team", "srve", "--day", "2026-03-10"), 1, "no team 'srve' held GPUs on 2026-03-10\n"),
        (("namespace", "serve", "--day", "2026-02-30"), 2, "is no day"),
        (("namespace", "serve", "--day", "2026-03-02", "--month", "2026-04"), 2, "is not in 2026-04"),
        (("namespace", "serve", "--month", "2026-13"), 2, "is no month"),
        (("namespace", "serve", "--month", "2025-01"), 1, "there is no data for January 2025"),
        (("namespace", "serve", "--cluster", "nowhere"), 1, "no cluster 'nowhere'"),
        (
            ("workload", "nothing"),
            1,
            "no workload 'nothing' held GPUs in March 2026\nfix: name one that did: ",
        ),
    ],
)
def test_what_cannot_be_explained_is_said(
    fleet: Billed, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, message: str
) -> None:
    result = run(fleet, monkeypatch, *options)
    assert (result.exit_code, message in result.stderr) == (code, True), result.output


@pytest.mark.parametrize("basis", ["node", "sku", "opencost", "scad"])
def test_the_stages_it_names_are_there_and_are_those_of_the_cost_basis(fleet: Billed, basis: str) -> None:
    package = Path(gpucost.__file__).parent
    named = [file for _, file in stages(replace(explained(fleet, namespaces=("serve",)), cost_basis=basis))]
    for file in named:
        assert (package / file).is_file(), file
    assert ("attribute/basis/30_node_splits.sql" in named) is (basis != "node")
    assert "price/bill/30_billed_hours.sql" in named
    unbilled = explained(fleet, namespaces=("batch",))
    assert "price/bill/30_billed_hours.sql" not in [file for _, file in stages(unbilled)]


def with_discounts(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """10 % off: of a machine's charges on its id, of a plan's and a reservation's fee on its ARN, of n3's spot hours on no id."""
    taken = []
    for row in rows:
        kind = row["line_item_line_item_type"]
        if kind in ("Usage", "SavingsPlanRecurringFee", "RIFee") and row["line_item_unblended_cost"] not in (
            "",
            "0",
        ):
            is_spot = "SpotUsage" in row["line_item_usage_type"]
            less = {
                "line_item_line_item_type": "EdpDiscount",
                "line_item_unblended_cost": str(-Decimal(row["line_item_unblended_cost"]) / 10),
            }
            taken.append(row | less | ({"line_item_resource_id": ""} if is_spot else {}))
    return rows + taken


@pytest.mark.slow
def test_ten_percent_off_the_bill_is_ten_percent_off_the_report_and_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    billed_fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    rows = list(csv.DictReader(io.StringIO(bill_files.aws_cur(charges(billed_fleet.fleet, rate)))))
    billed_fleet.bill(csv_text(rows), "cur.csv", "aws")
    (tmp_path / "gpucost.toml").write_text(f'prometheus = []\nstore = "{billed_fleet.store.path}"\n')
    without = report.__wrapped__(billed_fleet, "node")
    billed_fleet.bill(csv_text(with_discounts(rows)), "cur.csv", "aws")
    less = report.__wrapped__(billed_fleet, "node")
    assert without.node_totals is not None and less.node_totals is not None
    assert float(less.node_totals.node_cost) == pytest.approx(
        float(without.node_totals.node_cost) * 0.9, abs=1e-6
    )
    for before, after in zip(without.rows, less.rows, strict=True):
        assert float(after.measures.cost) == pytest.approx(float(before.measures.cost) * 0.9, abs=1e-6)
    answer = explained(billed_fleet, rows=2)
    assert len(answer.nodes) == 3
    for node in answer.nodes:
        (machine,) = node.bill
        shown = sum((row.cost or NO_MONEY for row in machine.first_rows), NO_MONEY)
        assert (
            machine.more_cost is not None
            and shown + machine.more_cost + machine.discount_cost == machine.cost
        )
        assert machine.cost is not None and float(machine.discount_cost) == pytest.approx(
            float(machine.cost) / -9
        )
        assert machine.discount_rows >= len(machine.first_discount_rows) > 0
        for named in machine.first_discount_rows:
            lines = (tmp_path / "cur.csv").read_text().splitlines()
            assert "EdpDiscount" in lines[int(named.rpartition(":")[2])]
    text = run(billed_fleet, monkeypatch, "namespace", "batch", columns=200).stdout
    assert re.search(r"discounts in it: -\$\d+\.\d\d, by cur\.csv:\d+(, \d+)* and [\d,]+ more", text)
    assert "price/bill/14_discount_rates.sql" in text
    step = json.loads(
        run(billed_fleet, monkeypatch, "node", "n3", "--at", "2026-03-10T12:00Z", "--format", "json").stdout
    )["steps"]
    assert [part["step"] for part in step] == ["price", "bill discount"]
    assert (
        step[1]["factor"] == pytest.approx(0.9)
        and "before discounts" in step[0]["detail"]
        and "cur.csv:" in step[1]["detail"]
    )
    assert step[1]["price_per_hour"] == pytest.approx(step[0]["price_per_hour"] * 0.9)
    for words in (("namespace", "batch"), ("node", "n3", "--at", "2026-03-10T12:00Z")):
        text = run(billed_fleet, monkeypatch, *words, columns=80).stdout
        position = text.index("discounts in it" if words[0] == "namespace" else "x 0.9")
        block = text[position:].split("\n\n")[0]
        assert "cur.csv:" in block and str(tmp_path) not in block and not re.search(r"\.\d{7}", block)
        assert max(map(len, block.splitlines())) <= 80
