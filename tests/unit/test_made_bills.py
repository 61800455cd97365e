"""Whole bills of whole fleets: reconcile's classes add up to the invoice to the cent, and a discount is in what GPUs cost.

AWS's is the demo's own bill; Google's and Azure's are of a small fleet, with commitments, reservations and credits.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.demo import bill
from gpucost.demo.build import build
from gpucost.demo.fleet import plan
from gpucost.periods import Period
from gpucost.report import Query
from gpucost.store.connection import Store
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.unit.bills import csv_text
from tests.unit.test_price_bill_fleets import Billed, machines, rate

pytestmark = pytest.mark.slow

FEBRUARY = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
CENT = Decimal("0.01")
KEPT = Decimal("0.9")
#: The demo's bill as it might be told otherwise, from the table `cur`.
TELLINGS = {
    "list": "FROM cur WHERE line_item_line_item_type <> 'EdpDiscount'",
    "discount rows": "FROM cur",
    "net columns": """
        SELECT * EXCLUDE (kept),
            CASE WHEN line_item_line_item_type = 'EdpDiscount' THEN 0 ELSE kept END * line_item_unblended_cost
                AS line_item_net_unblended_cost,
            kept * savings_plan_savings_plan_effective_cost AS savings_plan_net_savings_plan_effective_cost,
            kept * reservation_effective_cost AS reservation_net_effective_cost,
            kept * reservation_unused_amortized_upfront_fee_for_billing_period
                AS reservation_net_unused_amortized_upfront_fee_for_billing_period,
            kept * reservation_unused_recurring_fee AS reservation_net_unused_recurring_fee
        FROM (SELECT *, CASE WHEN line_item_line_item_type IN ('Tax', 'Credit', 'Refund')
                  OR line_item_product_code LIKE 'AWSSupport%' THEN 1 ELSE 0.9 END AS kept FROM cur)""",
    "discount rows by product": """
        FROM cur WHERE line_item_line_item_type <> 'EdpDiscount'
        UNION ALL BY NAME
        SELECT any_value(COLUMNS('^bill_')), line_item_line_item_type, line_item_product_code, line_item_usage_account_id,
            min(line_item_usage_start_date) AS line_item_usage_start_date,
            max(line_item_usage_end_date) AS line_item_usage_end_date,
            '' AS line_item_usage_type, 'USD' AS line_item_currency_code,
            sum(line_item_unblended_cost) AS line_item_unblended_cost,
            savings_plan_savings_plan_a_r_n, reservation_reservation_a_r_n
        FROM cur WHERE line_item_line_item_type = 'EdpDiscount'
        GROUP BY ALL""",
}


@dataclass(frozen=True)
class Told:
    """A telling of the demo's bill: its file, what is in it, and what gpucost says with it."""

    rows: int
    invoice: Decimal
    by_type: dict[str, Decimal]
    gpu_cost: Decimal
    statements: dict[str, Any]


def statements(config: Path, month: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["reconcile", "--month", month, "--format", "json", "--config", str(config)])
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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """What gpucost says of the demo's fleet with each telling of its bill."""
    demo = tmp_path_factory.mktemp("demo")
    build(demo, FEBRUARY, lambda _: None)
    made = bill.write(plan(FEBRUARY), FEBRUARY, tmp_path_factory.mktemp("bill"))
    known: dict[str, Told] = {}

    def tell(name: str) -> Told:
        if name not in known:
            known[name] = _told(shutil.copytree(demo, tmp_path_factory.mktemp("told"), dirs_exist_ok=True), made, name)
        return known[name]

    return tell


def _told(folder: Path, made: Path, name: str) -> Told:
    path = folder / "told.parquet"
    with duckdb.connect() as con:
        con.read_parquet(str(made)).create_view("cur")
        con.sql(TELLINGS[name]).write_parquet(str(path))
        con.read_parquet(str(path)).create_view("told")
        sums = con.execute(
            "SELECT line_item_line_item_type || if(line_item_product_code LIKE 'AWSSupport%', ' of support', ''), "
            "sum(line_item_unblended_cost), count(*) FROM told GROUP BY ALL"
        ).fetchall()
    config = load_config(folder / "gpucost.toml", environ={})
    store = Store(config.store)
    run = collect_bills(store, [LocalTree(path)], "aws")
    assert not run.errors, run.errors
    view = pipeline.report(config, store, Query(period=FEBRUARY, period_name="February 2026"))
    assert view.node_totals is not None
    assert {source.name for source in view.coverage.price_sources} == {"bill"}
    return Told(
        rows=sum(count for *_, count in sums),
        invoice=sum((cost for _, cost, _ in sums), Decimal(0)),
        by_type={name: cost for name, cost, _ in sums},
        gpu_cost=view.node_totals.node_cost,
        statements=statements(folder / "gpucost.toml", "2026-02"),
    )


