"""The FOCUS export: rows add up to their charge and keep its names; unallocated and unbilled GPU time have their own rows."""

from __future__ import annotations

import json
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
from gpucost.engine import dicts
from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.publish import focus
from gpucost.publish.focus import PREFIX, columns_of
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from tests.bill_table import change_bill_rows
from tests.shared import shared
from tests.text_tables import text_rows
from tests.unit.billed_fleets import MONTH, copied, elsewhere
from tests.unit.test_price_bill_fleets import Billed
from tests.unit.whatif_costs import shown

# Columns that every file must have (FOCUS 1.2 and 1.3, focus.finops.org, feature level Mandatory).
MANDATORY = """BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost
PricingQuantity PricingUnit ServiceCategory ServiceName"""
NAMED = {"1.2": "ProviderName PublisherName", "1.3": "ServiceProviderName HostProviderName"}
# Columns that must not be null if present.
NEVER_NULL = """BilledCost BillingAccountId BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory ChargePeriodEnd
ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost ProviderName PublisherName ServiceCategory ServiceName
ServiceSubcategory ChargeFrequency"""
ALL = Query(Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)), "March 2026")


def rows(path: Path, sql: str = "FROM file") -> list[dict[str, Any]]:
    """The result of a query on a file, whose own columns lose their prefix (default: all rows)."""
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.execute(f"CREATE VIEW file AS SELECT COLUMNS('^(?:{PREFIX})?(.*)$') AS '\\1' FROM '{path}'")  # noqa: S608
        return dicts(con.execute(sql))


def texts(path: Path, sql: str) -> list[str]:
    """The rows of a query, as text."""
    return sorted(shown(*row.values()) for row in rows(path, sql))


def save(fleet: Billed, version: str = "1.2", kind: Any = "parquet") -> tuple[focus.FocusFile, Path]:
    path = fleet.folder / f"out-{version}.{kind}"
    return focus.focus_file(fleet.config, fleet.store, MONTH, version, kind, path), path


written = cache(save)  # for fleets that do not change


@pytest.fixture(scope="module")
def files(billed_fleet: Billed) -> dict[tuple[str, str], Path]:
    """The file of the whole fleet in each version and kind, prepared once."""
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


# Values of the rows of even hours; rows of odd hours have neither a list price nor a contracted price.
TOLD = """
    invoice_id = 'INV-1', sku_id = 'sku', sku_meter = 'Machine', sku_price_id = 'sku/price',
    sku_price_details = '{"CoreCount": 96}', list_unit_price = 30.5, list_cost = (30.5 * pricing_quantity)::DECIMAL(38, 12),
    contracted_unit_price = 25.25, contracted_cost = (25.25 * pricing_quantity)::DECIMAL(38, 12),
    commitment_discount_name = 'three years', commitment_discount_quantity = 3.7, commitment_discount_unit = 'USD'
"""
UNTOLD = "list_unit_price = NULL, list_cost = NULL, contracted_unit_price = NULL, contracted_cost = NULL"
# units in bills, and in the specification
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
def detailed(billed_fleet: Billed, tmp_path_factory: pytest.TempPathFactory) -> Billed:
    """The fleet with a bill that has many columns for even hours, few for odd hours, and many units."""
    fleet = copied(billed_fleet, tmp_path_factory.mktemp("detailed"))
    units = "consumed_unit = $units[1 + hour(charge_period_start) % len($units)], pricing_unit = 'Hrs'"
    with fleet.store.write() as con:
        for odd, change in ((0, TOLD), (1, UNTOLD)):
            change_bill_rows(
                con,
                f"UPDATE bill_rows SET {change} WHERE hour(charge_period_start) % 2 = {odd}",  # noqa: S608
            )
        units_of_bill = [unit for unit, _ in text_rows(UNITS)]
        change_bill_rows(con, f"UPDATE bill_rows SET {units}", {"units": units_of_bill})  # noqa: S608
    return fleet


@pytest.fixture(scope="module", params=["detailed", "billed_fleet"])
def billed(request: pytest.FixtureRequest) -> Billed:
    """The fleet with its bill, and with a more detailed one; tests/services/test_focus_validator.py covers other formats."""
    fleet: Billed = request.getfixturevalue(request.param)
    return fleet


