"""How dates, numbers and names of bills are read: the file settles what can be read in two ways, or is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Container, Mapping, Sequence
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
from tests.unit.bills import FOCUS_USAGE, Bills, check_charges, csv_text, own_rows, own_text, snake, usage

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
#: Rows of files that settle nothing: the provider, and the text that can be read in two ways.
AMBIGUOUS: dict[str, tuple[str, Rows, str]] = {
    "a day without a period": ("aws", hours("3/5/26"), "3/5/26 10:00"),
    "one odd date": ("aws", hours("3/4/26", "3/5/26", "3/6/26", "13/3/26"), "13/3/26 10:00"),
    "dates of two kinds": ("aws", hours("3/15/26", "15/3/26"), "15/3/26 10:00"),
    "a comma alone": ("aws", costs("1,234"), "1,234 1"),
    "commas and points": ("aws", costs("12,34", "12.5"), "12,34 1"),
    "a day of Azure without a period": ("azure", [azure.row(**NO_PERIOD)], "03/05/2026"),
}
BACKWARDS = {"UsageEndDate": "2026-03-05T09:00:00Z"}
#: What is changed in a file's second row, and what is wrong with it then.
UNREADABLE: dict[str, tuple[dict[str, str], str]] = {
    **{f"year {year}": ({"UsageStartDate": f"{year}-03-05T10:00:00Z", "UsageEndDate": f"{year}-03-05T11:00:00Z"},
                        "the start of the charge") for year in ("0026", "1926", "2226")},
    "a period of another age": ({"BillingPeriodStartDate": "0026-03-01T00:00:00Z"}, "the billing period"),
    "an end of another age": ({"UsageEndDate": "9999-12-31T00:00:00Z"}, "the end of the charge is empty or cannot be read"),
    "an end before its start": (BACKWARDS, "the end of the charge is before its start"),
    "a refund with an end before its start": (BACKWARDS | {"UnblendedCost": "-1"}, "the end of the charge is before its start"),
    "no start where nothing is paid": ({"UsageStartDate": "", "UnblendedCost": "0"}, "the start of the charge is empty"),
    "no currency": ({"CurrencyCode": ""}, "the currency is empty or cannot be read"),
    "hours below 0 that cost": ({"UsageAmount": "-1"}, "the cost of hours below 0"),
}  # fmt: skip

FREE = {"LineItemType": "Credit", "UnblendedCost": "0"}
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

LINES = csv_text([usage(hour) for hour in range(10, 14)]).splitlines(keepends=True)
MARK, CUT = "\ufeff", "two bytes of it at the end of a chunk"
#: Four rows with marks that are not seen.
MARKED = {
    "a second mark before a row": "".join([MARK, LINES[0], MARK, *LINES[1:]]),
    "in mid-file": "".join([*LINES[:3], MARK, *LINES[3:]]),
    "before a field in mid-file": "".join([*LINES[:3], LINES[3].replace("111122223333", f"{MARK}111122223333"), LINES[4]]),
    "before a machine": "".join([*LINES[:3], LINES[3].replace("i-0123", f"{MARK}i-0123"), LINES[4]]),
    "before a quote": "".join([*LINES[:3], MARK, '"', LINES[3].replace(",", '",', 1), LINES[4]]),
    "two at the beginning": "".join([MARK, MARK, *LINES]),
    CUT: "".join([*LINES[:3], LINES[3].replace("i-0123", f"{MARK}i-0123"), LINES[4]]),
    "blanks that are not seen": "".join([*LINES[:3], LINES[3].replace("111122223333", "\u200b111122223333 "),
                                         LINES[4].replace("111122223333", "111122223333\xa0")]),
}  # fmt: skip


def parquet(rows: Rows, **columns: pa.Array) -> bytes:
    """A Parquet file, with some columns of other types than those of the rows' values."""
    table = pa.Table.from_pylist(list(rows))
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.append_column(name, values) if place < 0 else table.set_column(place, name, values)
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def typed_days(number: int, kind: pa.DataType) -> bytes:
    days = {"Date": "20260305", "BillingPeriodStartDate": "20260301", "BillingPeriodEndDate": "20260331"}
    own = {"BillingAccountId": f"{number}", "SubscriptionId": f"{number}", "ResourceId": f"{number}"}
    values = {name: pa.array([Decimal(day)]).cast(kind, safe=False) for name, day in days.items()}
    return parquet([azure.row(**days) | own], **values)


QUOTED = 'a "quoted"\r\nbreak, and\nanother'


