"""Whole bills of whole fleets: reconcile's classes add up to the invoice to the cent, and a discount is in what GPUs cost.

AWS's is the demo's own bill; Google's and Azure's are of a small fleet, with commitments, reservations and credits.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.sample import bill
from tests.sample.build import build
from tests.sample.fleet import plan
from tests.unit.bills import csv_text
from tests.unit.test_price_bill_fleets import Billed, machines, rate

pytestmark = pytest.mark.slow

FEBRUARY = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
CENT = Decimal("0.01")
KEPT = Decimal("0.9")


def statements(config: Path, month: str) -> dict[str, Any]:
    result = CliRunner().invoke(
        app, ["reconcile", "--month", month, "--format", "json", "--config", str(config)]
    )
    assert result.exit_code == 0, result.output
    return {one["basis"]: one for one in json.loads(result.stdout, parse_float=Decimal)["statements"]}


def check(statement: dict[str, Any], rows: int | None, cost: Decimal) -> None:
    """A statement's classes hold all rows and all of the cost."""
    assert abs(Decimal(statement["cost"]) - cost) < CENT
    assert abs(sum(Decimal(one["cost"]) for one in statement["classes"]) - Decimal(statement["cost"])) < CENT
    assert statement["difference"] == 0
    assert sum(one["rows"] for one in statement["classes"]) == statement["rows"]
    if rows is not None:
        assert statement["rows"] == rows


def of_class(statement: dict[str, Any], *names: str) -> Decimal:
    return sum((Decimal(one["cost"]) for one in statement["classes"] if one["class"] in names), Decimal(0))


def test_the_demos_bill(tmp_path: Path) -> None:
    build(tmp_path, FEBRUARY, lambda _: None)
    made = bill.write(plan(FEBRUARY), FEBRUARY, tmp_path)
    with duckdb.connect() as con:
        con.read_parquet(str(made)).create_view("cur")
        con.execute("CREATE VIEW listed AS FROM cur WHERE line_item_line_item_type <> 'EdpDiscount'")
        con.table("listed").write_parquet(str(tmp_path / "listed.parquet"))
        sums = con.execute(
            "SELECT line_item_line_item_type || if(line_item_product_code LIKE 'AWSSupport%', ' of support', ''), "
            "sum(line_item_unblended_cost), count(*) FROM listed GROUP BY ALL"
        ).fetchall()
    by_type, invoice = {name: cost for name, cost, _ in sums}, sum((cost for _, cost, _ in sums), Decimal(0))
    config = load_config(tmp_path / "gpucost.toml", environ={})
    store = Store(config.store)
    assert not collect_bills(store, [LocalTree(tmp_path / "listed.parquet")], "aws").errors
    view = reading.report(
        config, store, Query(period=FEBRUARY, period_name="February 2026", clusters=("demo",))
    )
    assert view.node_totals is not None and {source.name for source in view.coverage.price_sources} == {
        "bill"
    }
    found, rows = statements(tmp_path / "gpucost.toml", "2026-02"), sum(count for *_, count in sums)
    billed, effective = found["billed"], found["effective"]
    check(billed, rows, invoice)
    # the month's part of the reservations' upfront fee, in the fee's place
    count, upfront, hours = (
        bill.TERMS["reserved_count"],
        Decimal(bill.TERMS["reserved_upfront"]),
        Decimal(28 * 24),
    )
    check(effective, rows, invoice - count * upfront + count * hours * upfront / 8760)
    fees = sum(by_type[name] for name in ("Fee", "RIFee", "SavingsPlanRecurringFee"))
    for names, cost in (
        (["tax"], by_type["Tax"] + by_type["Tax of support"]),
        (["credits"], -750),
        (["refunds"], Decimal("-64.20")),
        (["support"], by_type["Fee of support"]),
        (["unused_gpu_reservations"], 24 * Decimal("55.04")),
        (["commitment_fees", "unused_commitments"], fees),
    ):
        assert of_class(billed, *names) == cost, names
    machines = (
        "attributed",
        "unallocated",
        "outside_node_life",
        "instances_without_metrics",
        "other_machines",
    )
    assert all(of_class(billed, name) > 0 for name in (*machines, "storage", "network"))
    # on the first day one of the two reserved machines was not there yet
    assert 80 < of_class(effective, "unused_commitments") < 25 * Decimal("3.57")
    assert abs(of_class(effective, "attributed", "unallocated") - view.node_totals.node_cost) < 1