AGREED = """coalesce(contracted_cost, CASE WHEN commitment_discount_id IS NULL AND pricing_category <> 'Committed'
THEN effective_cost ELSE coalesce(list_cost, billed_cost) END)"""
ORIGINS = f"""SELECT source_row, [billed_cost, effective_cost, coalesce(list_cost, {AGREED}), {AGREED},
    coalesce(pricing_quantity, consumed_quantity, instance_hours)::DECIMAL(38, 12),
    coalesce(consumed_quantity, pricing_quantity, instance_hours)::DECIMAL(38, 12)],
    [resource_id, sku_id, sub_account_id, region], tags
FROM bill_rows WHERE kind = 'instance' AND instance_key IN (SELECT instance_key FROM billed_hours)"""  # noqa: S608


SUMS = """SELECT origin_row, [sum(BilledCost), sum(EffectiveCost), sum(ListCost), sum(ContractedCost), sum(PricingQuantity),
    sum(ConsumedQuantity)] AS amounts FROM file GROUP BY 1"""


def test_rows_add_up_to_their_charge_exactly_and_keep_its_names(billed: Billed) -> None:
    totals, path = written(billed)
    origins = {number: values for number, *values in billed.store.query(ORIGINS)[1]}
    sums = rows(path, SUMS)
    assert {row["origin_row"]: row["amounts"] for row in sums} == {
        origin: values[0] for origin, values in origins.items()
    }
    for row in rows(path):
        _, names, tags = origins[row["origin_row"]]
        assert [row[name] for name in ("ResourceId", "SkuId", "SubAccountId", "RegionId")] == names
        assert set(json.loads(row["Tags"])) >= set(tags or {})
    account = reconciliation(billed.config, billed.store, MONTH)
    assert totals.effective_cost["USD"] == account.effective_cost
    assert (totals.charges, totals.estimated_rows) == (len(origins), 0)


SAVED = """SELECT PricingCategory AS name, sum(ContractedCost - EffectiveCost) AS saved
FROM file WHERE {} GROUP BY 1"""
SPOT = """SELECT sum(EffectiveCost) FILTER (is_spot) AS cost, sum(ListCost - ContractedCost) FILTER (is_spot) AS saved,
    count(*) FILTER (abs(ContractedUnitPrice * PricingQuantity - ContractedCost) >= 1e-9
        OR abs(ListUnitPrice * PricingQuantity - ListCost) >= 1e-9) AS wrong
FROM (SELECT *, PricingCategory = 'Dynamic' AS is_spot FROM file)"""


def test_only_commitments_save_on_the_contracted_cost(billed: Billed, detailed: Billed) -> None:
    path = written(billed)[1]
    # in even hours the contracted cost is made up
    real = "hour(ChargePeriodStart) % 2 = 1" if billed is detailed else "true"
    saved = {row["name"]: row["saved"] for row in rows(path, SAVED.format(real))}
    assert saved["Dynamic"] == saved["Standard"] == 0
    (spot,) = rows(path, SPOT)
    assert (spot["wrong"], spot["cost"] > 0) == (0, True)
    if billed is not detailed:
        assert saved["Committed"] > 0 and spot["saved"] > 0


UNITS_BY_HOUR = "SELECT DISTINCT hour(ChargePeriodStart)::VARCHAR, ConsumedUnit, PricingUnit FROM file"
HOUR_DETAILS = """SELECT DISTINCT InvoiceId, SkuPriceId, SkuMeter, SkuPriceDetails::VARCHAR, ListUnitPrice, ContractedUnitPrice
FROM file WHERE hour(ChargePeriodStart) % 2 = 0"""
# quantities are split like the charge and add up again
COMMITMENTS = """SELECT DISTINCT (CommitmentDiscountId IS NOT NULL)::VARCHAR, CommitmentDiscountName, CommitmentDiscountUnit,
    sum(CommitmentDiscountQuantity)
FROM file WHERE hour(ChargePeriodStart) % 2 = 0 GROUP BY 1, 2, 3, origin_row"""


def test_details_of_the_bill_are_exported_in_standard_units(detailed: Billed) -> None:
    path, units = written(detailed)[1], [unit for _, unit in text_rows(UNITS)]
    expected = [f"{hour} {units[hour % len(units)]} Hours" for hour in range(24)]
    assert texts(path, UNITS_BY_HOUR) == sorted(expected)
    assert texts(path, HOUR_DETAILS) == ['INV-1 sku/price Machine {"CoreCount": 96} 30.5 25.25']
    assert texts(path, COMMITMENTS) == ["false None None None", "true three years USD 3.7"]


MORE = """
    INSERT INTO bill_rows BY NAME
    SELECT * REPLACE ($kind AS kind, $cost AS billed_cost, $cost AS effective_cost, NULL AS list_cost, NULL AS instance_hours,
        $category AS charge_category, $name AS charge_description,
        CASE WHEN $monthly THEN TIMESTAMP '2026-03-01' ELSE charge_period_start END AS charge_period_start,
        CASE WHEN $monthly THEN TIMESTAMP '2026-04-01' ELSE charge_period_end END AS charge_period_end)
    FROM bill_rows
    WHERE kind = 'instance' AND (NOT $monthly OR charge_period_start = (SELECT min(charge_period_start) FROM bill_rows))
"""


