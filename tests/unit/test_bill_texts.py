"""How dates, numbers and names of bills are read: the file settles what can be read in two ways, or is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpucost.collect.bill import formats, opening
from tests.unit import test_bill_azure as azure
from tests.unit import test_bill_gcp as gcp
from tests.unit import test_bill_oci as oci
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, own_rows, snake, usage

Rows = Sequence[Mapping[str, Any]]


def cur(start: str, end: str, since: str, until: str = "", /, **changed: str) -> dict[str, str]:
    """A CUR row of an hour, its charge period and billing period as they are written."""
    row = usage(10, UsageStartDate=start, UsageEndDate=end, BillingPeriodStartDate=since, **changed)
    return row | {"bill/BillingPeriodEndDate": until}


def hours(*days: str, since: str = "", until: str = "") -> list[dict[str, str]]:
    """CUR rows of the eleventh hour of days."""
    return [cur(f"{day} 10:00", f"{day} 11:00", since, until) for day in days]


def costs(*texts: str, list_cost: str = "") -> list[dict[str, str]]:
    """CUR rows of hours in turn that cost what is written."""
    rows = [usage(hour, UnblendedCost=text) for hour, text in enumerate(texts)]
    return [row | {"pricing/publicOnDemandCost": list_cost} for row in rows]


NO_PERIOD = {"BillingPeriodStartDate": "", "BillingPeriodEndDate": ""}
#: Dates as files write them, and the billing periods and days of charges that they mean.
DATES: dict[str, tuple[str, Rows, str, str, str]] = {
    "month first, the period settles it": ("aws", hours("3/5/26", since="3/1/26 0:00", until="4/1/26 0:00"),
                                           "2026-03", "03-05", "03-05"),
    "day first, the period settles it": ("aws", hours("5/3/26", since="1/3/26 0:00", until="1/4/26 0:00"),
                                         "2026-03", "03-05", "03-05"),
    "the first day, the period's length settles it": ("aws", hours("3/1/26", since="3/1/26 0:00", until="4/1/26 0:00"),
                                                      "2026-03", "03-01", "03-01"),
    "a period's start is enough": ("aws", hours("5/3/26", since="1/3/26 0:00"), "2026-03", "03-05", "03-05"),
    "year first": ("aws", hours("26/03/05", since="26/03/01 0:00", until="26/04/01 0:00"), "2026-03", "03-05", "03-05"),
    "most days of a month": ("aws", hours("3/4/26", "3/5/26", "3/6/26"), "2026-03", "03-04", "03-06"),
    "a day after the twelfth": ("aws", hours("5/3/26", "13/3/26"), "2026-03", "03-05", "03-13"),
    "afternoon": ("aws", [cur("3/5/2026 10:00:00 PM", "3/5/2026 11:00:00 PM", "3/1/2026 12:00:00 AM", "4/1/2026 12:00 AM")],
                  "2026-03", "03-05", "03-05"),
    "hours from UTC": ("aws", [cur("2026-03-05T22:00:00-07:00", "2026-03-05T23:00:00-07:00", "2026-03-01T00:00:00Z")],
                       "2026-03", "03-06", "03-06"),
    "last day included": ("azure", [azure.row(Date="05/03/2026", BillingPeriodStartDate="01/03/2026",
                                              BillingPeriodEndDate="31/03/2026")], "2026-03", "03-05", "03-05"),
    "one day and month": ("azure", [azure.row(Date="10/10/2026", **NO_PERIOD)], "2026-10", "10-10", "10-10"),
    "Google's zone": ("gcp", [gcp.row(usage_start_time="2026-02-28T17:00:00-07:00", usage_end_time="2026-02-28T18:00:00-07:00")],
                      "2026-03", "03-01", "03-01"),
    "Google's days": ("gcp", [gcp.row(usage_start_time=f"3/{day}/26 0:00", usage_end_time=f"3/{day}/26 1:00") for day in (5, 6)],
                      "2026-03", "03-05", "03-06"),
    "FOCUS": ("focus", [FOCUS_USAGE | {"ChargePeriodStart": "5/3/26 10:00", "ChargePeriodEnd": "5/3/26 11:00",
                                       "BillingPeriodStart": "1/3/26 0:00", "BillingPeriodEnd": "1/4/26 0:00"}],
              "2026-03", "03-05", "03-05"),
    "FOCUS of the first day, a short month": (
        "focus", [FOCUS_USAGE | {"ChargePeriodStart": "1/2/26 10:00", "ChargePeriodEnd": "1/2/26 11:00",
                                 "BillingPeriodStart": "1/2/26", "BillingPeriodEnd": "28/2/26"}], "2026-02", "02-01", "02-01"),
    "digits": ("azure", [azure.row(Date="20260305", BillingPeriodStartDate="20260301", BillingPeriodEndDate="20260331",
                                   SubscriptionId="2", ResourceId="/subscriptions/2/vm")],
               "2026-03", "03-05", "03-05"),
    "OCI": ("focus", [oci.classic(1) | {"lineItem/intervalUsageStart": f"{day}/3/26 1:00",
                                        "lineItem/intervalUsageEnd": f"{day}/3/26 2:00"}
                      for day in (5, 6)], "2026-03", "03-05", "03-06"),
}  # fmt: skip
#: Costs as files write them, and their sum and list cost.
NUMBERS: dict[str, tuple[Rows, float, float | None]] = {
    "a point beside commas": (costs("1,234", list_cost="1,234.50"), 1234.0, 1234.5),
    "a comma beside points": (costs("1.234", list_cost="1.234,50"), 1234.0, 1234.5),
    "another row's point": (costs("1,234", "0.5"), 1234.5, None),
    "another row's comma": (costs("1.234", "0,5"), 1234.5, None),
    "lakhs": (costs("1,23,456.50"), 123456.5, None),
    "blanks between thousands": (costs("1 234,50"), 1234.5, None),
    "below 0": (costs("-1,234.5", "2,000"), 765.5, None),
    "as SQL writes them": (costs("1.234", "1E-05"), 1.23401, None),
}
#: Rows of which a file is refused, and the words.
REFUSED: dict[str, tuple[str, Rows, str]] = {
    "a day without a period": ("aws", hours("3/5/26"), "3/5/26 10:00 can be read in two ways"),
    "a day of Azure without a period": ("azure", [azure.row(**NO_PERIOD)], "03/05/2026 can be read in two ways"),
    "one odd date": ("aws", hours("3/4/26", "3/5/26", "3/6/26", "13/3/26"), "13/3/26 10:00 can be read in two ways"),
    "dates of two kinds": ("aws", hours("3/15/26", "15/3/26"), "15/3/26 10:00 can be read in two ways"),
    "a comma alone": ("aws", costs("1,234"), "1,234 1 can be read in two ways"),
    "commas and points": ("aws", costs("12,34", "12.5"), "12,34 1 can be read in two ways"),
    **{f"year {year}": ("aws", [usage(), cur(f"{year}-03-05T10:00:00Z", f"{year}-03-05T11:00:00Z", "2026-03-01T00:00:00Z")],
                        "row 2: the start of the charge") for year in ("0026", "1926", "2226")},
    "a period of another age": ("aws", [usage(), usage(BillingPeriodStartDate="0026-03-01T00:00:00Z")],
                                "row 2: the billing period"),
    "an end of another age": ("aws", [usage(), usage(UsageEndDate="9999-12-31T00:00:00Z")],
                             "row 2: the end of the charge is empty or cannot be read"),
    "an end before its start": ("aws", [usage(), usage(UsageEndDate="2026-03-05T09:00:00Z")],
                                "row 2: the end of the charge is before its start"),
    "a refund with an end before its start": ("aws", [usage(), usage(UsageEndDate="2026-03-05T09:00:00Z", UnblendedCost="-1")],
                                              "row 2: the end of the charge is before its start"),
    "no start where nothing is paid": ("aws", [usage(), usage(UsageStartDate="", UnblendedCost="0")],
                                       "row 2: the start of the charge is empty"),
    "hours below 0 that cost": ("aws", [usage(), usage(UsageAmount="-1")], "row 2: the cost of hours below 0"),
    "a row without an account": ("aws", [usage(), usage(11, PayerAccountId=""),
                                      usage(12, PayerAccountId="999988887777")], "some rows have no billing account"),
}  # fmt: skip

FREE = {"LineItemType": "Credit", "UnblendedCost": "0"}
BACKWARDS = {"UsageEndDate": "2026-03-05T09:00:00Z"}
LEFT_OUT = "left out, for it costs nothing and its end is before its start or cannot be read"
#: Rows of a file, how many are charges, and what is said of the others.
ODD: dict[str, tuple[str, Rows, int, str]] = {
    "a credit of nothing that ends before it begins": ("aws", [usage(), usage(**FREE, **BACKWARDS)], 1, f"row 2: {LEFT_OUT}"),
    "three without an end": ("aws", [usage(**FREE, UsageEndDate=""), usage(), *[usage(**FREE, UsageEndDate="x")] * 2], 1,
                             f"row 1 and 2 more: {LEFT_OUT}"),
    "FOCUS that ends in another age": (
        "focus", [FOCUS_USAGE, FOCUS_USAGE | {"BilledCost": "0", "EffectiveCost": "0", "ChargePeriodEnd": "9999-12-31"}], 1,
        f"row 2: {LEFT_OUT}",
    ),
    "nothing that ends as it begins": ("aws", [usage(), usage(**FREE, UsageEndDate="2026-03-05T10:00:00Z")], 2, ""),
    "a row of no account": ("aws", [usage(), usage(11), usage(12, PayerAccountId="")], 3,
                            "rows that name no billing account (1) belong to 111122223333, the only one in the file"),
    "an account of blanks": ("focus", [FOCUS_USAGE, *[FOCUS_USAGE | {"BillingAccountId": " "}] * 2], 3,
                             "rows that name no billing account (2) belong to acct-1, the only one in the file"),
    "Azure's marketplace": ("azure", [azure.row(), azure.row(BillingAccountId="", MeterId="m-9")], 2,
                            "rows that name no billing account (1) belong to 4711, the only one in the file"),
    "no account at all": ("aws", [usage(PayerAccountId="")], 1, ""),
}  # fmt: skip


def write(bills: Bills, name: str, provider: str, rows: Rows) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows) if provider == "gcp" else csv_text(rows)
    return bills.write(name, text)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The charges of each file of DATES and NUMBERS, each of an account of its own."""
    bills = Bills(tmp_path_factory.mktemp("texts"))
    cases = {name: (case[0], case[1]) for name, case in DATES.items()} | {
        name: ("aws", case[0]) for name, case in NUMBERS.items()
    }
    paths: dict[str, dict[str, Path]] = {}
    for number, (name, (provider, rows)) in enumerate(cases.items()):
        own = own_rows(rows, number) if provider == "aws" else rows
        account = {"azure": "BillingAccountId", "gcp": "billing_account_id"}.get(provider)
        own = [{**row, account: name} for row in own] if account else own
        paths.setdefault(provider, {})[name] = write(bills, f"{number}.csv", provider, own)
    for provider, files in paths.items():
        bills.load(*files.values(), provider=None if provider == "focus" else provider)
    of = {str(path): name for files in paths.values() for name, path in files.items()}
    charges: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    for charge in bills.charges():
        charges[of[charge["source_file"]]].append(charge)
    return charges


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_as_the_file_settles(read: dict[str, list[dict[str, Any]]], name: str) -> None:
    _, rows, period, first, last = DATES[name]
    charges = read[name]
    assert len(charges) == len(rows) and {charge["billing_period"] for charge in charges} == {period}
    days = sorted(charge["charge_period_start"].strftime("%Y-%m-%d") for charge in charges)
    assert (days[0], days[-1]) == (f"2026-{first}", f"2026-{last}")
    spans = {charge["charge_period_end"] - charge["charge_period_start"] for charge in charges}
    assert {span.total_seconds() for span in spans} == {86400.0 if "azure" in charges[0]["provider"] else 3600.0}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_as_the_file_settles(read: dict[str, list[dict[str, Any]]], name: str) -> None:
    _, cost, list_cost = NUMBERS[name]
    assert len(read[name]) == len(NUMBERS[name][0])
    assert float(sum(charge["billed_cost"] for charge in read[name])) == pytest.approx(cost, abs=1e-9)
    assert read[name][0]["list_cost"] == list_cost
    assert [charge["instance_hours"] for charge in read[name]] == [1.0] * len(read[name])


