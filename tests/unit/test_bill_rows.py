"""Rows of billing exports: each charge once, in the currency that it names, with what its export tells of it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import ValidationError

from gpucost import pipeline
from gpucost.collect.bill.load import BillRun
from gpucost.config.model import Bills as BillSettings
from gpucost.config.model import Config, Team
from gpucost.store.schema import _migrations
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.replay.cases.words import busy, fleet, node, pod
from tests.unit import test_bill_azure as azure
from tests.unit import test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, own_rows, own_text, snake, usage
from tests.unit.test_bill_load import AN_HOUR, ELSEWHERE, LINES, ONE, TWO, line
from tests.unit.test_price_bill_fleets import Billed


def repeated(run: BillRun) -> list[str]:
    assert not run.errors, run.errors
    return [finding.message for finding in run.findings if finding.code == "repeated_rows"]


def as_parquet(path: Path, **options: Any) -> Path:
    duckdb.read_csv(str(path), all_varchar=True, **options).write_parquet(str(path.with_suffix(".parquet")))
    return path.with_suffix(".parquet")


#: Rows of a file, and how many charges they are.
ROWS = {
    "twice": (LINES + LINES[1:3] + LINES[1:2], 6),
    "another interval": ([line("id0", 0), line("id0", 1)], 2),
    "a correction": ([line("id0", 0), line("id0", 0, UnblendedCost="-2")], 2),
    "a column that nobody reads": ([line("id0", 0), line("id0", 0) | {"lineItem/BlendedCost": "2"}], 2),
    "another id": ([line("id0", 0), line("other", 0)], 2),
    "without ids": ([*[line("", 0)] * 2, usage(1), usage(1)], 4),
    "in a column that nobody reads": ([*ONE, ELSEWHERE, ONE[0], ELSEWHERE, ONE[1]], 12),
}


@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_row_that_stands_in_a_file_twice_is_one_charge_and_one_that_differs_in_any_column_is_another(
    bills: Bills, kind: str
) -> None:
    rows = [row for number, (some, _) in enumerate(ROWS.values()) for row in own_rows(some, number)]
    path = bills.write("d/a.csv", csv_text(rows if kind == "csv" else snake(rows)))
    run = bills.load(as_parquet(path) if kind == "parquet" else path)
    what = "charges of these files, the same in every column that is read: each charge counts once"
    assert repeated(run) == [f"6 rows repeat {what}"]
    sums = {row[0]: row[2] for row in bills.sums()}
    for number, (name, (_, count)) in enumerate(ROWS.items()):
        assert sums[f"aws/{own_text('111122223333', number)}"] == count, name
    twice = [charge for charge in bills.charges() if charge["billing_account_id"] == own_text("111122223333", 0)]
    assert {charge["line_item_id"] for charge in twice} == {f"id{hour}" for hour in range(6)}
    # Another file that tells both again has them in common with it.
    number = len(ROWS) - 1
    run = bills.load(bills.write("d/b.csv", csv_text(own_rows([*TWO, ONE[0], ELSEWHERE], number))))
    assert repeated(run)[0].startswith("2 rows repeat charges")
    assert {row[0]: row[2] for row in bills.sums()}[f"aws/{own_text('111122223333', number)}"] == 22


def test_files_of_a_manifest_count_a_row_once(bills: Bills) -> None:
    keys = [f"exports/gpu/20260301-20260401/one/gpu-{part}.csv" for part in (1, 2)]
    for key, rows in zip(keys, (LINES[:4], LINES[3:]), strict=True):
        bills.write(f"bucket/{key}", csv_text(rows))
    manifest = {"bucket": "b", "reportName": "gpu", "billingPeriod": {"start": "20260301T000000.000Z"}, "reportKeys": keys}
    bills.write("bucket/exports/gpu/20260301-20260401/gpu-Manifest.json", json.dumps(manifest))
    assert len(repeated(bills.load(bills.directory / "bucket"))) == 1 and bills.sums()[0][2] == 6


def _without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column != name}


NAMES_NO_CURRENCY: dict[str, tuple[str | None, str, str]] = {
    "aws": ("aws", "f.csv", csv_text([usage(1), usage(2, CurrencyCode="")])),
    "aws without the column": ("aws", "f.csv", csv_text([_without(usage(1), "lineItem/CurrencyCode")])),
    "azure": ("azure", "f.csv", csv_text([_without(azure.row(), "BillingCurrencyCode")])),
    "gcp": ("gcp", "f.jsonl", json.dumps(_without(gcp.row(), "currency")) + "\n"),
    "focus": (None, "f.csv", csv_text([_without(FOCUS_USAGE, "BillingCurrency")])),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("aws", "focus") else [pytest.mark.slow]) for name in NAMES_NO_CURRENCY]
)
def test_a_row_without_a_currency_is_refused_or_read_as_configured(bills: Bills, name: str) -> None:
    provider, file, text = NAMES_NO_CURRENCY[name]
    path = bills.write(file, text)
    (error,) = bills.load(path, provider=provider).errors
    assert error.message == f"{path}, row {2 if name == 'aws' else 1}: the currency is empty or cannot be read"
    assert 'currency = "USD" under [bills] in gpucost.toml' in (error.fix or "")
    assert not bills.store.exists
    assert not bills.load(path, provider=provider, currency="EUR").errors
    assert {charge["billing_currency"] for charge in bills.charges()} == ({"USD", "EUR"} if name == "aws" else {"EUR"})
    if name == "aws":  # another currency reads the file again
        for currency, verdict in (("EUR", "unchanged"), ("GBP", "replace")):
            assert [result.verdict for result in bills.load(path, currency=currency).results] == [verdict]


def test_the_configured_currency_is_an_iso_code() -> None:
    assert BillSettings(currency="EUR").currency == "EUR"
    with pytest.raises(ValidationError):
        BillSettings(currency="euro")


@pytest.mark.parametrize("first", ["\n", pytest.param("\r\n", marks=pytest.mark.slow)])
def test_lines_that_end_in_two_ways_load(bills: Bills, first: str) -> None:
    other = "\r\n" if first == "\n" else "\n"
    quoted = 'a "quoted"\r\nbreak, and\nanother'
    in_csv = quoted.replace('"', '""')
    text = csv_text([usage(hour, LineItemDescription=quoted if hour == 2 else "plain") for hour in range(6)])
    head, _, rest = text.partition("\n")
    lines = rest.replace(in_csv, "@").splitlines()
    mixed = head + first + "".join(row + (other if number % 2 else first) for number, row in enumerate(lines))
    run = bills.load(bills.write("mixed.csv", mixed.replace("@", in_csv).encode()))
    assert not run.errors, run.errors
    assert bills.sums()[0][2:4] == (6, pytest.approx(6 * AN_HOUR))
    assert bills.charges()[2]["charge_description"] == quoted


def test_a_file_without_charges_fails_where_it_is_named_and_is_listed_where_its_directory_is(bills: Bills) -> None:
    empty = bills.write("d/empty.csv", csv_text(LINES).splitlines()[0] + "\n")
    good = bills.write("d/good.csv", csv_text(LINES))
    run = bills.load(empty, good)
    assert [error.message for error in run.errors] == [f"{empty} has a header, but no charges"]
    assert bills.sums()[0][2] == 6
    run = bills.load(bills.directory / "d")
    assert not run.errors and f"{empty} has a header, but no charges; not loaded" in [finding.message for finding in run.findings]


def test_a_named_file_that_another_one_supersedes_fails(bills: Bills) -> None:
    final = bills.write("final.csv", csv_text([row | {"bill/InvoiceId": "1"} for row in LINES]))
    early = bills.write("early.csv", csv_text(LINES[:4]))
    (error,) = bills.load(early, final).errors
    assert error.message == f"{early} does not count: {final} holds the same bill and is the newer one"
    (error,) = bills.load(early).errors
    assert error.message == "aws/111122223333 2026-03 was not loaded: the bill there is final and this one is not"


def test_azure_ids_keep_their_case(bills: Bills) -> None:
    vm = f"{azure.SUB}/resourceGroups/Rg-ML/providers/Microsoft.Compute/virtualMachines/GPU-Node-1"
    row = azure.row(ResourceId=vm, AdditionalInfo=json.dumps({"ServiceType": "Standard_NC24ads_A100_v4"}))
    [charge] = azure.load(bills, [row])
    assert (charge["resource_id"], charge["instance_key"]) == (vm, vm.lower())
    (seen,) = pipeline.reconcile(Config(), bills.store, "2026-03", ("node",)).unseen
    assert seen.name == vm
    # exports of one bill case ids in different ways
    again = [row | {"ResourceId": vm.upper(), "CostInBillingCurrency": "80"}, azure.row(SubscriptionId="other")]
    assert [result.verdict for result in bills.load(bills.write("b.csv", csv_text(again)), provider="azure").results] == [
        "replace"
    ]
    names = bills.store.query("SELECT machine_name(instance_key, resource_id) FROM charges")[1]
    assert set(names) == {(vm.upper(),), (f"{azure.SET}/virtualmachines/3",)}
    assert bills.store.query("SELECT machine_name('i-1', NULL), machine_name('p/z/name', '//compute/instances/4711')")[1] == [
        ("i-1", "p/z/name")
    ]


PRICE = {"InvoiceId": "I1", "ListUnitPrice": "5", "ContractedUnitPrice": "4", "SkuPriceId": "P1",
         "SkuPriceDetails": '{"GpuCount": 8}', "CommitmentDiscountName": "three years", "CommitmentDiscountQuantity": "1",
         "CommitmentDiscountUnit": "Hours", "x_CostCategories": '{"Department": "Research"}'}  # fmt: skip
AZURE_PRICE = {"InvoiceId": "G1", "PayGPrice": "4.5", "UnitPrice": "3.9", "PartNumber": "AAH-1", "PricingCurrency": "USD"}
GOOGLE_PRICE = {"list_price": 3, "effective_price_default": 2.5, "pricing_unit_quantity": 10}
#: What exports tell of a price: invoice, list and contracted price, of which SKU; the commitment's name, quantity and unit.
DETAILS: dict[str, tuple[str | None, str, list[tuple[Any, ...]]]] = {
    "aws": (
        "aws",
        csv_text([
            usage(1) | {"pricing/publicOnDemandRate": "40", "pricing/RateCode": "SKU.JR.1", "bill/InvoiceId": "INV1",
                        "lineItem/UnblendedRate": "32.77", "lineItem/NetUnblendedRate": "30"},
            usage(2, LineItemType="SavingsPlanCoveredUsage") | {"savingsPlan/SavingsPlanEffectiveCost": "19.66",
                                                                "lineItem/UnblendedRate": "32.77"},
            usage(3, LineItemType="DiscountedUsage") | {"reservation/EffectiveCost": "12.5"},
        ]),
        [("INV1", 40.0, 30.0, "SKU.JR.1", None, None, None, None), (None, None, 32.77, None, None, None, 19.66, "USD"),
         (None, None, None, None, None, None, 1.0, "Hrs")],
    ),
    "focus": (None, csv_text([FOCUS_USAGE | PRICE]), [("I1", 5.0, 4.0, "P1", '{"GpuCount": 8}', "three years", 1.0, "Hours")]),
    "azure": (
        "azure",
        csv_text([azure.row() | AZURE_PRICE, azure.row(Date="03/06/2026") | AZURE_PRICE | {"PricingCurrency": "EUR"},
                  azure.row(**azure.COVERED) | {"ReservationName": "gpus"}]),
        [("G1", 4.5, 3.9, "AAH-1", None, None, None, None),
         ("G1", None, None, "AAH-1", None, None, None, None),  # prices of another currency
         (None, None, None, None, None, "gpus", 24.0, "10 Hours")],
    ),
    "gcp": ("gcp", json.dumps(gcp.row(price=GOOGLE_PRICE)) + "\n", [(None, 0.3, 0.25, None, None, None, None, None)]),
}  # fmt: skip


@pytest.mark.parametrize("name", DETAILS)
def test_what_an_export_tells_of_a_price(bills: Bills, name: str) -> None:
    provider, text, expected = DETAILS[name]
    assert not bills.load(bills.write("f", text), provider=provider).errors
    sql = (
        "SELECT invoice_id, list_unit_price::DOUBLE, contracted_unit_price::DOUBLE, sku_price_id, sku_price_details, "
        "commitment_discount_name, commitment_discount_quantity::DOUBLE, commitment_discount_unit "
        "FROM charges ORDER BY source_row"
    )
    assert bills.store.query(sql)[1] == expected
    if name == "focus":
        assert bills.charges()[0]["cost_categories"] == {"Department": "Research"}


def test_cost_categories_are_kept(bills: Bills) -> None:
    columns = usage(1) | {"costCategory/Department": "Research", "costCategory/Env": ""}
    athena = {"cost_category_department": "Serving"} | snake([usage(2)])[0]
    mapped = {"cost_category": '{"Department": "Research", "Env": ""}'} | snake([usage(3)])[0]
    paths = [bills.write(f"{number}.csv", csv_text([row])) for number, row in enumerate((columns, athena, mapped))]
    assert not bills.load(*paths).errors
    categories = [charge["cost_categories"] for charge in bills.charges()]
    assert categories == [{"Department": "Research"}, {"department": "Serving"}, {"Department": "Research"}]


def test_parquet_files_are_read_in_their_places_whatever_their_columns(bills: Bills) -> None:
    files = (ONE, TWO, [line("c", 5, ResourceId="i-c")], [line("d", 6, ResourceId="i-d")])
    paths = [as_parquet(bills.write(f"d/{number}.csv", csv_text(rows))) for number, rows in enumerate(files)]
    assert not bills.load(*paths).errors
    rows = bills.store.query("SELECT source_file, min(source_row), max(source_row) FROM charges GROUP BY ALL ORDER BY 1")[1]
    assert rows == [(str(path), 1, last) for path, last in zip(paths, (11, 10, 1, 1), strict=True)]


def test_blank_text_in_parquet_is_no_value(bills: Bills) -> None:
    blanks = ["", "NULL", "null", "None"]
    rows = [line("a"), *(line(f"b{number}", 2, UsageType=blank, ResourceId=blank) for number, blank in enumerate(blanks))]
    assert not bills.load(as_parquet(bills.write("a.csv", csv_text(rows)), na_values=["-"])).errors
    texts = bills.store.query("SELECT resource_id, sku_description FROM charges WHERE source_row > 1")[1]
    assert texts == [(None, None)] * 4


def test_rows_of_an_older_store_stay_when_they_are_parted() -> None:
    row = (
        "INSERT INTO bill_rows BY NAME SELECT {bill} AS bill_id, place AS charge_key, place::DECIMAL(38, 12) AS billed_cost,"
        " place / 3 AS effective_cost, 'Usage' AS charge_category, 'USD' AS billing_currency, MAP {{'team': name}} AS tags,"
        " 'instance' AS kind, 'same' AS cost_cause, 'f.csv' AS source_file, place AS source_row,"
        " TIMESTAMP '2026-03-01' AS charge_period_start, TIMESTAMP '2026-03-02' AS charge_period_end"
        " FROM (VALUES (1, 'a'), (2, 'a'), (3, NULL), (3, NULL), (4, 'b')) AS t(place, name)"
    )
    with duckdb.connect(":memory:") as con:
        for number, _, statements in _migrations():
            if number == 14:
                con.execute(row.format(bill=1))
                con.execute(row.format(bill=2))
                con.execute("CREATE TABLE before AS FROM bill_rows")
            con.execute(statements)
        assert not con.execute("FROM before EXCEPT ALL FROM bill_rows").fetchall()
        assert con.execute("SELECT count(*) FROM bill_rows").fetchall() == con.execute("SELECT count(*) FROM before").fetchall()
        assert con.execute("SELECT count(*) FROM bill_details").fetchall() == [(6,)]


def test_pods_on_a_categorys_nodes_are_the_teams(tmp_path: Path) -> None:
    nodes = [node("n1", "p4de.24xlarge", 0, 4), node("n2", "p4de.24xlarge", 0, 4)]
    pods = [pod("a", "n1", [0], 0.5, 3, "train"), pod("b", "n2", [0], 0.5, 3, "train"), pod("c", "n1", [1], 0.5, 3, "serve")]
    billed = Billed(tmp_path, fleet(4, nodes, pods, busy("n1", [0], 1, 3), scrape=900))
    told = list(charges(billed.fleet, lambda *_: ("on_demand", Decimal(20))))
    lines = bill_files.aws_cur(told, legacy=True).splitlines()
    machine = next(charge.instance_id for charge in told if charge.node["name"] == "n1")
    made = [line + (",Research" if machine in line else ",Serving") for line in lines[1:]]
    billed.bill("\n".join([lines[0] + ",costCategory/Department", *made]) + "\n", "cur.csv", "aws")
    teams = [Team(name="nlp", cost_categories={"department": ["Research"]}), Team(name="front", namespaces=["serve"])]
    pipeline.attribute(billed.config.model_copy(update={"teams": teams}), billed.store)
    found = billed.store.query("SELECT DISTINCT node, namespace, team FROM costs WHERE kind = 'allocated' ORDER BY ALL")[1]
    assert found == [("n1", "serve", "front"), ("n1", "train", "nlp"), ("n2", "train", "unassigned")]
