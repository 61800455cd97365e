"""A hybrid fleet: a bill for its cloud nodes, and final rows of the price book for its own nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from gpucost import pipeline
from gpucost.publish.chargeback import Bundle, ChargebackQuery, manifest_of, read_bundle, state_of
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.reconcile.statement import Machine
from gpucost.questions.report import reading
from gpucost.render.formatting import coverage_lines
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.replay.cases.words import MORNING
from tests.unit.billed_fleets import MONTH, configured
from tests.unit.test_focus import ALL, save, texts
from tests.unit.test_price_bill_fleets import Billed, machines, rate

# n3 is up from hour 2 to 40.5, n2 from 5.25 to 30.75
FINAL = """price_per_hour,currency,purchase_option,final,effective_start
20,USD,on_demand,true,
4,USD,spot,true,
5,USD,spot,TRUE,2026-03-11T12:00:00Z
"""
SIGNED = '[[coverage.accept]]\nfrom = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "two days"\n'


def hybrid(folder: Path, book: str, end_of_n2: int = 48) -> Billed:
    """The fleet with a final bill for n1, and for n2 up to an hour."""
    fleet = configured(Billed(folder, machines("p4de.24xlarge")), SIGNED)
    (folder / "prices.csv").write_text(book)
    ends = {"n1": 48, "n2": end_of_n2, "n3": 0}
    known = [
        charge
        for charge in charges(fleet.fleet, rate)
        if charge.start < MORNING + ends[charge.node["name"]] * 3600
    ]
    fleet.bill(bill_files.aws_cur(known), "cur.csv", "aws")
    with duckdb.connect(str(fleet.config.store)) as con:
        con.execute("UPDATE bills SET is_final = true")
    pipeline.attribute(fleet.config, fleet.store)
    return fleet


def bundle(fleet: Billed) -> Bundle:
    query = ChargebackQuery(MONTH, ALL.period, "March 2026", datetime(2026, 6, 1, tzinfo=UTC))
    return read_bundle(fleet.config, fleet.store, query, fleet.folder)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Billed:
    return hybrid(tmp_path_factory.mktemp("hybrid"), FINAL)


# $4 in 34 h, then $5 in 4.5 h; pod d holds the node from 3.5 to 39.25
WHOLE, HELD = Decimal("158.5"), Decimal("146.25")


def test_own_nodes_are_final_next_to_the_bill(closed: Billed) -> None:
    result = reconciliation(closed.config, closed.store, MONTH)
    assert result.priced == (Machine("n3", "p4de.24xlarge", 38.5, WHOLE),)
    assert (result.unbilled, result.estimated_cost, result.problems, result.difference) == ((), 0, (), 0)
    assert result.final_cost == result.effective_cost + WHOLE


def test_hybrid_month_is_final_in_every_place(closed: Billed) -> None:
    view = reading.report(closed.config, closed.store, ALL)
    node_cost = view.node_totals.node_cost
    assert (view.coverage.estimated_cost, view.coverage.final_cost) == (0, node_cost)
    lines = dict(coverage_lines(view.coverage, "USD"))
    assert lines["Final"] == [f"all of it: ${node_cost:,.2f}"]
    assert lines["Prices"][1].endswith(" of cost from final rows of the price book")
    made = bundle(closed)
    assert made.state == ("final", (), ())
    index = manifest_of(made, closed.config, None)
    steps = {line["line"]: line["cost"] for line in index["invoice"]["lines"]}
    assert steps["final"] == -float(HELD)
    assert steps.keys().isdisjoint({"estimated", "other_bills"})
    assert [team["estimated_cost"] for team in index["teams"]] == [0.0] * 3


IN_FILE = """SELECT kind, is_estimate, sum(BilledCost)::DOUBLE, sum(EffectiveCost)::DOUBLE, sum(PricingQuantity)::DOUBLE
FROM file WHERE InvoiceIssuerName = 'No invoice: a final price of the price book' GROUP BY ALL"""


def test_final_prices_are_in_the_focus_file_without_an_invoice(closed: Billed) -> None:
    totals, path = save(closed)
    assert (totals.estimated_cost, totals.estimated_rows) == (0, 0)
    assert texts(path, IN_FILE) == ["allocated False 0 146.25 286", "unallocated False 0 12.25 22"]


def test_final_row_is_an_estimate_for_a_node_on_a_bill(tmp_path: Path) -> None:
    fleet = hybrid(tmp_path, FINAL, end_of_n2=20)
    result = reconciliation(fleet.config, fleet.store, MONTH)
    # n2 ends at 30.75
    assert result.unbilled == (Machine("n2", "p4de.24xlarge", 10.75, Decimal(215)),)
    assert [node.name for node in result.priced] == ["n3"]
    assert result.problems == ()
    assert set(fleet.sources()) == {"bill", "price_book", "final_price_book"}
    assert bundle(fleet).state.reasons == ("a part of the cost is on no bill",)


def test_rows_without_final_stay_an_estimate(tmp_path: Path) -> None:
    fleet = hybrid(tmp_path, FINAL.replace("true", "false").replace("TRUE", ""))
    result = reconciliation(fleet.config, fleet.store, MONTH)
    assert (result.priced, result.estimated_cost) == ((), WHOLE)


def test_fleet_without_a_bill_is_final_if_all_its_prices_are(closed: Billed) -> None:
    coverage = reading.report(closed.config, closed.store, ALL).coverage
    assert state_of(True, coverage, None, ()).name == "final"
    assert state_of(True, replace(coverage, unpriced_gpu_hours=1.0), None, ()).name == "estimate"
    for lack in ({"estimated_cost": Decimal(1)}, {"final_cost": Decimal(0)}):
        (reason,) = state_of(True, replace(coverage, **lack), None, ()).reasons
        assert reason.startswith("no bill was collected")


def test_no_discount_lowers_a_final_price(closed: Billed, tmp_path: Path) -> None:
    fleet = closed.copy(tmp_path)
    (tmp_path / "prices.csv").write_text(FINAL)
    fleet.config = configured(fleet, "[[prices.discounts]]\npercent = 50\n").config
    pipeline.attribute(fleet.config, fleet.store)
    assert fleet.sources()["final_price_book"] == WHOLE