@pytest.mark.parametrize("name", REFUSED)
def test_file_that_settles_nothing_is_refused(bills: Bills, name: str) -> None:
    provider, rows, words = REFUSED[name]
    run = bills.load(write(bills, "a.csv", provider, rows), provider=provider)
    assert len(run.errors) == 1 and words in run.errors[0].message and run.errors[0].fix
    assert not bills.store.exists or not bills.charges()


@pytest.mark.parametrize("name", ODD)
def test_odd_rows_are_told_of_and_the_others_load(bills: Bills, name: str) -> None:
    provider, rows, count, words = ODD[name]
    run = bills.load(write(bills, "a.csv", provider, rows), provider=None if provider == "focus" else provider)
    assert not run.errors and [row[2] for row in bills.sums()] == [count]
    said = [finding.message for finding in run.findings if finding.code in ("left_out", "without_account")]
    assert [message.partition("a.csv")[2].lstrip(":, ") for message in said] == ([words] if words else [])


def test_numbers_of_parquet_are_dates(bills: Bills) -> None:
    paths = []
    for number, kind in enumerate((pa.int32(), pa.int64(), pa.float64(), pa.decimal128(12, 2))):
        row = azure.row(Date="20260305", BillingPeriodStartDate="20260301", BillingPeriodEndDate="20260331")
        table = pa.Table.from_pylist(
            [row | {"BillingAccountId": f"{number}", "SubscriptionId": f"{number}", "ResourceId": f"{number}"}]
        )
        for column in ("Date", "BillingPeriodStartDate", "BillingPeriodEndDate"):
            values = (
                table[column].cast(pa.int64()).cast(kind, safe=False) if number < 3 else pa.array([Decimal(row[column])], kind)
            )
            table = table.set_column(table.column_names.index(column), column, values)
        paths.append(bills.write(f"{number}.parquet", b""))
        pq.write_table(table, paths[-1])
    assert not bills.load(*paths, provider="azure").errors
    days = [(charge["billing_period"], str(charge["charge_period_start"])[:10]) for charge in bills.charges()]
    assert days == [("2026-03", "2026-03-05")] * 4


