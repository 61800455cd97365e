"""Rows of billing exports: each charge once, in the currency that it names, with what its export tells of it."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import ValidationError

from gpucost import pipeline
from gpucost.collect.bill.load import BillRun
from gpucost.config.model import Bills as BillSettings
from gpucost.config.model import Config
from tests.unit import test_bill_azure as azure
from tests.unit import test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, snake, usage


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def line(name: str, hour: int = 10, /, **changed: str) -> dict[str, str]:
    """A CUR row with a line item id, of an hour."""
    interval = f"2026-03-05T{hour:02}:00:00Z/2026-03-05T{hour + 1:02}:00:00Z"
    return {"identity/LineItemId": name, "identity/TimeInterval": interval, "lineItem/BlendedCost": "1"} | usage(hour, **changed)


LINES = [line(f"id{hour}", hour) for hour in range(6)]
# A report without resource ids: two charges an hour that only their tags and amounts tell apart.
NAMELESS = [
    line(f"{team}{hour}", hour, ResourceId="", UnblendedCost=cost, **{"resourceTags/user:team": team})
    for hour in range(6)
    for team, cost in (("nlp", "30"), ("vision", "20"))
]


def costs(bills: Bills) -> tuple[int, float]:
    """How many charges the store has, and what they cost."""
    rows = bills.sums() if bills.store.exists else []
    return sum(row[2] for row in rows), sum(row[3] for row in rows)


def repeated(run: BillRun) -> list[str]:
    return [finding.message for finding in run.findings if finding.code == "repeated_rows"]


@pytest.mark.parametrize("spell", [lambda rows: rows, snake], ids=["legacy", "cur2"])
def test_a_row_that_stands_in_a_file_twice_is_one_charge(bills: Bills, spell: Any) -> None:
    run = bills.load(bills.write("cur.csv", csv_text(spell(LINES + LINES[1:3] + LINES[1:2]))))
    assert not run.errors and costs(bills) == (6, pytest.approx(6 * 32.77))
    assert repeated(run) == [
        "3 rows repeat charges of these files, the same in every column that is read: each charge counts once"
    ]
    assert {charge["line_item_id"] for charge in bills.charges()} == {f"id{hour}" for hour in range(6)}


@pytest.mark.parametrize(
    "other",
    [
        line("id0", 1),  # another interval
        line("id0", 0, UnblendedCost="-2"),  # a correction
        line("id0", 0) | {"lineItem/BlendedCost": "2"},  # a column that nobody reads
        line("other", 0),
    ],
    ids=["interval", "correction", "unread", "id"],
)
def test_rows_that_differ_in_any_column_are_charges_of_their_own(bills: Bills, other: dict[str, str]) -> None:
    run = bills.load(bills.write("cur.csv", csv_text([line("id0", 0), other])))
    assert costs(bills)[0] == 2 and not repeated(run)


def test_without_line_item_ids_nothing_is_repeated(bills: Bills) -> None:
    blank = [line("", 0)] * 2
    run = bills.load(bills.write("cur.csv", csv_text([*blank, usage(1), usage(1)])))
    assert costs(bills)[0] == 4 and not repeated(run)


def test_parts_of_one_load_that_share_rows_count_each_once(bills: Bills) -> None:
    bills.write("d/a.csv", csv_text(LINES[:4]))
    bills.write("d/b.csv", csv_text(LINES[3:]))
    run = bills.load(bills.directory / "d")
    assert not run.errors and costs(bills)[0] == 6 and len(repeated(run)) == 1


def test_parts_loaded_one_by_one_that_share_rows_count_each_once(bills: Bills) -> None:
    bills.load(bills.write("a.csv", csv_text(LINES[:4])))
    run = bills.load(bills.write("b.csv", csv_text(LINES[3:])))
    assert not run.errors and costs(bills)[0] == 6
    said = "1 row repeats a charge that the store has with another part of aws/111122223333 2026-03, the same in every column"
    assert repeated(run)[0].startswith(said)
    assert [(result.rows, result.amounts[0][1]) for result in run.results] == [(2, Decimal("65.54"))]
    assert [result.verdict for result in bills.load(bills.directory / "b.csv").results] == ["unchanged"]
    # all of it at once takes the place of both
    assert [result.verdict for result in bills.load(bills.write("all.csv", csv_text(LINES))).results] == ["replace"]
    assert costs(bills)[0] == 6


@pytest.mark.parametrize("where", ["together", pytest.param("one by one", marks=pytest.mark.slow)])
def test_parts_without_resource_ids_load_where_line_items_have_ids(bills: Bills, where: str) -> None:
    a, b = NAMELESS[::2], [*NAMELESS[1::2], NAMELESS[0]]
    paths = [bills.write("d/a.csv", csv_text(a)), bills.write("d/b.csv", csv_text(b))]
    runs = [bills.load(bills.directory / "d")] if where == "together" else [bills.load(path) for path in paths]
    assert not [error for run in runs for error in run.errors]
    assert costs(bills) == (12, 6 * 50.0) and sum(len(repeated(run)) for run in runs) == 1


def test_the_same_bill_from_a_delivery_with_other_ids_is_the_same_bill(bills: Bills) -> None:
    bills.load(bills.write("a.csv", csv_text(NAMELESS)))
    again = [row | {"identity/LineItemId": f"x{number}", "bill/InvoiceId": "INV1"} for number, row in enumerate(NAMELESS)]
    assert [result.verdict for result in bills.load(bills.write("b.csv", csv_text(again))).results] == ["replace"]
    assert costs(bills) == (12, 6 * 50.0)


def test_an_overlap_that_is_restated_is_refused_still(bills: Bills) -> None:
    bills.load(bills.write("a.csv", csv_text(LINES[:4])))
    restated = [line("id3", 3, UnblendedCost="30"), *LINES[2:3], *LINES[4:]]
    run = bills.load(bills.write("b.csv", csv_text(restated)))
    assert [result.verdict for result in run.results] == ["overlap"] and costs(bills)[0] == 4


def test_a_months_tax_that_grows_from_one_snapshot_to_the_next_counts_once(bills: Bills) -> None:
    month = {"lineItem/LineItemType": "Tax", "lineItem/ResourceId": "", "lineItem/UsageType": "", "lineItem/UsageAmount": "1"}
    month |= {"lineItem/UsageStartDate": "2026-03-01T00:00:00Z", "lineItem/UsageEndDate": "2026-04-01T00:00:00Z"}
    early = [*LINES[:4], line("gone", 0, ResourceId="i-99"), line("t1", UnblendedCost="5") | month]
    late = [*LINES, line("t2", UnblendedCost="9") | month]
    bills.load(bills.write("early.csv", csv_text(early)))
    assert [result.verdict for result in bills.load(bills.write("late.csv", csv_text(late))).results] == ["replace"]
    assert costs(bills) == (7, pytest.approx(6 * 32.77 + 9))


def test_files_of_a_manifest_count_a_row_once(bills: Bills) -> None:
    keys = [f"exports/gpu/20260301-20260401/one/gpu-{part}.csv" for part in (1, 2)]
    for key, rows in zip(keys, (LINES[:4], LINES[3:]), strict=True):
        bills.write(f"bucket/{key}", csv_text(rows))
    manifest = {"bucket": "b", "reportName": "gpu", "billingPeriod": {"start": "20260301T000000.000Z"}, "reportKeys": keys}
    bills.write("bucket/exports/gpu/20260301-20260401/gpu-Manifest.json", json.dumps(manifest))
    run = bills.load(bills.directory / "bucket")
    assert not run.errors and costs(bills)[0] == 6 and len(repeated(run)) == 1


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


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


def test_another_configured_currency_reads_the_file_again(bills: Bills) -> None:
    path = bills.write("f.csv", NAMES_NO_CURRENCY["aws"][2])
    bills.load(path, currency="EUR")
    assert [result.verdict for result in bills.load(path, currency="EUR").results] == ["unchanged"]
    assert [result.verdict for result in bills.load(path, currency="GBP").results] == ["replace"]


def test_the_configured_currency_is_an_iso_code() -> None:
    assert BillSettings(currency="EUR").currency == "EUR"
    with pytest.raises(ValidationError):
        BillSettings(currency="euro")


def test_cost_categories_are_kept(bills: Bills) -> None:
    columns = usage(1) | {"costCategory/Department": "Research", "costCategory/Env": ""}
    athena = {"cost_category_department": "Serving"} | snake([usage(2)])[0]
    mapped = {"cost_category": '{"Department": "Research", "Env": ""}'} | snake([usage(3)])[0]
    assert not bills.load(
        *(bills.write(f"{number}.csv", csv_text([row])) for number, row in enumerate((columns, athena, mapped)))
    ).errors
    assert [charge["cost_categories"] for charge in bills.charges()] == [
        {"Department": "Research"},
        {"department": "Serving"},
        {"Department": "Research"},
    ]


def test_cost_categories_of_a_focus_file_are_kept(bills: Bills) -> None:
    told = FOCUS_USAGE | {"ProviderName": "AWS", "x_CostCategories": '{"Department": "Research"}'}
    assert not bills.load(bills.write("f.csv", csv_text([told])), provider=None).errors
    assert [charge["cost_categories"] for charge in bills.charges()] == [{"Department": "Research"}]


@pytest.mark.parametrize("first", ["\n", pytest.param("\r\n", marks=pytest.mark.slow)])
def test_lines_that_end_in_two_ways_load(bills: Bills, first: str) -> None:
    other = "\r\n" if first == "\n" else "\n"
    said = "a quoted\r\nbreak, and\nanother"
    text = csv_text([usage(hour, LineItemDescription=said if hour == 2 else "plain") for hour in range(6)])
    head, _, rest = text.partition("\n")
    lines = rest.replace(said, "@").splitlines()
    made = head + first + "".join(row + (other if number % 2 else first) for number, row in enumerate(lines)).replace("@", said)
    run = bills.load(bills.write("mixed.csv", made.encode()))
    assert not run.errors, run.errors
    assert costs(bills) == (6, pytest.approx(6 * 32.77))
    assert bills.charges()[2]["charge_description"] == said


def test_a_file_without_charges_fails_where_it_is_named_and_is_listed_where_its_directory_is(bills: Bills) -> None:
    empty = bills.write("d/empty.csv", csv_text(LINES).splitlines()[0] + "\n")
    good = bills.write("d/good.csv", csv_text(LINES))
    run = bills.load(empty, good)
    assert [error.message for error in run.errors] == [f"{empty} has a header, but no charges"]
    assert costs(bills)[0] == 6
    run = bills.load(bills.directory / "d", force=True)
    assert not run.errors and f"{empty} has a header, but no charges; not loaded" in [found.message for found in run.findings]


def test_a_named_file_that_is_not_loaded_fails(bills: Bills) -> None:
    final = bills.write("final.csv", csv_text([row | {"bill/InvoiceId": "1"} for row in LINES]))
    early = bills.write("early.csv", csv_text(LINES[:4]))
    together = bills.load(early, final)
    said = f"{early} does not count: {final} holds the same bill and is the newer one"
    assert [error.message for error in together.errors] == [said]
    (error,) = bills.load(early).errors
    assert error.message == "aws/111122223333 2026-03 was not loaded: the bill there is final and this one is not"
    assert not bills.load(final).errors and costs(bills)[0] == 6


def test_azure_ids_keep_their_case(bills: Bills) -> None:
    vm = f"{azure.SUB}/resourceGroups/Rg-ML/providers/Microsoft.Compute/virtualMachines/GPU-Node-1"
    [charge] = azure.load(bills, [azure.row(ResourceId=vm, AdditionalInfo="")])
    assert (charge["resource_id"], charge["instance_key"]) == (vm, vm.lower())
    # exports of one bill case ids in different ways
    again = bills.write("again.csv", csv_text([azure.row(ResourceId=vm.upper(), AdditionalInfo="", CostInBillingCurrency="80")]))
    assert [result.verdict for result in bills.load(again, provider="azure").results] == ["replace"]
    bills.write("set.csv", csv_text([azure.row()]))
    bills.load(bills.directory / "set.csv", provider="azure")
    names = bills.store.query("SELECT machine_name(instance_key, resource_id) FROM charges")[1]
    assert set(names) == {(vm.upper(),), (f"{azure.SET}/virtualmachines/3",)}
    assert bills.store.query("SELECT machine_name('i-1', NULL), machine_name('p/z/name', '//compute/instances/4711')")[1] == [
        ("i-1", "p/z/name")
    ]


DETAILS = (
    "invoice_id, list_unit_price::DOUBLE, contracted_unit_price::DOUBLE, sku_price_id, sku_price_details, "
    "commitment_discount_name, commitment_discount_quantity::DOUBLE, commitment_discount_unit"
)


def details(bills: Bills) -> list[tuple[Any, ...]]:
    return bills.store.query(f"SELECT {DETAILS} FROM charges ORDER BY source_row")[1]  # noqa: S608


def test_what_aws_tells_of_a_price(bills: Bills) -> None:
    rates = {"pricing/publicOnDemandRate": "40", "pricing/RateCode": "SKU.JR.1", "bill/InvoiceId": "INV1"}
    plan = {"lineItem/LineItemType": "SavingsPlanCoveredUsage", "savingsPlan/SavingsPlanEffectiveCost": "19.66"}
    reserved = {"lineItem/LineItemType": "DiscountedUsage", "reservation/EffectiveCost": "12.5"}
    net = {"lineItem/UnblendedRate": "32.77", "lineItem/NetUnblendedRate": "30"}
    bills.aws([usage(1) | rates | net, usage(2) | plan | {"lineItem/UnblendedRate": "32.77"}, usage(3) | reserved])
    assert details(bills) == [
        ("INV1", 40.0, 30.0, "SKU.JR.1", None, None, None, None),
        (None, None, 32.77, None, None, None, 19.66, "USD"),
        (None, None, None, None, None, None, 1.0, "Hrs"),
    ]


def test_what_a_focus_file_tells_of_a_price(bills: Bills) -> None:
    told = {
        "InvoiceId": "I1",
        "ListUnitPrice": "5",
        "ContractedUnitPrice": "4",
        "SkuPriceId": "P1",
        "SkuPriceDetails": '{"GpuCount": 8}',
    }
    told |= {"CommitmentDiscountName": "three years", "CommitmentDiscountQuantity": "1", "CommitmentDiscountUnit": "Hours"}
    assert not bills.load(bills.write("f.csv", csv_text([FOCUS_USAGE | told])), provider=None).errors
    assert details(bills) == [("I1", 5.0, 4.0, "P1", '{"GpuCount": 8}', "three years", 1.0, "Hours")]


def test_what_azure_tells_of_a_price(bills: Bills) -> None:
    told = {"InvoiceId": "G1", "PayGPrice": "4.5", "UnitPrice": "3.9", "PartNumber": "AAH-1", "PricingCurrency": "USD"}
    covered = azure.row(**azure.COVERED) | {"ReservationName": "gpus"}
    path = bills.write(
        "f.csv", csv_text([azure.row() | told, azure.row(Date="03/06/2026") | told | {"PricingCurrency": "EUR"}, covered])
    )
    assert not bills.load(path, provider="azure").errors
    assert details(bills) == [
        ("G1", 4.5, 3.9, "AAH-1", None, None, None, None),
        ("G1", None, None, "AAH-1", None, None, None, None),  # prices of another currency
        (None, None, None, None, None, "gpus", 24.0, "10 Hours"),
    ]


def test_what_google_tells_of_a_price(bills: Bills) -> None:
    price = {"list_price": 3, "effective_price_default": 2.5, "pricing_unit_quantity": 10}
    bills.write("f.jsonl", json.dumps(gcp.row(price=price)) + "\n")
    assert not bills.load(bills.directory / "f.jsonl", provider="gcp").errors
    assert details(bills)[0][1:3] == (0.3, 0.25)


def test_reconcile_shows_a_machine_as_its_bill_spells_it(bills: Bills) -> None:
    vm = f"{azure.SUB}/resourceGroups/Rg-ML/providers/Microsoft.Compute/virtualMachines/GPU-Node-1"
    azure.load(bills, [azure.row(ResourceId=vm, AdditionalInfo=json.dumps({"ServiceType": "Standard_NC24ads_A100_v4"}))])
    (seen,) = pipeline.reconcile(Config(), bills.store, "2026-03", ("node",)).unseen
    assert seen.name == vm


def covered(hour: int) -> list[dict[str, str]]:
    """An hour that AWS has put under a savings plan since."""
    plan = {"savingsPlan/SavingsPlanARN": "arn:plan", "savingsPlan/SavingsPlanEffectiveCost": "12"}
    return [
        line(f"cov{hour}", hour, LineItemType="SavingsPlanCoveredUsage") | plan,
        line(f"neg{hour}", hour, LineItemType="SavingsPlanNegation", UnblendedCost="-32.77") | plan,
    ]


CREDIT = line("credit", 1, LineItemType="Credit", ResourceId="", UnblendedCost="-50")
BLANK = {"savingsPlan/SavingsPlanARN": "", "savingsPlan/SavingsPlanEffectiveCost": ""}
SNAPSHOTS = {
    "retyped": ([row | BLANK for row in LINES[:3]], [row | BLANK for row in (*LINES[:2], *covered(2), *LINES[3:5])]),
    "withdrawn": ([*LINES[:3], CREDIT], LINES[:4]),
    "withdrawn, no later": ([*LINES[:3], CREDIT], [*LINES[:3], line("more", 2, ResourceId="i-2")]),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "withdrawn, no later" else []) for name in SNAPSHOTS]
)
def test_a_later_snapshot_takes_the_place_of_the_earlier_and_of_what_was_withdrawn_since(bills: Bills, name: str) -> None:
    early, late = SNAPSHOTS[name]
    bills.load(bills.write("d/early.csv", csv_text(early)))
    run = bills.load(bills.write("d/late.csv", csv_text(late)))
    assert not run.errors and [result.verdict for result in run.results] == ["replace"]
    assert costs(bills)[0] == len(late)


def test_of_snapshots_in_one_directory_the_later_counts_also_where_charges_were_retyped(bills: Bills) -> None:
    for name, rows in zip(("early", "late"), SNAPSHOTS["retyped"], strict=True):
        bills.write(f"d/{name}.csv", csv_text(rows))
    run = bills.load(bills.directory / "d")
    assert not run.errors and run.findings[0].code == "superseded"
    assert costs(bills)[0] == 6
    # and the earlier one after it is the older one
    (result,) = bills.load(bills.write("d/early.csv", csv_text(SNAPSHOTS["retyped"][0]))).results
    assert result.verdict == "older" and costs(bills)[0] == 6


@pytest.mark.parametrize("where", ["together", "one by one"])
def test_snapshots_that_share_less_than_half_are_refused_where_a_machine_would_count_twice(bills: Bills, where: str) -> None:
    early = [row | BLANK for row in LINES[:5]]
    late = [row | BLANK for row in (LINES[0], *(row for hour in range(1, 6) for row in covered(hour)))]
    paths = [bills.write("d/early.csv", csv_text(early)), bills.write("d/late.csv", csv_text(late))]
    (error,) = bills.load(*paths).errors if where == "together" else [e for path in paths for e in bills.load(path).errors]
    assert "some of the" in error.message and "in one export" in (error.fix or "")
    assert costs(bills)[0] == (0 if where == "together" else 5)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_rows_of_an_export_split_at_random_load_together(bills: Bills, seed: int) -> None:
    rows = [line(f"id{hour}-{machine}", hour, ResourceId=f"i-{machine}") for hour in range(20) for machine in range(5)]
    random.Random(seed).shuffle(rows)
    for number, some in enumerate((rows[:40], rows[35:70], rows[65:])):
        bills.write(f"d/{number}.csv", csv_text(some))
    run = bills.load(bills.directory / "d")
    assert not run.errors and costs(bills)[0] == 100


def of_entity(row: dict[str, str], entity: str) -> dict[str, str]:
    """A row with a column that nobody reads."""
    return row | {"lineItem/LegalEntity": entity}


ONE = [of_entity(line(f"a{number}", ResourceId=f"i-{number}"), "AWS Inc.") for number in range(11)]
TWO = [of_entity(line(f"b{number}", ResourceId=f"j-{number}"), "AWS Inc.") for number in range(10)]
ELSEWHERE = of_entity(ONE[0], "AWS EMEA")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_a_file_that_differ_in_a_column_nobody_reads_are_charges_of_their_own(bills: Bills, kind: str) -> None:
    path = bills.write("d/a.csv", csv_text([*ONE, ELSEWHERE, ONE[0], ELSEWHERE, ONE[1]]))
    if kind == "parquet":
        duckdb.read_csv(str(path), all_varchar=True).write_parquet(str(path := path.with_suffix(".parquet")))
    run = bills.load(path)
    assert not run.errors and repeated(run)[0].startswith("3 rows repeat charges of these files")
    assert costs(bills)[0] == 12
    # Another file that tells both again has them in common with it.
    run = bills.load(bills.write("d/b.csv", csv_text([*TWO, ONE[0], ELSEWHERE])))
    assert not run.errors and repeated(run)[0].startswith("2 rows repeat charges") and costs(bills)[0] == 22


@pytest.mark.parametrize("where", [pytest.param("together", marks=pytest.mark.slow), "one by one"])
def test_across_files_the_columns_that_are_read_decide(bills: Bills, where: str) -> None:
    paths = [bills.write("d/a.csv", csv_text(ONE)), bills.write("d/b.csv", csv_text([*TWO, ELSEWHERE]))]
    runs = [bills.load(*paths)] if where == "together" else [bills.load(path) for path in paths]
    assert not [error for run in runs for error in run.errors]
    assert repeated(runs[-1]) and costs(bills)[0] == 21


def test_parquet_files_are_read_in_their_places_whatever_their_columns(bills: Bills) -> None:
    paths = []
    for number, rows in enumerate((ONE, TWO, [line("c", 5, ResourceId="i-c")], [line("d", 6, ResourceId="i-d")])):
        path = bills.write(f"d/{number}.csv", csv_text(rows))
        paths.append(path.with_suffix(".parquet"))
        duckdb.read_csv(str(path), all_varchar=True).write_parquet(str(paths[-1]))
    run = bills.load(*paths)
    assert not run.errors and costs(bills)[0] == 23
    told = bills.store.query("SELECT source_file, min(source_row), max(source_row) FROM charges GROUP BY ALL ORDER BY 1")[1]
    assert told == [(str(path), 1, last) for path, last in zip(paths, (11, 10, 1, 1), strict=True)]


@pytest.mark.parametrize("blank", ["", "NULL", "null", "None"])
def test_blank_text_in_parquet_is_no_value(bills: Bills, blank: str) -> None:
    path = bills.write("a.csv", csv_text([line("a"), line("b", 2, UsageType=blank, ResourceId=blank)]))
    duckdb.read_csv(str(path), all_varchar=True, na_values=["-"]).write_parquet(str(path := path.with_suffix(".parquet")))
    assert not bills.load(path).errors
    assert bills.store.query("SELECT resource_id, sku_description FROM charges WHERE source_row = 2")[1] == [(None, None)]
