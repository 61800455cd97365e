"""The FOCUS export: rows of a charge add up to it and carry its name; what nobody held and what no bill covers say so."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.publish import focus
from gpucost.publish.focus import PREFIX, columns_of
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from tests.bill_table import change_bill_rows
from tests.shared import shared
from tests.text_tables import cells, text_rows
from tests.unit.billed_fleets import MONTH, copied, elsewhere
from tests.unit.test_price_bill_fleets import Billed

AMOUNTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "PricingQuantity", "ConsumedQuantity")

# Columns that every file must have, by the specification of FOCUS 1.2 and 1.3 (focus.finops.org, feature level Mandatory).
MANDATORY = """BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost
PricingQuantity PricingUnit ServiceCategory ServiceName"""
NAMED = {"1.2": "ProviderName PublisherName", "1.3": "ServiceProviderName HostProviderName"}
# May not be null where the column is not.
NEVER_NULL = """BilledCost BillingAccountId BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory ChargePeriodEnd
ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost ProviderName PublisherName ServiceCategory ServiceName
ServiceSubcategory ChargeFrequency"""
ALL = Query(Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)), "March 2026")


def rows(path: Path) -> list[dict[str, Any]]:
    answer = duckdb.sql(f"FROM '{path}'")
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def save(fleet: Billed, version: str = "1.2", kind: Any = "parquet") -> tuple[focus.FocusTotals, Path]:
    path = fleet.folder / f"out-{version}.{kind}"
    return focus.focus_file(fleet.config, fleet.store, MONTH, version, kind, path), path


written = cache(save)  # of fleets that nobody changes


@pytest.fixture(scope="module")
def files(billed_fleet: Billed) -> dict[tuple[str, str], Path]:
    """The file of the whole fleet in each version and kind, of which one preparation is enough."""
    made = {
        (version, kind): billed_fleet.folder / f"{version}.{kind}"
        for version in NAMED
        for kind in ("csv", "parquet")
    }

    def saved(con: duckdb.DuckDBPyConnection) -> None:
        focus.prepare(con, billed_fleet.config, MONTH)
        for (version, kind), path in made.items():
            focus.save(con, version, kind, path)  # type: ignore[arg-type]

    pipeline.read_attributed(billed_fleet.config, billed_fleet.store, saved, None, billed_fleet.folder)
    return made


# What the rows of even hours say; those of odd ones have no list price, nor one that was agreed.
TOLD = """
    invoice_id = 'INV-1', sku_id = 'sku', sku_meter = 'Machine', sku_price_id = 'sku/price',
    sku_price_details = '{"CoreCount": 96}', list_unit_price = 30.5, list_cost = (30.5 * pricing_quantity)::DECIMAL(38, 12),
    contracted_unit_price = 25.25, contracted_cost = (25.25 * pricing_quantity)::DECIMAL(38, 12),
    commitment_discount_name = 'three years', commitment_discount_quantity = 3.7, commitment_discount_unit = 'USD'
"""
UNTOLD = "list_unit_price = NULL, list_cost = NULL, contracted_unit_price = NULL, contracted_cost = NULL"
# units of bills, and those of the specification
UNITS = """
Hrs | Hours
1 Hour | Hours
second | Seconds
gibibyte hour | GiB-Hours
1K tokens | 1000 Tokens
1M tokens | 1000000 Tokens
1,000 Tokens | 1000 Tokens
tokens | Tokens
1K | 1000 Tokens
10 Hours | 10 Hours
"""


@pytest.fixture(scope="module")
def told(billed_fleet: Billed, tmp_path_factory: pytest.TempPathFactory) -> Billed:
    """The fleet with a bill that says much of some hours and little of others, in many units."""
    fleet = copied(billed_fleet, tmp_path_factory.mktemp("told"))
    units = "consumed_unit = $units[1 + hour(charge_period_start) % len($units)], pricing_unit = 'Hrs'"
    with fleet.store.write() as con:
        for odd, change in ((0, TOLD), (1, UNTOLD)):
            change_bill_rows(
                con,
                f"UPDATE bill_rows SET {change} WHERE hour(charge_period_start) % 2 = {odd}",  # noqa: S608
            )
        told_units = [unit for unit, _ in text_rows(UNITS)]
        change_bill_rows(con, f"UPDATE bill_rows SET {units}", {"units": told_units})  # noqa: S608
    return fleet


@pytest.fixture(scope="module", params=["told", "billed_fleet"])
def billed(request: pytest.FixtureRequest) -> Billed:
    """The fleet with its bill, and with one that says more; of other formats tests/services/test_focus_validator.py asks."""
    fleet: Billed = request.getfixturevalue(request.param)
    return fleet


AGREED = """coalesce(contracted_cost, CASE WHEN commitment_discount_id IS NULL AND pricing_category <> 'Committed'
THEN effective_cost ELSE coalesce(list_cost, billed_cost) END)"""
ORIGINS = f"""SELECT source_row, [billed_cost, effective_cost, coalesce(list_cost, {AGREED}), {AGREED},
    coalesce(pricing_quantity, consumed_quantity, instance_hours)::DECIMAL(38, 12),
    coalesce(consumed_quantity, pricing_quantity, instance_hours)::DECIMAL(38, 12)],
    [resource_id, sku_id, sub_account_id, region], tags