def mixed_lines(first: str, other: str) -> str:
    """A CSV whose lines end in two ways, and a quoted field that has both."""
    in_csv = QUOTED.replace('"', '""')
    text = csv_text([usage(hour, LineItemDescription=QUOTED if hour == 2 else "plain") for hour in range(6)])
    head, _, rest = text.partition("\n")
    lines = rest.replace(in_csv, "@").splitlines()
    mixed = head + first + "".join(row + (other if number % 2 else first) for number, row in enumerate(lines))
    return mixed.replace("@", in_csv)


BLANKS = ["", "NULL", "null", "None"]
LOCAL = snake([row | {"lineItem/UnblendedCost": "1.234,50"} for row in hours("5/3/26", "6/3/26")])
TYPED = {
    "line_item_unblended_cost": 1.234,
    "line_item_usage_start_date": datetime(2026, 3, 6, 10, tzinfo=UTC),
}
ENDS = {"line_item_usage_end_date": "2026-03-06T11:00Z"}
TAGS = {
    "team": "before", "resourceTags/user_team": "nlp", "resourceTags/aws:createdBy": "eks", "accountTag/env": "prod",
    "costCategory/Org": "research", "resourceTags/x": "",
}  # fmt: skip
MEANT = {"team": "nlp", "aws:createdBy": "eks", "accountTag/env": "prod"}
IN_TAGS: dict[str, Sequence[Any]] = {"tags": [MEANT], "cost_categories": [{"Org": "research"}]}
HOURLY = snake([usage(hour) for hour in range(2)])
SKU = {"ServiceType": "Standard_ND96isr_H100_v5", "VMName": "aks-h100-1-vmss_3", "UsageType": "ComputeHR"}
SET = azure.SET.replace("aks-gpu-1-vmss", "aks-h100-1-vmss")
MACHINE = f"{SET}/virtualMachines/3".lower()
OF_SET = {"ProviderName": "Microsoft", "ResourceId": SET, "ResourceType": "Virtual machine scale set"}
#: Details of a scale set's row in FOCUS, the machine that it is of, and its type.
DETAILS: list[tuple[dict[str, str], str, str | None]] = [
    ({"x_SkuDetails": json.dumps(SKU)}, MACHINE, SKU["ServiceType"]),
    (
        {"SkuPriceDetails": json.dumps({f"x_{key}": value for key, value in SKU.items()})},
        MACHINE,
        SKU["ServiceType"],
    ),
    ({"SkuPriceDetails": '{"InstanceType": "X"}', "x_SkuDetails": json.dumps(SKU)}, MACHINE, "X"),
    ({"x_SkuDetails": '{"ServiceType": "", "VMName": ""}'}, SET.lower(), None),
]
#: Files of the same text in other types and columns, and what their charges are.
OTHERS: dict[str, tuple[str, Rows | str | bytes, dict[str, Sequence[Any]]]] = {
    **{
        f"days as {kind}": ("azure", typed_days(number, kind),
                            {"billing_period": ["2026-03"], "charge_period_start": [datetime(2026, 3, 5)]})  # noqa: DTZ001
        for number, kind in enumerate((pa.int32(), pa.int64(), pa.float64(), pa.decimal128(12, 2)))
    },
    "local text in JSON lines": (
        "aws", "".join(json.dumps(row) + "\n" for row in own_rows(LOCAL, 901)).encode(),
        {"billing_period": ["2026-03"] * 2, "billed_cost": ["1234.5"] * 2},
    ),
    "local text in Parquet": (
        "aws", parquet(own_rows(LOCAL, 902)), {"billing_period": ["2026-03"] * 2, "billed_cost": ["1234.5"] * 2}
    ),
    "typed costs and times": (
        "aws", parquet([row | TYPED | ENDS for row in own_rows(LOCAL, 903)]),
        {"billing_period": ["2026-03"] * 2, "billed_cost": ["1.234"] * 2},
    ),
    "tags of CUR 2 as text": ("aws", [HOURLY[0] | {"tags": json.dumps(TAGS)}], IN_TAGS),
    "tags of CUR 2 beside empty columns": (
        "aws", [HOURLY[0] | {"tags": json.dumps(TAGS), "resource_tags": "{}", "cost_category": "{}"}], IN_TAGS
    ),
    "tags in columns of before": (
        "aws", [HOURLY[0] | {"resource_tags": '{"user_team": "nlp"}', "cost_category": '{"Org": "research"}'}],
        {"tags": [{"team": "nlp"}], "cost_categories": [{"Org": "research"}]},
    ),
    "tags of CUR 2 as a map": (
        "aws", parquet(own_rows(HOURLY, 904), tags=pa.array([list(TAGS.items()), None], pa.map_(pa.string(), pa.string()))),
        {"tags": [MEANT, None], "cost_categories": [{"Org": "research"}, None]},
    ),
    "cost categories in columns": (
        "aws", [usage(1) | {"costCategory/Department": "Research", "costCategory/Env": ""}],
        {"cost_categories": [{"Department": "Research"}]},
    ),
    "cost categories of Athena": (
        "aws", [HOURLY[0] | {"cost_category_department": "Serving"}], {"cost_categories": [{"department": "Serving"}]}
    ),
    "cost categories in a map": (
        "aws", [HOURLY[0] | {"cost_category": '{"Department": "Research", "Env": ""}'}],
        {"cost_categories": [{"Department": "Research"}]},
    ),
    "blank text in Parquet": (
        "aws", parquet(own_rows(snake([usage(1), *(usage(2, UsageType=text, ResourceId=text) for text in BLANKS)]), 905)),
        {"resource_id": [own_text("i-0123456789abcdef0", 905), *[None] * 4],
         "sku_description": ["BoxUsage:p4d.24xlarge", *[None] * 4]},
    ),
    **{
        f"lines that end in two ways, the first in {first!r}": (
            "aws", mixed_lines(first, other), {"charge_description": ["plain", "plain", QUOTED, *["plain"] * 3],
                                               "billed_cost": ["32.77"] * 6},
        )
        for first, other in (("\n", "\r\n"), ("\r\n", "\n"))
    },
    "machines of Azure in FOCUS": (
        "focus", [FOCUS_USAGE | OF_SET | {"x_SkuDetails": ""} | details for details, _, _ in DETAILS],
        {"kind": ["instance"] * 4, "instance_key": [machine for _, machine, _ in DETAILS],
         "instance_type": [kind for _, _, kind in DETAILS], "instance_hours": [1.0] * 4},
    ),
}  # fmt: skip