def signed(fleet: Billed) -> Path:
    """A configuration for the fleet, whose two days are all that it ran."""
    accepted = (
        '[[coverage.accept]]\nfrom = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "it ran for two days"\n'
    )
    config = fleet.folder / "gpucost.toml"
    config.write_text(
        f'store = "{fleet.store.path}"\n[prices]\nbook = "{fleet.folder / "prices.csv"}"\n{accepted}'
    )
    return config


def gpu_cost(fleet: Billed) -> Decimal:
    march = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    view = reading.report(fleet.config, fleet.store, Query(period=march, period_name="March 2026"))
    assert view.node_totals is not None
    return view.node_totals.node_cost


def _gcp(fleet: Billed, kept: Decimal = Decimal(1)) -> list[dict[str, Any]]:
    """Cores of one machine under a commitment that is a quarter idle, a reservation that nobody used, and the account's rest."""
    rows = [
        json.loads(line, parse_float=Decimal)
        for line in bill_files.gcp_jsonl(charges(fleet.fleet, rate)).splitlines()
    ]
    first = rows[0]
    rest: list[dict[str, Any]] = []
    for row in rows:
        if (
            "Instance Core" in row["sku"]["description"]
            and row["resource"]["name"] == rows[0]["resource"]["name"]
        ):
            row["credits"] = [_credit("COMMITTED_USAGE_DISCOUNT", -row["cost"])]
            units = row["usage"]["amount_in_pricing_units"] / Decimal("0.75")
            rest.append(
                row
                | {
                    "sku": _sku("Commitment v1: A2 Cpu in Netherlands for 1 Year"),
                    "cost": row["cost"], "credits": [], "resource": {}, "system_labels": [],
                    "usage": row["usage"] | {"amount_in_pricing_units": units},
                }
            )  # fmt: skip
    unused = [
        {"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-2g"},
        {"key": "compute.googleapis.com/is_unused_reservation", "value": "true"},
        {"key": "compute.googleapis.com/reservation_name", "value": "gpus"},
    ]
    bare: dict[str, Any] = first | {"credits": [], "resource": {}, "system_labels": []}
    support, goodwill = {"id": "S", "description": "Standard Support"}, {"type": "GOODWILL"}
    rest += [
        bare
        | {
            "sku": _sku("Reserved Nvidia Tesla A100 GPU in Netherlands"),
            "cost": Decimal("61.5"),
            "system_labels": unused,
        },
        bare | {"sku": _sku("Standard"), "cost": Decimal("29"), "service": support},
        bare | {"sku": _sku("VAT"), "cost": Decimal("17.25"), "cost_type": "tax"},
        bare
        | {
            "sku": _sku("Goodwill"),
            "cost": Decimal("-12"),
            "cost_type": "adjustment",
            "adjustment_info": goodwill,
        },
    ]
    told = rows + rest
    for row in told if kept != 1 else ():
        if row["cost_type"] == "regular" and "Support" not in row["service"]["description"]:
            due = row["cost"] + sum(one["amount"] for one in row["credits"] if one["type"] != "PROMOTION")
            row["credits"] = [*row["credits"], _credit("DISCOUNT", due * (kept - 1))]
    return told


def _sku(words: str) -> dict[str, str]:
    return {"id": words[:4], "description": words}


def _credit(kind: str, amount: Decimal) -> dict[str, Any]:
    return {"name": kind, "full_name": "", "id": "", "type": kind, "amount": amount}