def _effective(told: Told) -> Decimal:
    """Of the bill at list prices: the invoice, with the month's part of the reservations' upfront fee in the fee's place."""
    count, upfront, hours = bill.TERMS["reserved_count"], Decimal(bill.TERMS["reserved_upfront"]), Decimal(28 * 24)
    return told.invoice - count * upfront + count * hours * upfront / 8760


@pytest.mark.parametrize("name", TELLINGS)
def test_classes_add_up_to_the_invoice(told: Callable[[str], Told], name: str) -> None:
    found = told(name)
    check(found.statements["billed"], found.rows, found.invoice)
    check(found.statements["effective"], found.rows, Decimal(found.statements["effective"]["cost"]))


def test_effective_cost_spreads_the_upfront_fee(told: Callable[[str], Told]) -> None:
    at_list, net = told("list"), told("net columns")
    effective = _effective(at_list)
    check(at_list.statements["effective"], at_list.rows, effective)
    kept = ("Tax", "Credit", "Refund", "Tax of support", "Fee of support")
    rest = sum((at_list.by_type[name] for name in kept), Decimal(0))
    check(net.statements["effective"], net.rows, KEPT * (effective - rest) + rest)


def test_each_class_is_what_the_bill_has_of_it(told: Callable[[str], Told]) -> None:
    found = told("list")
    billed = found.statements["billed"]
    assert of_class(billed, "tax") == found.by_type["Tax"] + found.by_type["Tax of support"]
    assert of_class(billed, "credits") == Decimal("-750")
    assert of_class(billed, "refunds") == Decimal("-64.20")
    assert of_class(billed, "support") == found.by_type["Fee of support"]
    assert of_class(billed, "unused_gpu_reservations") == 24 * Decimal("55.04")
    fees = sum(found.by_type[name] for name in ("Fee", "RIFee", "SavingsPlanRecurringFee"))
    assert of_class(billed, "commitment_fees", "unused_commitments") == fees
    for name in (
        "attributed",
        "unallocated",
        "outside_node_life",
        "instances_without_metrics",
        "other_machines",
        "storage",
        "network",
    ):
        assert of_class(billed, name) > 0, name
    effective = found.statements["effective"]
    # on the first day one of the two reserved machines was not there yet
    assert Decimal(80) < of_class(effective, "unused_commitments") < 25 * Decimal("3.57")
    gpus = of_class(effective, "attributed", "unallocated")
    assert abs(gpus - found.gpu_cost) < Decimal(1)


@pytest.mark.parametrize("name", ["discount rows", "net columns"])
def test_a_discount_of_ten_percent_is_taken_off_gpus(told: Callable[[str], Told], name: str) -> None:
    assert abs(told(name).gpu_cost - KEPT * told("list").gpu_cost) < CENT


def test_discounts_that_name_no_machine_are_spread(told: Callable[[str], Told]) -> None:
    assert told("discount rows by product").gpu_cost / told("list").gpu_cost == pytest.approx(KEPT, abs=Decimal("0.01"))


def test_what_was_discounted_is_told_of(told: Callable[[str], Told]) -> None:
    """What discount rows took off machines is in their cost; what they took off the rest stays a class of its own."""
    rows = told("discount rows")
    billed, effective = (rows.statements[basis] for basis in ("billed", "effective"))
    taken = told("list").gpu_cost - rows.gpu_cost
    assert taken > 5000
    assert of_class(billed, "discounts") <= of_class(effective, "discounts") - Decimal("0.9") * taken


@pytest.mark.parametrize("name", ["discount rows", "discount rows by product"])
def test_discount_rows_and_net_columns_come_to_the_same(told: Callable[[str], Told], name: str) -> None:
    rows, net = (told(one).statements["effective"] for one in (name, "net columns"))
    assert abs(rows["cost"] - net["cost"]) < CENT
    for one in ("unused_commitments", "unused_gpu_reservations", "commitment_fees"):
        assert abs(of_class(rows, one) - of_class(net, one)) < CENT, one