def test_text_of_parquet_and_json_lines_is_read_alike(bills: Bills) -> None:
    """Text columns; typed ones mean what they mean."""
    rows = [row | {"lineItem/UnblendedCost": "1.234,50"} for row in hours("5/3/26", "6/3/26")]
    texts, lines, typed = (own_rows(snake(rows), number) for number in (1, 2, 3))
    costs = [{"line_item_unblended_cost": 1.234, "line_item_usage_start_date": datetime(2026, 3, 6, 10, tzinfo=UTC)}] * 2
    tables = [
        texts,
        [row | cost | {"line_item_usage_end_date": "2026-03-06T11:00Z"} for row, cost in zip(typed, costs, strict=True)],
    ]
    paths = [bills.write("lines.jsonl", "".join(json.dumps(row) + "\n" for row in lines))]
    for number, table in enumerate(tables):
        paths.append(bills.write(f"{number}.parquet", b""))
        pq.write_table(pa.Table.from_pylist(table), paths[-1])
    run = bills.load(*paths)
    assert not run.errors, run.errors
    assert [(row[1], row[2], row[3]) for row in bills.sums()] == [("2026-03", 2, 2469.0)] * 2 + [("2026-03", 2, 2.468)]


@pytest.mark.parametrize("known", formats.all_formats(), ids=lambda known: f"{known.name}-{known.required[-1]}")
def test_columns_that_sql_reads_as_times_and_numbers_are_declared(known: formats.Format) -> None:
    text = "".join(map(formats.sql_text, known.sql))
    numbers = (
        set(re.findall(r"(?:bill_decimal|TRY_CAST)\((?:raw\.)?(\w+)(?: AS (?:DECIMAL|DOUBLE)[^:]*?)?\)", text))
        & known.columns.keys()
    )
    times = set(re.findall(r"(?:bill_moment|azure_day)\((?:raw\.)?\"?(\w+)\"?\)", text)) & known.columns.keys()
    assert numbers - {"product", "tags", "x_cost_categories", "start_time", "end_time"} <= set(known.numbers.split())
    if known.name not in ("anthropic", "anthropic-console", "oci", "oci-focus"):
        assert times <= set(known.times)