FROM bill_rows WHERE kind = 'instance' AND instance_key IN (SELECT instance_key FROM billed_hours)"""  # noqa: S608


def test_rows_add_up_to_their_charge_exactly_and_carry_its_name(billed: Billed) -> None:
    totals, path = written(billed)
    origins = {number: told for number, *told in billed.store.query(ORIGINS)[1]}
    sums: dict[int, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * len(AMOUNTS))
    for row in rows(path):
        origin = row[f"{PREFIX}origin_row"]
        sums[origin] = [before + row[column] for before, column in zip(sums[origin], AMOUNTS, strict=True)]
        _, names, tags = origins[origin]
        assert [row[name] for name in ("ResourceId", "SkuId", "SubAccountId", "RegionId")] == names
        assert set(json.loads(row["Tags"])) >= set(tags or {})
    assert {origin: amounts for origin, (amounts, *_) in origins.items()} == sums
    account = reconciliation(billed.config, billed.store, MONTH)
    assert totals.effective_cost["USD"] == account.effective_cost
    assert (totals.charges, totals.estimated_rows) == (len(origins), 0)


def test_only_commitments_save_on_what_was_agreed_and_spot_contracts_at_its_own_price(
    billed: Billed, told: Billed
) -> None:
    found = rows(written(billed)[1])
    saved: dict[str, Decimal] = defaultdict(Decimal)
    for row in found:
        if billed is not told or row["ChargePeriodStart"].hour % 2:  # else what is agreed is made up
            saved[row["PricingCategory"]] += row["ContractedCost"] - row["EffectiveCost"]
        for kind in ("Contracted", "List"):
            price = row[f"{kind}UnitPrice"] * row["PricingQuantity"]
            assert abs(price - row[f"{kind}Cost"]) < Decimal("1e-9")
    assert saved["Dynamic"] == saved["Standard"] == 0
    spot = [row for row in found if row["PricingCategory"] == "Dynamic"]
    assert sum(row["EffectiveCost"] for row in spot) > 0
    if billed is not told:
        assert saved["Committed"] > 0
        assert sum(row["ListCost"] - row["ContractedCost"] for row in spot) > 0


def test_what_the_bill_tells_comes_through_in_units_of_the_specification(told: Billed) -> None:
    committed: dict[int, Decimal] = defaultdict(Decimal)
    units = [unit for _, unit in text_rows(UNITS)]
    found = rows(written(told)[1])
    assert {row["ConsumedUnit"] for row in found} == set(units)
    for row in found:
        hour = row["ChargePeriodStart"].hour
        assert cells([row], "ConsumedUnit PricingUnit") == [(units[hour % len(units)], "Hours")]
        if hour % 2:
            continue
        assert cells([row], "InvoiceId SkuPriceId SkuMeter") == [("INV-1", "sku/price", "Machine")]
        assert json.loads(row["SkuPriceDetails"]) == {"CoreCount": 96}
        assert (row["ListUnitPrice"], row["ContractedUnitPrice"]) == (Decimal("30.5"), Decimal("25.25"))
        quantity = row["CommitmentDiscountQuantity"]
        names = (row["CommitmentDiscountName"], row["CommitmentDiscountUnit"])
        if row["CommitmentDiscountId"] is None:
            assert (quantity, *names) == (None, None, None)
        else:
            assert names == ("three years", "USD")
            committed[row[f"{PREFIX}origin_row"]] += quantity
    # split as the charge is, and whole again
    assert set(committed.values()) == {Decimal("3.7")}


MORE = """
    INSERT INTO bill_rows BY NAME
    SELECT * REPLACE ($kind AS kind, $cost AS billed_cost, $cost AS effective_cost, NULL AS list_cost, NULL AS instance_hours,
        $category AS charge_category, $name AS charge_description,
        CASE WHEN $monthly THEN TIMESTAMP '2026-03-01' ELSE charge_period_start END AS charge_period_start,
        CASE WHEN $monthly THEN TIMESTAMP '2026-04-01' ELSE charge_period_end END AS charge_period_end)
    FROM bill_rows
    WHERE kind = 'instance' AND (NOT $monthly OR charge_period_start = (SELECT min(charge_period_start) FROM bill_rows))
