"""The account of each billed dollar: every line against the known costs of generated fleets and bills."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from gpucost.questions.reconcile import reconciliation
from gpucost.questions.reconcile.statement import Reconciliation
from tests.bill_table import change_bill_rows
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.replay.result import by_pod
from tests.unit.billed_fleets import BOOTING, MONTH, copied
from tests.unit.command import check_end
from tests.unit.test_price_bill_fleets import Billed, machines, rate

CENT = Decimal("0.005")


def account(fleet: Billed) -> Reconciliation:
    return RECONCILE(fleet.config, fleet.store, MONTH)


RECONCILE = reconciliation
accounted = cache(account)  # for fleets that do not change


def test_billed_cost_is_attributed_unallocated_or_outside_node_life(fleet_as_billed: Billed) -> None:
    """Each pod has its exact cost; time before a machine joined the cluster is outside the node's life."""
    fleet = fleet_as_billed
    fleet_charges = list(charges(fleet.fleet, rate, BOOTING))
    fleet.check(fleet_charges, pooled=False)
    assert set(fleet.sources()) == {"bill"}
    result = accounted(fleet)
    billed = sum((charge.cost for charge in fleet_charges), Decimal(0))
    booted = billed - sum(charge.cost for charge in charges(fleet.fleet, rate))
    held = sum(
        figures.cost
        for figures in by_pod(fleet.store, fleet.fleet["start"] * 1000, fleet.fleet["end"] * 1000).values()
    )
    assert (result.problems, result.machines, result.unseen, result.unbilled) == ((), 3, (), ())
    assert abs(result.effective_cost - billed) < CENT
    assert abs(float(result.lines["attributed"]) - float(held)) < 1e-6
    assert booted > 5
    assert abs(result.lines["outside_node_life"] - booted) < CENT
    assert (
        abs(sum(result.lines[line] for line in ("attributed", "unallocated", "outside_node_life")) - billed)
        < CENT
    )
    assert result.lines["seen_beyond_billed_hours"] == 0


def test_unseen_unbilled_and_partly_billed_machines_are_listed(tmp_path: Path) -> None:
    fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    fleet_charges = [
        replace(charge, seconds=charge.seconds // 2)
        if charge.start % 7200 and charge.node["name"] == "n1"
        else charge
        for charge in charges(fleet.fleet, rate)
    ]
    stranger = [
        replace(charge, node=charge.node | {"name": "elsewhere"})
        for charge in fleet_charges
        if charge.node["name"] == "n2"
    ]
    known = [charge for charge in fleet_charges if charge.node["name"] != "n2"]
    fleet.bill(bill_files.aws_cur(known + stranger), "cur.csv", "aws")
    fleet.config = fleet.sharing("as_billed")
    result = account(fleet)
    assert result.problems == ()
    unknown = pytest.approx(sum(charge.cost for charge in stranger), abs=CENT)
    assert [machine.cost for machine in result.unseen] == [unknown]
    assert result.lines["instances_without_metrics"] == unknown
    (unbilled,) = result.unbilled
    assert (unbilled.name, unbilled.cost > 0) == ("n2", True)
    assert unbilled.hours == pytest.approx(result.unseen[0].hours, abs=0.1)
    assert result.lines["seen_beyond_billed_hours"] < 0


STORAGE = """
    INSERT INTO bill_rows SELECT * REPLACE ('storage' AS kind, NULL AS instance_key, NULL AS instance_hours,
        2 AS billed_cost, 2 AS effective_cost) FROM bill_rows WHERE kind = 'instance' AND cost_cause <> 'fee_missing' LIMIT 1
"""
# a row of a machine's first hour as a node loses its covering fee
FEE_MISSING = """
    UPDATE bill_rows SET cost_cause = 'fee_missing', billed_cost = billed_cost / 2, effective_cost = effective_cost / 2
    WHERE kind = 'instance' AND (source_file, source_row) = (
        SELECT (source_file, source_row) FROM bill_rows WHERE kind = 'instance' AND effective_cost > 0
            AND charge_period_start >= TIMESTAMP '2026-03-10'
        ORDER BY charge_period_start, instance_key, source_row LIMIT 1)
"""


def test_volumes_are_separate_and_partly_billed_hours_are_a_problem(
    fleet_as_billed: Billed, tmp_path: Path
) -> None:
    """Exports of some clouds name the machine of a volume only in the resource."""
    fleet, before = copied(fleet_as_billed, tmp_path), accounted(fleet_as_billed)
    with fleet.store.write() as con:
        for change in (FEE_MISSING, STORAGE):
            change_bill_rows(con, change)
    result = account(fleet)
    storage = [{one.kind: one.cost for one in made.beside}["storage"] for made in (before, result)]
    assert storage[1] == storage[0] + 2
    assert result.lines["billed_in_part"] > before.lines["billed_in_part"] == 0
    assert result.lines["settled_in_other_periods"] == 0
    assert abs(result.difference) < CENT
    assert [problem.partition(" instance-hours ")[2] for problem in result.problems] == [
        "were billed without all of their cost, for an unknown reason"
    ]
    assert sum(machine.cost for machine in result.unbilled) > 0


def test_charge_across_local_midnight_has_one_rate(billed_fleet: Billed, tmp_path: Path) -> None:
    """In India, midnight is within a charged hour, and each day has a different rate."""
    fleet = copied(billed_fleet, tmp_path)
    with fleet.store.write() as con:
        change_bill_rows(con, "UPDATE bill_rows SET billing_currency = 'EUR'")
    (tmp_path / "fx.csv").write_text(
        "date,currency,rate\n2026-03-10,EUR,1.5\n2026-03-11,EUR,3\n2026-03-12,EUR,7\n"
    )
    prices = fleet.config.prices.model_copy(update={"fx_rates": tmp_path / "fx.csv"})
    fleet.config = fleet.config.model_copy(update={"timezone": "Asia/Kolkata", "prices": prices})
    result = account(fleet)
    assert (result.problems, result.difference) == ((), Decimal(0))
    assert abs(result.lines["seen_beyond_billed_hours"]) < CENT
    _, bill_rows = fleet.store.query(
        "SELECT charge_period_start + INTERVAL 330 MINUTE, effective_cost FROM charges WHERE kind = 'instance'"
    )
    days = {10: Fraction(3, 2), 11: Fraction(3), 12: Fraction(7)}
    billed = sum(Fraction(cost) * days[start.day] for start, cost in bill_rows)
    assert abs(Fraction(result.effective_cost) - billed) < Fraction(CENT)


def test_month_without_a_bill_exits_with_4(billed_fleet: Billed) -> None:
    files = f"--config {billed_fleet.folder}/gpucost.toml --store {billed_fleet.store.path}"
    message = "no bill of 2026-02 was collected; bills exist for 2026-03"
    check_end(f"reconcile --month 2026-02 {files}", "4", message)