Charges = list[dict[str, Any]]


class Read:
    """The files of all tables in one store, each of its own account: charges and messages by the name of the case."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, asked: Container[str]) -> None:
        bills = Bills(folder)
        self.charges: dict[str, Charges] = {}
        self.messages: dict[str, list[str]] = {}
        cases: dict[str, tuple[str, Rows | str | bytes]] = {
            name: case[:2] for name, case in (DATES | ODD | OTHERS).items()
        }
        cases |= {name: ("aws", case[0]) for name, case in NUMBERS.items()}
        cases |= {name: ("aws", text) for name, text in MARKED.items()}
        self.numbers = {name: number for number, name in enumerate(cases)}
        names = list(cases)
        cases = {name: case for name, case in cases.items() if name in asked}
        files: dict[str, list[Path]] = {}
        for name, (provider, content) in cases.items():
            number = self.numbers[name]
            own = own_content(content, provider, number)
            if name == CUT:
                cut = own.index(MARK.encode()) + 2
            files.setdefault(provider, []).append(
                bills.write(f"{number:03}.csv", gzip.compress(own) if name == "in mid-file" else own)
            )
            self.charges[name], self.messages[name] = [], []
        if CUT in asked:
            patch.setattr("gpucost.inputs.MIB", cut)
        for provider, paths in files.items():
            run = bills.load(*paths, provider=None if provider == "focus" else provider)
            assert not run.errors, run.errors
            for finding in run.findings:
                if found := re.search(r"/(\d{3})\.csv", finding.message):
                    self.messages[names[int(found[1])]].append(finding.message[found.end() :].lstrip(":, "))
        for charge in bills.charges():
            self.charges[names[int(Path(charge["source_file"]).stem)]].append(charge)


def own_content(content: Rows | str | bytes, provider: str, number: int) -> bytes:
    """The content of a file whose account is that of no other file."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return own_text(content, number).encode()
    if provider == "aws":
        return csv_text(own_rows(content, number)).encode()
    account = "billing_account_id" if provider == "gcp" else "BillingAccountId"
    rows = [
        {**row, account: f"{row[account]}-{number}"} if row.get(account, "").strip() else row
        for row in content
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows) if provider == "gcp" else csv_text(rows)
    resource, own = {
        "azure": (azure.SUB.rpartition("-")[2], f"{number:012}"), "focus": (FOCUS_USAGE["ResourceId"], f"vm-{number}")
    }.get(provider, ("", ""))  # fmt: skip
    return (text.replace(resource, own) if resource else text).encode()