# Google Cloud and Azure.


def signed(fleet: Billed) -> Path:
    """A configuration for the fleet, whose two days are all that it ran."""
    accepted = '[[coverage.accept]]\nfrom = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "it ran for two days"\n'
    config = fleet.folder / "gpucost.toml"
    config.write_text(f'store = "{fleet.store.path}"\n[prices]\nbook = "{fleet.folder / "prices.csv"}"\n{accepted}')
    return config


def gpu_cost(fleet: Billed) -> Decimal:
    march = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    view = pipeline.report(fleet.config, fleet.store, Query(period=march, period_name="March 2026"))
    assert view.node_totals is not None
    return view.node_totals.node_cost


def _gcp(fleet: Billed, kept: Decimal = Decimal(1)) -> list[dict[str, Any]]:
    """Cores of one machine under a commitment that is a quarter idle, a reservation that nobody used, and the account's rest."""
    rows = [json.loads(line, parse_float=Decimal) for line in bill_files.gcp_jsonl(charges(fleet.fleet, rate)).splitlines()]
    first = rows[0]
    rest: list[dict[str, Any]] = []
    for row in rows:
        if "Instance Core" in row["sku"]["description"] and row["resource"]["name"] == rows[0]["resource"]["name"]:
            row["credits"] = [
                {"name": "Committed use", "full_name": "", "id": "", "type": "COMMITTED_USAGE_DISCOUNT", "amount": -row["cost"]}
            ]
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
        bare | {"sku": _sku("Reserved Nvidia Tesla A100 GPU in Netherlands"), "cost": Decimal("61.5"), "system_labels": unused},
        bare | {"sku": _sku("Standard"), "cost": Decimal("29"), "service": support},
        bare | {"sku": _sku("VAT"), "cost": Decimal("17.25"), "cost_type": "tax"},
        bare | {"sku": _sku("Goodwill"), "cost": Decimal("-12"), "cost_type": "adjustment", "adjustment_info": goodwill},
    ]
    told = rows + rest
    for row in told if kept != 1 else ():
        if row["cost_type"] == "regular" and "Support" not in row["service"]["description"]:
            due = row["cost"] + sum(one["amount"] for one in row["credits"] if one["type"] != "PROMOTION")
            row["credits"] = [
                *row["credits"],
                {"name": "Contract", "full_name": "", "id": "", "type": "DISCOUNT", "amount": due * (kept - 1)},
            ]
    return told


def _sku(words: str) -> dict[str, str]:
    return {"id": words[:4], "description": words}


def _credit(kind: str, amount: Decimal) -> dict[str, Any]:
    return {"name": kind, "full_name": "", "id": "", "type": kind, "amount": amount}


def _gcp_sums(rows: list[dict[str, Any]]) -> tuple[Decimal, Decimal]:
    """Billed and effective cost: a promotion lowers the bill, not what usage costs."""
    billed = sum((row["cost"] + sum(one["amount"] for one in row["credits"]) for row in rows), Decimal(0))
    promotions = sum((one["amount"] for row in rows for one in row["credits"] if one["type"] == "PROMOTION"), Decimal(0))
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
    amortized = list(csv.DictReader(io.StringIO(bill_files.azure_amortized(by_day(charges(fleet.fleet, rate))))))
    actual = [
        row | ({"CostInBillingCurrency": "0"} if row["ReservationId"] else {})
        for row in amortized
        if row["ChargeType"] == "Usage"
    ]
    bare = amortized[0] | {"ResourceId": "", "AdditionalInfo": "", "ReservationId": "", "PricingModel": "", "Quantity": "1"}
    both = [
        bare | {"ChargeType": "Refund", "MeterCategory": "Virtual Machines Licenses", "CostInBillingCurrency": "-4.40"},
        bare | {"ChargeType": "Credit", "MeterCategory": "Credit", "CostInBillingCurrency": "-25"},
        bare | {"ChargeType": "Purchase", "MeterCategory": "Microsoft Support", "CostInBillingCurrency": "100"},
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
        sum((Decimal(row["CostInBillingCurrency"]) for row in rows), Decimal(0)) for rows in (actual, amortized)
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