LINES = csv_text([usage(hour) for hour in range(10, 14)]).splitlines(keepends=True)
MARK = "\ufeff"
MARKED = {
    "a second mark before a row": "".join([MARK, LINES[0], MARK, *LINES[1:]]),
    "in mid-file": "".join([*LINES[:3], MARK, *LINES[3:]]),
    "before a field in mid-file": "".join([*LINES[:3], LINES[3].replace("111122223333", f"{MARK}111122223333"), LINES[4]]),
    "before a machine": "".join([*LINES[:3], LINES[3].replace("i-0123", f"{MARK}i-0123"), LINES[4]]),
    "before a quote": "".join([*LINES[:3], MARK, '"', LINES[3].replace(",", '",', 1), LINES[4]]),
    "two at the beginning": "".join([MARK, MARK, *LINES]),
    "two bytes of it at the end of a piece": "".join([*LINES[:3], LINES[3].replace("i-0123", f"{MARK}i-0123"), LINES[4]]),
    "blanks that are not seen": "".join([*LINES[:3], LINES[3].replace("111122223333", "\u200b111122223333 "),
                                         LINES[4].replace("111122223333", "111122223333\xa0")]),
}  # fmt: skip


@pytest.mark.parametrize("name", MARKED)
def test_byte_order_marks_inside_a_text_make_no_other_account(bills: Bills, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content = MARKED[name].encode()
    if "piece" in name:
        monkeypatch.setattr("gpucost.inputs.MIB", content.index(MARK.encode()) + 2)
    run = bills.load(bills.write("d/a.csv", content if name != "in mid-file" else gzip.compress(content)))
    assert not run.errors, run.errors
    assert bills.sums() == [("aws/111122223333", "2026-03", 4, pytest.approx(131.08), pytest.approx(131.08))]
    assert {charge["instance_key"] for charge in bills.charges()} == {"i-0123456789abcdef0"}
    codes = [finding.code for finding in run.findings]
    assert codes == ([] if name.startswith("blanks") else ["byte_order_marks"])


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_packed_file_that_unpacks_without_end_is_refused(bills: Bills, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    text = csv_text([usage(hour) for hour in range(20)] * 400).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", text[: len(text) // 2])
        archive.writestr("b.csv", text[len(text) // 2 :])
    path = bills.write(f"a.csv.{kind}", gzip.compress(text) if kind == "gz" else out.getvalue())
    size = path.stat().st_size
    assert 20 * size < len(text)
    monkeypatch.setattr(opening, "_UNPACKED", 3 * len(text) // 4)
    monkeypatch.setattr(opening, "_RATIO", 2)
    run = bills.load(path)
    assert ["unpacks to over" in error.message for error in run.errors] == [True] and not bills.store.exists
    monkeypatch.setattr(opening, "_UNPACKED", len(text))
    opened = opening.open_files(None, path, path.name, bills.directory)  # type: ignore[arg-type]
    assert sum(file.path.stat().st_size for file in opened) == len(text)


TAGS = {
    "team": "before", "resourceTags/user_team": "nlp", "resourceTags/aws:createdBy": "eks", "accountTag/env": "prod",
    "costCategory/Org": "research", "resourceTags/x": "",
}  # fmt: skip
MEANT = {"team": "nlp", "aws:createdBy": "eks", "accountTag/env": "prod"}


def test_tags_of_cur_2_are_tags_and_cost_categories(bills: Bills) -> None:
    """In a column `tags`, as text and as a map, beside columns of before that are empty, and in those columns."""
    rows = [snake([usage(hour)])[0] for hour in range(3)]
    with_text = own_rows([rows[0] | {"tags": json.dumps(TAGS)}], 1)
    beside = own_rows([rows[0] | {"tags": json.dumps(TAGS), "resource_tags": "{}", "cost_category": "{}"}], 2)
    before = own_rows([rows[0] | {"resource_tags": '{"user_team": "nlp"}', "cost_category": '{"Org": "research"}'}], 3)
    table = pa.Table.from_pylist(own_rows(rows[:2], 4))
    maps = pa.array([list(TAGS.items()), None], pa.map_(pa.string(), pa.string()))
    parquet = bills.write("4.parquet", b"")
    pq.write_table(table.append_column("tags", maps), parquet)
    run = bills.load(
        *(bills.write(f"{number}.csv", csv_text(some)) for number, some in enumerate((with_text, beside, before), 1)), parquet
    )
    assert not run.errors, run.errors
    charges = bills.charges()
    assert [charge["tags"] for charge in charges] == [MEANT, MEANT, {"team": "nlp"}, MEANT, None]
    assert [charge["cost_categories"] for charge in charges] == [{"Org": "research"}] * 4 + [None]


SKU = {"ServiceType": "Standard_ND96isr_H100_v5", "VMName": "aks-h100-1-vmss_3", "UsageType": "ComputeHR"}
SET = azure.SET.replace("aks-gpu-1-vmss", "aks-h100-1-vmss")
MACHINE = f"{SET}/virtualMachines/3"
OF_SET = {"ProviderName": "Microsoft", "ResourceId": SET, "ResourceType": "Virtual machine scale set"}


@pytest.mark.parametrize(
    ("details", "machine", "instance_type"),
    [
        ({"x_SkuDetails": json.dumps(SKU)}, MACHINE, SKU["ServiceType"]),
        ({"SkuPriceDetails": json.dumps({f"x_{key}": value for key, value in SKU.items()})}, MACHINE, SKU["ServiceType"]),
        ({"SkuPriceDetails": '{"InstanceType": "X"}', "x_SkuDetails": json.dumps(SKU)}, MACHINE, "X"),
        ({"x_SkuDetails": '{"ServiceType": "", "VMName": ""}'}, SET, None),
    ],
)  # fmt: skip
def test_machine_of_azure_in_focus_is_named_as_in_its_own_export(
    bills: Bills, details: dict[str, str], machine: str, instance_type: str | None
) -> None:
    row = (
        FOCUS_USAGE
        | {"ProviderName": "Microsoft", "ResourceId": SET, "ResourceType": "Virtual machine scale set", "x_SkuDetails": ""}
        | details
    )
    run = bills.load(bills.write("focus.csv", csv_text([row])), provider=None)
    assert not run.errors, run.errors
    (charge,) = bills.charges()
    assert (charge["kind"], charge["instance_key"], charge["instance_type"], charge["instance_hours"]) == (
        "instance",
        machine.lower(),
        instance_type,
        1.0,
    )