@pytest.fixture(scope="module")
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The files of the cases that tests are collected for."""
    calls = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    asked = {call.params.get("name") for call in calls if call}
    with pytest.MonkeyPatch.context() as patch:
        return Read(tmp_path_factory.mktemp("texts"), patch, asked)


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_as_the_file_settles(read: Read, name: str) -> None:
    _, rows, period, first, last = DATES[name]
    charges = read.charges[name]
    assert len(charges) == len(rows) and {charge["billing_period"] for charge in charges} == {period}
    days = sorted(charge["charge_period_start"].strftime("%Y-%m-%d") for charge in charges)
    assert (days[0], days[-1]) == (f"2026-{first}", f"2026-{last}")
    spans = {charge["charge_period_end"] - charge["charge_period_start"] for charge in charges}
    assert {span.total_seconds() for span in spans} == {
        86400.0 if "azure" in charges[0]["provider"] else 3600.0
    }


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_as_the_file_settles(read: Read, name: str) -> None:
    rows, cost, list_cost = NUMBERS[name]
    charges = read.charges[name]
    assert len(charges) == len(rows)
    assert float(sum(charge["billed_cost"] for charge in charges)) == pytest.approx(cost, abs=1e-9)
    assert charges[0]["list_cost"] == list_cost
    assert [charge["instance_hours"] for charge in charges] == [1.0] * len(rows)


@pytest.mark.parametrize("name", ODD)
def test_odd_rows_are_named_and_the_others_load(read: Read, name: str) -> None:
    provider, _, count, message = ODD[name]
    assert len(read.charges[name]) == count
    if provider == "aws":
        message = own_text(message, read.numbers[name])
    assert [text.replace(f"-{read.numbers[name]},", ",") for text in read.messages[name]] == (
        [message] if message else []
    )


@pytest.mark.parametrize("name", MARKED)
def test_invisible_marks_inside_a_text_make_no_other_account(read: Read, name: str) -> None:
    number = read.numbers[name]
    check_charges(read.charges[name], {
        "billing_account_id": [own_text("111122223333", number)] * 4, "billed_cost": ["32.77"] * 4,
        "instance_key": [own_text("i-0123456789abcdef0", number)] * 4, "billing_period": ["2026-03"] * 4,
    })  # fmt: skip
    assert read.messages[name] == (
        [] if name.startswith("blanks") else ["byte order marks inside the text were left out"]
    )


@pytest.mark.parametrize("name", OTHERS)
def test_typed_and_nested_columns(read: Read, name: str) -> None:
    check_charges(read.charges[name], OTHERS[name][2])
    # rows are counted in each file, whatever its columns
    assert [charge["source_row"] for charge in read.charges[name]] == list(
        range(1, len(read.charges[name]) + 1)
    )
    assert not read.messages[name]


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_file_that_settles_nothing_is_refused(bills: Bills, provider: str) -> None:
    cases = {name: (csv_text(rows), text) for name, (of, rows, text) in AMBIGUOUS.items() if of == provider}
    refusals = bills.refusals({name: text for name, (text, _) in cases.items()}, provider)
    for name, (_, text) in cases.items():
        assert f": {text} can be read in two ways" in refusals[name], name


#: What one condition alone refuses: beside other bad files it would not show.
ALONE = ("an end before its start", "an end of another age", "hours below 0 that cost")


@pytest.mark.parametrize("names", [tuple(UNREADABLE), *((name,) for name in ALONE)], ids=["all", *ALONE])
def test_row_that_cannot_be_read_is_refused(bills: Bills, names: Sequence[str]) -> None:
    files = {
        name: csv_text(own_rows([usage(), usage(**UNREADABLE[name][0])], n)) for n, name in enumerate(names)
    }
    refusals = bills.refusals(files)
    for name in names:
        assert refusals[name].startswith(f"row 2: {UNREADABLE[name][1]}"), name


def test_row_without_an_account_is_refused_if_its_file_has_several(bills: Bills) -> None:
    rows = [usage(), usage(11, PayerAccountId=""), usage(12, PayerAccountId="999988887777")]
    assert "some rows have no billing account" in bills.refusals({"several": csv_text(rows)})["several"]


@pytest.mark.parametrize(
    "known", formats.all_formats(), ids=lambda known: f"{known.name}-{known.required[-1]}"
)
def test_columns_that_sql_reads_as_times_and_numbers_are_declared(known: formats.Format) -> None:
    text = "".join(map(formats.sql_text, known.sql))
    numbers = (
        set(
            re.findall(r"(?:bill_decimal|TRY_CAST)\((?:raw\.)?(\w+)(?: AS (?:DECIMAL|DOUBLE)[^:]*?)?\)", text)
        )
        & known.columns.keys()
    )
    times = (
        set(re.findall(r"(?:bill_moment|azure_day)\((?:raw\.)?\"?(\w+)\"?\)", text)) & known.columns.keys()
    )
    assert numbers - {"product", "tags", "x_cost_categories", "start_time", "end_time"} <= set(
        known.numbers.split()
    )
    if known.name not in ("anthropic", "anthropic-console", "oci", "oci-focus"):
        assert times <= set(known.times)


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_packed_file_that_unpacks_without_end_is_refused(
    bills: Bills, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
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