# the file has only discounts on its own charges, including discounts within net costs
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


SPLIT = """SELECT ChargeDescription AS name, sum(BilledCost) AS billed, sum(EffectiveCost) AS effective,
    count(DISTINCT kind) FILTER (kind IN ('allocated', 'unallocated')) AS kinds,
    len(list_filter([count(ConsumedQuantity), count(PricingQuantity), count(ListUnitPrice), count(ContractedUnitPrice)],
        lambda known: known = 0)) AS without,
    len(list_filter([count(ConsumedQuantity), count(PricingQuantity), count(ListUnitPrice), count(ContractedUnitPrice)],
        lambda known: known = count(*))) AS given
FROM file GROUP BY 1"""


@pytest.mark.slow
def test_discounts_and_fees_are_split_like_hours_and_add_no_hours(
    billed_fleet: Billed, tmp_path: Path
) -> None:
    fleet = copied(billed_fleet, tmp_path)
    with fleet.store.write() as con:
        for name, kind, category, cost, monthly in text_rows(ADDED):
            row = {"name": name, "kind": kind, "category": category, "cost": Decimal(cost)}
            change_bill_rows(con, MORE, row | {"monthly": bool(monthly)})
        for change in CHANGED:
            change_bill_rows(con, change)
    amounts = dict(
        fleet.store.query("SELECT charge_description, sum(billed_cost) FROM bill_rows GROUP BY 1")[1]
    )
    path = save(fleet)[1]
    hours = [
        rows(file, "SELECT sum(gpu_hours) AS hours FROM file") for file in (written(billed_fleet)[1], path)
    ]
    assert hours[1] == [{"hours": pytest.approx(hours[0][0]["hours"])}]
    found = {row["name"]: row for row in rows(path, SPLIT)}
    assert "traffic" not in found and found["net"]["billed"] == amounts["net"]
    for name, _, category, *_ in text_rows(ADDED)[:3]:
        split = found[name]
        assert split["billed"] == split["effective"] == amounts[name] and split["kinds"] == 2
        # hours are counted with their charge, and a discount has no price
        assert (split["without"], split["given"]) == ((0, 4) if category == "Usage" else (4, 0))


@pytest.mark.slow
def test_exported_file_loads_again_with_the_same_costs(billed: Billed, tmp_path: Path) -> None:
    """The sums are the same, and so is the cost of each team, given the same metrics."""
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


def test_shares_match_the_reconciliation(fleet_as_billed: Billed) -> None:
    """Discounts stay as the cloud assigned them, so each cost is a share of its own machine's charge."""
    account = reconciliation(fleet_as_billed.config, fleet_as_billed.store, MONTH)
    sql = "SELECT kind, sum(EffectiveCost) AS cost FROM file GROUP BY 1"
    costs = {row["kind"]: float(row["cost"]) for row in rows(save(fleet_as_billed)[1], sql)}
    lines = {
        "allocated": "attributed",
        "unallocated": "unallocated",
        "outside_node_life": "outside_node_life",
    }
    assert costs == {
        kind: pytest.approx(float(account.lines[line]), abs=1e-6) for kind, line in lines.items()
    }


# kinds, their teams, and the number of rows with wrong tags or a wrong resource
HOLDERS = """SELECT kind, team, count(*) FILTER (CASE WHEN kind = 'allocated'
    THEN [Tags ->> 'team', Tags ->> 'namespace', Tags ->> 'workload']
            IS DISTINCT FROM [team, namespace, workload]
        OR NOT suffix(allocated_resource_id, workload)
    ELSE allocated_resource_id IS NOT NULL END) AS wrong FROM file GROUP BY ALL"""


def test_tags_name_the_workload_and_unallocated_time_has_its_own_rows(
    billed_fleet: Billed, files: dict[tuple[str, str], Path]
) -> None:
    path = files["1.2", "parquet"]
    assert texts(path, HOLDERS) == [
        "allocated batch 0", "allocated serve 0", "allocated train 0", "outside_node_life None 0", "unallocated None 0"
    ]  # fmt: skip
    hours = reading.report(billed_fleet.config, billed_fleet.store, ALL).totals.allocated_gpu_hours
    sql = "SELECT sum(gpu_hours) AS hours FROM file WHERE kind = 'allocated'"
    assert rows(path, sql) == [{"hours": pytest.approx(hours)}]


