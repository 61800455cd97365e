"""Whole bills of whole fleets: reconcile's classes add up to the invoice to the cent.

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
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.sample import bill
from tests.sample.build import build
from tests.sample.fleet import plan
from tests.text_tables import words
from tests.unit.bills import csv_text
from tests.unit.test_price_bill_fleets import Billed, machines, rate

pytestmark = pytest.mark.slow

FEBRUARY = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
MARCH = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
CENT = Decimal("0.01")


def check(config: Path, month: str, rows: int | None, billed: Decimal, effective: Decimal) -> dict[str, Any]:
    """Both statements hold all rows and all of the cost; answers their costs by class."""
    command = ["reconcile", "--month", month, "--format", "json", "--config", str(config)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    costs: dict[str, Any] = {}
    for one in json.loads(result.stdout, parse_float=Decimal)["statements"]:
        classes: dict[str, Decimal] = costs.setdefault(one["basis"], {})
        for row in one["classes"]:
            classes[row["class"]] = classes.get(row["class"], Decimal(0)) + Decimal(row["cost"])
        assert abs(Decimal(one["cost"]) - (billed if one["basis"] == "billed" else effective)) < CENT
        assert abs(sum(classes.values()) - Decimal(one["cost"])) < CENT and one["difference"] == 0
        assert sum(row["rows"] for row in one["classes"]) == one["rows"]
        assert rows is None or one["rows"] == rows
    return costs


def gpu_cost(config: Config, store: Store, period: Period, *clusters: str) -> Decimal:
    view = reading.report(config, store, Query(period=period, period_name="the month", clusters=clusters))
    assert view.node_totals is not None
    assert {source.name for source in view.coverage.price_sources} == {"bill"}
    return view.node_totals.node_cost


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
    by_type = {name: cost for name, cost, _ in sums}
    config = load_config(tmp_path / "gpucost.toml", environ={})
    store = Store(config.store)
    assert not collect_bills(store, [LocalTree(tmp_path / "listed.parquet")], "aws").errors
    cost = gpu_cost(config, store, FEBRUARY, "demo")
    invoice, rows = sum(by_type.values(), Decimal(0)), sum(count for *_, count in sums)
    # the month's part of the reservations' upfront fee, in the fee's place
    upfront = bill.TERMS["reserved_count"] * Decimal(bill.TERMS["reserved_upfront"])
    spread = invoice - upfront + upfront * 28 * 24 / 8760
    costs = check(tmp_path / "gpucost.toml", "2026-02", rows, invoice, spread)
    billed, effective = costs["billed"], costs["effective"]
    fees = sum(by_type[name] for name in ("Fee", "RIFee", "SavingsPlanRecurringFee"))
    assert billed["tax"] == by_type["Tax"] + by_type["Tax of support"]
    assert (billed["credits"], billed["refunds"]) == (-750, Decimal("-64.20"))
    assert billed["support"] == by_type["Fee of support"]
    assert billed["unused_gpu_reservations"] == 24 * Decimal("55.04")
    assert billed.get("commitment_fees", 0) + billed.get("unused_commitments", 0) == fees
    used = "attributed unallocated outside_node_life instances_without_metrics other_machines storage network"
    assert all(billed[name] > 0 for name in used.split())
    # on the first day one of the two reserved machines was not there yet
    assert 80 < effective["unused_commitments"] < 25 * Decimal("3.57")
    assert abs(effective["attributed"] + effective["unallocated"] - cost) < 1


def signed(fleet: Billed) -> Path:
    """A configuration for the fleet, whose two days are all that it ran."""
    config = fleet.folder / "gpucost.toml"
    config.write_text(
        f'store = "{fleet.store.path}"\n[prices]\nbook = "{fleet.folder / "prices.csv"}"\n[[coverage.accept]]\n'
        'from = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "it ran for two days"\n'
    )
    return config


#: What is changed in a row of Google's bill, and its cost: a reservation that nobody used, and the account's rest.
REST = """[
  {"sku": {"id": "R", "description": "Reserved Nvidia Tesla A100 GPU in Netherlands"}, "cost": 61.5, "system_labels": [
    {"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-2g"},
    {"key": "compute.googleapis.com/is_unused_reservation", "value": "true"},
    {"key": "compute.googleapis.com/reservation_name", "value": "gpus"}]},
  {"sku": {"id": "S", "description": "Standard"}, "cost": 29, "service": {"id": "S", "description": "Standard Support"}},
  {"sku": {"id": "V", "description": "VAT"}, "cost": 17.25, "cost_type": "tax"},
  {"sku": {"id": "G", "description": "Goodwill"}, "cost": -12, "cost_type": "adjustment",
    "adjustment_info": {"type": "GOODWILL"}}]"""
CUD = '{"name": "CUD", "full_name": "", "id": "", "type": "COMMITTED_USAGE_DISCOUNT"}'
CPU_FEE = {"id": "C", "description": "Commitment v1: A2 Cpu in Netherlands for 1 Year"}


def test_googles_bill(tmp_path: Path) -> None:
    """Cores of one machine are under a commitment that is a quarter idle."""
    fleet = Billed(tmp_path, machines("a2-highgpu-2g"))
    lines = bill_files.gcp_jsonl(charges(fleet.fleet, rate)).splitlines()
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    bare: dict[str, Any] = {"credits": [], "resource": {}, "system_labels": []}
    rest = [rows[0] | bare | one for one in json.loads(REST, parse_float=Decimal)]
    machine = rows[0]["resource"]["name"]
    for row in rows:
        if "Instance Core" in row["sku"]["description"] and row["resource"]["name"] == machine:
            row["credits"] = [json.loads(CUD) | {"amount": -row["cost"]}]
            units = row["usage"]["amount_in_pricing_units"] / Decimal("0.75")
            fee = {"sku": CPU_FEE, "usage": row["usage"] | {"amount_in_pricing_units": units}}
            rest.append(row | bare | fee)
    rows += rest
    fleet.bill("".join(json.dumps(row, default=str) + "\n" for row in rows), "export.jsonl", "gcp")
    billed, promotions = Decimal(0), Decimal(0)
    for row in rows:
        billed += row["cost"] + sum(one["amount"] for one in row["credits"])
        promotions += sum(one["amount"] for one in row["credits"] if one["type"] == "PROMOTION")
    # a promotion lowers the bill, not what usage costs
    costs = check(signed(fleet), "2026-03", len(rows), billed, billed - promotions)
    assert (costs["billed"]["tax"], costs["billed"]["support"]) == (Decimal("17.25"), 29)
    assert costs["billed"]["credits"] <= -12
    assert abs(costs["effective"]["unused_gpu_reservations"] - Decimal("61.5")) < CENT
    assert costs["effective"]["unused_commitments"] > 0


#: Rows of Azure's exports, in what they differ from a machine's: a refund, a credit, support, tax, and a reservation bought.
BOTH = """
ChargeType=Refund MeterCategory="Virtual Machines Licenses" CostInBillingCurrency=-4.40
ChargeType=Credit MeterCategory=Credit CostInBillingCurrency=-25
ChargeType=Purchase MeterCategory="Microsoft Support" CostInBillingCurrency=100
ChargeType=Tax MeterCategory=Tax CostInBillingCurrency=31.07"""
BOUGHT = """ChargeType=Purchase ReservationId=a-reservation ProductName="Reserved VM Instance" CostInBillingCurrency=9000
    PricingModel=Reservation"""


def test_azures_bill(tmp_path: Path) -> None:
    """The actual and the amortized export."""
    fleet = Billed(tmp_path, machines("Standard_NC24ads_A100_v4"))
    text = bill_files.azure_amortized(by_day(charges(fleet.fleet, rate)))
    amortized = list(csv.DictReader(io.StringIO(text)))
    bare = amortized[0] | words("ResourceId= AdditionalInfo= ReservationId= PricingModel= Quantity=1")
    actual = [bare | words(BOUGHT)]
    for row in amortized:
        if row["ChargeType"] == "Usage":
            actual.append(row | ({"CostInBillingCurrency": "0"} if row["ReservationId"] else {}))
    costs = []
    for name, rows in (("amortized", amortized), ("actual", actual)):
        rows += [bare | words(line) for line in BOTH.strip().splitlines()]
        costs.append(sum((Decimal(row["CostInBillingCurrency"]) for row in rows), Decimal(0)))
        fleet.bill(csv_text(rows), f"{name}.csv", "azure")
    effective, invoice = costs
    found = check(signed(fleet), "2026-03", None, invoice, effective)
    billed, effective_costs = found["billed"], found["effective"]
    assert (billed["tax"], billed["support"], billed["commitment_fees"]) == (Decimal("31.07"), 100, 9000)
    assert effective_costs["unused_commitments"] == Decimal("2.5")
    gpus = effective_costs["attributed"] + effective_costs["unallocated"]
    assert abs(gpus - gpu_cost(fleet.config, fleet.store, MARCH)) < CENT
