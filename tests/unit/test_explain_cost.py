"""`gpucost explain team`, `namespace`, `workload`: from a figure to the rows of the bill; billed and estimated cost."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpucost.periods import Period
from gpucost.questions.explain import _in_brief, explain_cost
from gpucost.questions.explain.costs import CostExplained
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.render import terminal
from gpucost.render.view import ReportView
from tests.text_tables import text_rows
from tests.unit.command import answer, check_end, run
from tests.unit.test_price_bill_fleets import Billed

NO_MONEY = Decimal(0)


@pytest.fixture
def fleet(partly_billed: Billed) -> Billed:
    """Three nodes; the spot node n3 is not billed yet."""
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
    assert answer.allocated_gpu_hours == pytest.approx(totals.allocated_gpu_hours)
    for name in ("cost", "estimated_cost"):
        for parts in ([answer], answer.workloads, answer.nodes):
            assert sum(getattr(part, name) for part in parts) == getattr(totals, name)
    for node in answer.nodes:
        assert node.cost + node.others_cost + node.unallocated_cost == node.node_cost
        assert sum(node.node_cost_by_price_source.values()) == node.node_cost
        for machine in node.bill:
            shown = [row.cost or NO_MONEY for row in machine.first_rows]
            assert len(shown) == 3 and sum(shown, machine.more_cost) == machine.cost
            assert (node.machine_id or "").endswith(machine.instance_key)


def test_bill_rows_match_the_file_and_unbilled_nodes_are_estimated(fleet: Billed) -> None:
    answer = explained(fleet, rows=10_000, namespaces=("train",))
    (node,) = answer.nodes
    (machine,) = node.bill
    lines = (fleet.folder / "cur.csv").read_text().splitlines()
    assert (machine.more_rows, machine.cost) == (0, node.node_cost)
    assert all(machine.instance_key in lines[row.source_row] for row in machine.first_rows)
    assert sum(row.instance_hours or 0 for row in machine.first_rows) == pytest.approx(machine.instance_hours)
    assert {price.price_source for price in node.prices} == {*answer.workloads[0].price_sources} == {"bill"}
    # n2 ran for ten minutes before it joined the cluster: billed, but not part of its cost
    later = next(node for node in explained(fleet, namespaces=("serve",)).nodes if node.node == "n2")
    assert later.bill[0].cost and round(later.bill[0].cost - later.node_cost, 6) == Decimal("3.66")
    answer = explained(fleet, namespaces=("batch",))
    assert answer.estimated_cost == answer.cost > 0
    assert [node.bill for node in answer.nodes] == [[]]
    view = report(fleet, "node")
    for row in view.rows:
        cost = row.measures.cost + (row.unallocated.unallocated_cost if row.unallocated else 0)
        assert row.measures.estimated_cost == (cost if row.keys["node"] == "n3" else 0)
    estimated, billed = view.totals.estimated_cost, view.coverage.final_cost
    assert estimated == sum(row.measures.estimated_cost for row in view.rows)
    assert billed + view.coverage.estimated_cost == view.node_totals.node_cost
    sentence = f"${billed:,.2f}; ${estimated:,.2f} are an estimate until the bill is collected"
    assert sentence in " ".join(terminal.render(view, 120, color=False).split())
    assert report(fleet, namespaces=("serve",)).coverage.estimated_cost == 0


def line(fleet: Billed, words: str) -> str:
    return f"explain {words} --config {fleet.folder}/gpucost.toml"


def test_team_has_its_pods_and_cost_outside_node_life(fleet: Billed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run(line(fleet, "team serve --top 1 --rows 1")).stdout
    assert re.search(r"time outside the node's life or this period +-\$3\.66\n", text)
    assert re.search(r"More nodes\n  and 1 more, [\d.,]+ GPU-hours, .*\$\d", text)
    found = answer(line(fleet, "team serve --month 2026-03"))
    costs = [pod["cost"] for pod in found["pods"]]
    assert sum(costs) == pytest.approx(found["cost"]) and costs == sorted(costs, reverse=True)
    assert all(pod["devices"] for pod in found["pods"])


def test_default_answer_fits_one_screen(fleet: Billed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    brief, whole = (run(line(fleet, f"team serve {more}")).stdout for more in ("", "-v"))
    assert len(brief.splitlines()) <= 24 and "By pod" not in brief
    assert "By pod" in whole and "By price" not in whole
    answer = explained(fleet, teams=("serve",))
    prices, rows = _in_brief(answer)
    assert sum(each.cells[-1] for each in prices.lines) == answer.cost
    assert [each.cells[1] for each in prices.lines] == [f"{len(answer.nodes)}"]
    machines = [machine for node in answer.nodes for machine in node.bill]
    assert [each.cells[-1] for each in rows.lines] == [machine.cost for machine in machines[:3]]
    first = machines[0].first_rows[0]
    assert rows.lines[0].cells[2] == f"{Path(first.source_file).name}:{first.source_row}"


def test_days_add_up_and_changed_prices_of_a_node_are_listed(fleet: Billed) -> None:
    month, first, second, serve = (
        answer(line(fleet, f"namespace {words}"))
        for words in (
            "train --month 2026-03",
            "train --month 2026-03 --day 10",
            "train --day 2026-03-11",
            "serve",
        )
    )
    assert first["cost"] + second["cost"] == pytest.approx(month["cost"])
    assert (first["from"], second["from"]) == ("2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z")
    prices = max(len(node["prices"]) for node in serve["nodes"])
    assert prices > 1
    for rows in (prices, 0):
        text = run(line(fleet, f"namespace serve --rows {rows}")).stdout
        assert (f"{prices} more prices: --rows {prices}" in text) is (rows == 0)


def test_workload_is_explained_down_to_its_pods(fleet: Billed) -> None:
    view = report(fleet, "namespace", "workload")
    row = max((row for row in view.rows if row.kind == "allocated"), key=lambda row: row.measures.cost)
    name, space = row.keys["workload"] or "", row.keys["namespace"] or ""
    found = answer(line(fleet, f"workload {name} --namespace {space} --month 2026-03"))
    assert (found["schema"], found["workload"]) == ("gpucost.explain.workload/1", name)
    for parts in ("workloads", "nodes", "pods"):
        assert sum(part["cost"] for part in found[parts]) == pytest.approx(float(row.measures.cost))
    for pod in found["pods"]:
        held = datetime.fromisoformat(pod["to"]) - datetime.fromisoformat(pod["from"])
        hours = pytest.approx(pod["allocated_gpu_hours"])
        assert pod["gpus"] * held.total_seconds() / 3600 == hours
        assert sum(pod[f"{kind}_gpu_hours"] for kind in ("active", "idle", "unmeasured")) == hours
    short = answer(line(fleet, f"workload {name.rpartition('/')[2]} --namespace {space}"))
    assert short["pods"] == found["pods"]


REFUSED = """
team srve                                        | 1 | no team 'srve' held GPUs in March 2026 fix: use a known name: serve
team srve --day 2026-03-10                       | 1 | no team 'srve' held GPUs on 2026-03-10 fix
namespace serve --day 2026-02-30                 | 2 | invalid --day
namespace serve --day 2026-03-02 --month 2026-04 | 2 | is not in 2026-04
namespace serve --month 2025-01                  | 1 | no data for January 2025
namespace serve --cluster nowhere                | 1 | no cluster 'nowhere'
"""


@pytest.mark.parametrize(("words", "code", "message"), text_rows(REFUSED))
def test_unknown_subject_or_period_is_an_error(fleet: Billed, words: str, code: str, message: str) -> None:
    check_end(line(fleet, words), code, message)