def test_unbilled_node_is_an_estimate_with_zero_billed_cost(partly_billed: Billed) -> None:
    totals, path = written(partly_billed, "1.3")
    estimates = rows(path, "FROM file WHERE is_estimate")
    view = reading.report(partly_billed.config, partly_billed.store, ALL)
    assert totals.estimated_cost == view.totals.estimated_cost > 0
    assert sum(row["EffectiveCost"] for row in estimates) == totals.estimated_cost
    assert {(row["BilledCost"], row["ResourceName"]) for row in estimates} == {(0, "n3")}
    for row in estimates:
        assert "stimate" in row["ChargeDescription"] and "No invoice" in row["InvoiceIssuerName"]


UNSEEN = """SELECT sum(EffectiveCost) AS cost, count(AllocatedMethodId) AS shared FROM file
WHERE kind = 'instance_without_metrics'"""


def test_billed_machines_without_metrics_keep_their_whole_charge(partly_billed: Billed) -> None:
    path = written(partly_billed, "1.3")[1]
    whole = sum(charge.cost for charge in elsewhere(partly_billed) if charge.node["name"] == "elsewhere")
    assert rows(path, UNSEEN) == [{"cost": whole, "shared": 0}]


@pytest.mark.parametrize("version", NAMED)
def test_columns_match_the_version(version: str, files: dict[tuple[str, str], Path]) -> None:
    header = files[version, "csv"].read_text().splitlines()[0].split(",")
    assert set(header) >= {*MANDATORY.split(), *NAMED[version].split()}
    assert header == list(columns_of(version))
    assert all(name.startswith(PREFIX) for name in header if name.startswith("x_"))
    for row in rows(files[version, "parquet"]):
        assert not [name for name in NEVER_NULL.split() if name in row and row[name] is None]
        assert (row["PricingUnit"] is None) == (row["PricingQuantity"] is None)


@pytest.mark.shared
@pytest.mark.parametrize("version", NAMED)
def test_all_columns_exist_in_the_version(version: str) -> None:
    columns_by_version = json.loads(shared("data/billing/schemas/focus_columns_by_version.json").read_text())
    known = next(
        columns for name, columns in columns_by_version.items() if name.startswith(f"FOCUS {version}")
    )
    assert {name for name in columns_of(version) if not name.startswith("x_")} <= set(known)


NUMBERS = ("AllocatedRatio", "UsageQuantity")
RATIOS = """SELECT DISTINCT sum((AllocatedMethodDetails ->> '$.Elements[0].AllocatedRatio')::DECIMAL(38, 18)) AS ratio
FROM file GROUP BY origin_row"""
# methods and providers, and the number of rows with wrong tags or a wrong resource
SHARED = """SELECT AllocatedMethodId, HostProviderName, ServiceProviderName, count(*) FILTER (Tags ->> 'workload' IS NOT NULL
    OR CASE WHEN kind = 'allocated' THEN AllocatedTags ->> 'team' IS DISTINCT FROM team
            OR NOT suffix(AllocatedResourceId, AllocatedResourceName)
        ELSE coalesce(AllocatedResourceId, AllocatedResourceName, AllocatedTags::VARCHAR) IS NOT NULL END)
FROM file GROUP BY ALL"""


def test_version_1_3_keeps_original_tags_and_ratios_add_up_to_1(files: dict[tuple[str, str], Path]) -> None:
    path = files["1.3", "parquet"]
    for row in rows(path):
        details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)
        element = details["Elements"][0]
        # other keys must begin with x_, and numbers must not be strings
        assert len(details) == len(details["Elements"]) == 1 and element.keys() == {"UsageUnit", *NUMBERS}
        assert element["UsageUnit"] == "GPU-Hours" and all(
            isinstance(element[name], Decimal) for name in NUMBERS
        )
    assert texts(path, SHARED) == ["gpucost-held-time AWS AWS 0"]
    assert rows(path, RATIOS) == [{"ratio": 1}]


def test_export_is_reproducible_and_a_month_without_cost_is_an_error(
    billed_fleet: Billed, files: dict[tuple[str, str], Path]
) -> None:
    for version, kind in (("1.2", "parquet"), ("1.3", "csv")):
        assert save(billed_fleet, version, kind)[1].read_bytes() == files[version, kind].read_bytes()
    with pytest.raises(GpucostError, match="no cost found for 2025-01"):
        focus.focus_file(
            billed_fleet.config, billed_fleet.store, "2025-01", "1.2", "csv", billed_fleet.folder / "none.csv"
        )