"""


# discounts are those of charges in the file, those that net costs hold too
ADDED = """
a month's discount | discount | Credit | -200 | monthly
an hour's discount | discount | Credit | -2 |
a fee | node_fee | Usage | 3 |
traffic | discount | Credit | -2 |
net | discount | Credit | -2 |
"""
CHANGED = (
    "UPDATE bill_rows SET service_category = 'Networking' WHERE charge_description = 'traffic'",
    "UPDATE bill_rows SET effective_cost = 0 WHERE charge_description = 'net'",
)


@pytest.mark.slow
def test_discounts_and_fees_on_a_machine_are_split_as_its_hours_and_add_none(
    billed_fleet: Billed, tmp_path: Path
) -> None:
    fleet = copied(billed_fleet, tmp_path)
    with fleet.store.write() as con:
        for name, kind, category, cost, monthly in text_rows(ADDED):
            row = {
                "name": name,
                "kind": kind,
                "category": category,
                "cost": Decimal(cost),
                "monthly": bool(monthly),
            }
            change_bill_rows(con, MORE, row)
        for change in CHANGED:
            change_bill_rows(con, change)
    told = dict(fleet.store.query("SELECT charge_description, sum(billed_cost) FROM bill_rows GROUP BY 1")[1])
    found = defaultdict(list)
    for row in rows(save(fleet)[1]):
        found[row["ChargeDescription"]].append(row)
    hours = [sum(row[f"{PREFIX}gpu_hours"] for row in made) for made in
             (rows(written(billed_fleet)[1]), [row for added in found.values() for row in added])]  # fmt: skip
    assert hours[1] == pytest.approx(hours[0])
    assert "traffic" not in found
    for name, _, category, *_ in text_rows(ADDED):
        added = found[name]
        assert name == "traffic" or sum(row["BilledCost"] for row in added) == told[name]
        if name in ("traffic", "net"):
            continue
        assert sum(row["EffectiveCost"] for row in added) == told[name]
        assert {row[f"{PREFIX}kind"] for row in added} >= {"allocated", "unallocated"}
        # hours are counted where they are charged, and a discount is no price
        for column in ("ConsumedQuantity", "PricingQuantity", "ListUnitPrice", "ContractedUnitPrice"):
            assert {row[column] is None for row in added} == {category != "Usage"}


@pytest.mark.slow
def test_what_was_written_loads_again_and_gives_the_same_money(billed: Billed, tmp_path: Path) -> None:
    """The same sums, and the same cost of each team where metrics are the same."""
    again = Billed(tmp_path, billed.fleet)
    sql = "SELECT sum(billed_cost), sum(effective_cost), sum(list_cost), sum(contracted_cost), count(*) FROM charges"
    found = rows(save(billed)[1])
    listed = [sum(row[column] for row in found) for column in ("ListCost", "ContractedCost")]
    for version, kind in (("1.2", "parquet"), ("1.3", "csv")):
        totals, path = save(billed, version, kind)
        run = collect_bills(again.store, [LocalTree(path)], None, force=True)
        assert not run.errors, run.errors
        amounts = (totals.billed_cost["USD"], totals.effective_cost["USD"], *listed, totals.billed_rows)
        assert again.store.query(sql)[1] == [amounts]
    costs = []
    for fleet in (billed, again):
        view = reading.report(fleet.config, fleet.store, replace(ALL, by=("team",)))
        assert view.totals.estimated_cost == 0
        costs.append({row.keys["team"]: row.measures.cost for row in view.rows if row.kind == "allocated"})
    assert costs[0] == costs[1]


def test_shares_are_those_of_the_reconciliation(fleet_as_billed: Billed) -> None:
    """As the cloud assigned its discounts: then a holder's cost is a share of its own machine's charge."""
    account = reconciliation(fleet_as_billed.config, fleet_as_billed.store, MONTH)
    found: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows(save(fleet_as_billed)[1]):
        found[row[f"{PREFIX}kind"]] += row["EffectiveCost"]
    lines = {
        "allocated": "attributed",
        "unallocated": "unallocated",
        "outside_node_life": "outside_node_life",
    }
    for kind, line in lines.items():
        assert float(found[kind]) == pytest.approx(float(account.lines[line]), abs=1e-6)


def test_tags_name_the_holder_and_what_nobody_held_is_a_row_of_its_own(
    billed_fleet: Billed, files: dict[tuple[str, str], Path]
) -> None:
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(files["1.2", "parquet"]):
        told[row[f"{PREFIX}kind"]].append(row)
    assert told.keys() == {"allocated", "unallocated", "outside_node_life"}
    held = told.pop("allocated")
    for row in held:
        tags = json.loads(row["Tags"])
        assert all(tags[key] == row[PREFIX + key] for key in ("team", "namespace", "workload"))
        assert row[f"{PREFIX}allocated_resource_id"].endswith(row[f"{PREFIX}workload"])
    assert {row[f"{PREFIX}team"] for row in held} == {"train", "serve", "batch"}
    for row in [row for others in told.values() for row in others]:
        assert row[f"{PREFIX}team"] is row[f"{PREFIX}allocated_resource_id"] is None
    hours = reading.report(billed_fleet.config, billed_fleet.store, ALL).totals.allocated_gpu_hours
    assert sum(row[f"{PREFIX}gpu_hours"] for row in held) == pytest.approx(hours)


def test_what_no_bill_covers_is_an_estimate_that_bills_nothing(partly_billed: Billed) -> None:
    totals, path = written(partly_billed, "1.3")
    estimates = [row for row in rows(path) if row[f"{PREFIX}is_estimate"]]
    view = reading.report(partly_billed.config, partly_billed.store, ALL)
    assert totals.estimated_cost == view.totals.estimated_cost > 0
    assert sum(row["EffectiveCost"] for row in estimates) == totals.estimated_cost
    assert {(row["BilledCost"], row["ResourceName"]) for row in estimates} == {(0, "n3")}
    for row in estimates:
        assert "stimate" in row["ChargeDescription"] and "No invoice" in row["InvoiceIssuerName"]


def test_billed_machines_that_no_metrics_saw_keep_their_whole_charge(partly_billed: Billed) -> None:
    found = rows(written(partly_billed, "1.3")[1])
    unseen = [row for row in found if row[f"{PREFIX}kind"] == "instance_without_metrics"]
    whole = sum(charge.cost for charge in elsewhere(partly_billed) if charge.node["name"] == "elsewhere")
    assert sum(row["EffectiveCost"] for row in unseen) == whole
    assert {row["AllocatedMethodId"] for row in unseen} == {None}


@pytest.mark.parametrize("version", NAMED)
def test_the_columns_are_those_of_the_version(version: str, files: dict[tuple[str, str], Path]) -> None:
    header = files[version, "csv"].read_text().splitlines()[0].split(",")
    assert set(header) >= {*MANDATORY.split(), *NAMED[version].split()}
    assert header == list(columns_of(version))
    assert all(name.startswith(PREFIX) for name in header if name.startswith("x_"))
    for row in rows(files[version, "parquet"]):
        assert not [name for name in NEVER_NULL.split() if name in row and row[name] is None]
        assert (row["PricingUnit"] is None) == (row["PricingQuantity"] is None)


@pytest.mark.shared
@pytest.mark.parametrize("version", NAMED)
def test_no_column_is_unknown_to_the_version(version: str) -> None:
    told = json.loads(shared("data/billing/schemas/focus_columns_by_version.json").read_text())
    known = next(columns for name, columns in told.items() if name.startswith(f"FOCUS {version}"))
    assert {name for name in columns_of(version) if not name.startswith("x_")} <= set(known)


def test_since_1_3_tags_are_the_origins_and_the_ratios_add_up_to_1(
    files: dict[tuple[str, str], Path],
) -> None:
    ratios: dict[int, Decimal] = defaultdict(Decimal)
    for row in rows(files["1.3", "parquet"]):
        assert row["AllocatedMethodId"] == "gpucost-held-time"
        assert row["HostProviderName"] == row["ServiceProviderName"] == "AWS"
        details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)
        element = details["Elements"][0]
        quantity, ratio = element["UsageQuantity"], element["AllocatedRatio"]
        # other keys would have to begin with x_, and numbers may be no text
        expected = {"AllocatedRatio": ratio, "UsageUnit": "GPU-Hours", "UsageQuantity": quantity}
        assert details == {"Elements": [expected]} and isinstance(quantity, Decimal)
        ratios[row[f"{PREFIX}origin_row"]] += ratio
        assert "workload" not in json.loads(row["Tags"])
        if row[f"{PREFIX}kind"] == "allocated":
            assert json.loads(row["AllocatedTags"])["team"] == row[f"{PREFIX}team"]
            assert row["AllocatedResourceId"].endswith(row["AllocatedResourceName"])
        else:
            assert row["AllocatedResourceId"] is row["AllocatedResourceName"] is row["AllocatedTags"] is None
    assert set(ratios.values()) == {Decimal(1)}


def test_the_same_input_gives_the_same_bytes_and_a_month_without_any_is_an_error(
    billed_fleet: Billed, files: dict[tuple[str, str], Path]
) -> None:
    for version, kind in (("1.2", "parquet"), ("1.3", "csv")):
        assert save(billed_fleet, version, kind)[1].read_bytes() == files[version, kind].read_bytes()
    with pytest.raises(GpucostError, match="nothing of 2025-01 costs anything"):
        focus.focus_file(
            billed_fleet.config, billed_fleet.store, "2025-01", "1.2", "csv", billed_fleet.folder / "none.csv"
        )