def _gcp_sums(rows: list[dict[str, Any]]) -> tuple[Decimal, Decimal]:
    """Billed and effective cost: a promotion lowers the bill, not what usage costs."""
    billed = sum((row["cost"] + sum(one["amount"] for one in row["credits"]) for row in rows), Decimal(0))
    promotions = sum(
        (one["amount"] for row in rows for one in row["credits"] if one["type"] == "PROMOTION"), Decimal(0)
    )
    return billed, billed - promotions


def test_googles_bill(tmp_path: Path) -> None:
    costs = []
    for kept in (Decimal(1), KEPT):
        folder = tmp_path / str(kept)
        folder.mkdir()
        fleet = Billed(folder, machines("a2-highgpu-2g"))
        rows = _gcp(fleet, kept)
        fleet.bill("".join(json.dumps(row, default=str) + "\n" for row in rows), "export.jsonl", "gcp")
        costs.append(gpu_cost(fleet))
        found = statements(signed(fleet), "2026-03")
        billed, effective = _gcp_sums(rows)
        check(found["billed"], len(rows), billed)
        check(found["effective"], len(rows), effective)
        assert of_class(found["billed"], "tax") == Decimal("17.25")
        assert of_class(found["billed"], "support") == 29
        assert abs(of_class(found["effective"], "unused_gpu_reservations") - Decimal("61.5") * kept) < CENT
        assert of_class(found["effective"], "unused_commitments") > 0
        assert of_class(found["billed"], "credits") <= -12
    assert costs[0] > 100
    assert abs(costs[1] - KEPT * costs[0]) < CENT


def _azure(fleet: Billed) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The actual and the amortized export: a reservation bought in the month, a refund, a credit, support and tax."""
    amortized = list(
        csv.DictReader(io.StringIO(bill_files.azure_amortized(by_day(charges(fleet.fleet, rate)))))
    )
    actual = [
        row | ({"CostInBillingCurrency": "0"} if row["ReservationId"] else {})
        for row in amortized
        if row["ChargeType"] == "Usage"
    ]
    bare = amortized[0] | {
        "ResourceId": "",
        "AdditionalInfo": "",
        "ReservationId": "",
        "PricingModel": "",
        "Quantity": "1",
    }
    both = [
        bare
        | {
            "ChargeType": "Refund",
            "MeterCategory": "Virtual Machines Licenses",
            "CostInBillingCurrency": "-4.40",
        },
        bare | {"ChargeType": "Credit", "MeterCategory": "Credit", "CostInBillingCurrency": "-25"},
        bare
        | {"ChargeType": "Purchase", "MeterCategory": "Microsoft Support", "CostInBillingCurrency": "100"},
        bare | {"ChargeType": "Tax", "MeterCategory": "Tax", "CostInBillingCurrency": "31.07"},
    ]
    bought = {
        "ChargeType": "Purchase",
        "ReservationId": "a-reservation",
        "ProductName": "Reserved VM Instance",
        "CostInBillingCurrency": "9000",
    }
    return [*actual, *both, bare | bought | {"PricingModel": "Reservation"}], [*amortized, *both]


def test_azures_bill(tmp_path: Path) -> None:
    fleet = Billed(tmp_path, machines("Standard_NC24ads_A100_v4"))
    actual, amortized = _azure(fleet)
    invoice, effective = (
        sum((Decimal(row["CostInBillingCurrency"]) for row in rows), Decimal(0))
        for rows in (actual, amortized)
    )
    fleet.bill(csv_text(amortized), "amortized.csv", "azure")
    fleet.bill(csv_text(actual), "actual.csv", "azure")
    found = statements(signed(fleet), "2026-03")
    check(found["billed"], None, invoice)
    check(found["effective"], None, effective)
    assert of_class(found["billed"], "tax") == Decimal("31.07")
    assert of_class(found["billed"], "support") == 100
    assert of_class(found["billed"], "commitment_fees") == 9000
    assert of_class(found["effective"], "unused_commitments") == Decimal("2.5")
    assert abs(of_class(found["effective"], "attributed", "unallocated") - gpu_cost(fleet)) < CENT
