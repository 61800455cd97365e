"""Dates, numbers and names on bills: the file settles ambiguous texts, or is refused."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.side_by_side import asked_names
from tests.text_tables import titled, words
from tests.unit import test_bill_azure as azure, test_bill_gcp as gcp, test_bill_oci as oci
from tests.unit.bills import (
    FOCUS_USAGE,
    Bills,
    Charge,
    Rows,
    check_scene,
    csv_text,
    halves,
    item,
    own_rows,
    own_text,
    parquet,
    scene,
    snake,
    text_of,
    usage,
)


def aws(text: str) -> dict[str, str]:
    """A CUR row of an hour: `day` is its day, at the eleventh hour.

    `since` and `until` are its billing period.
    """
    row = item(f"machine {text}")
    since, until = row.pop("since", ""), row.pop("until", "")
    if "day" in row:
        day = row.pop("day")
        row |= {"lineItem/UsageStartDate": f"{day} 10:00", "lineItem/UsageEndDate": f"{day} 11:00"}
        row |= {"bill/BillingPeriodStartDate": since}
    return row | {"bill/BillingPeriodEndDate": until}


#: Rows by the first word of a table line.
PROVIDERS: dict[str, Any] = {
    "aws": aws,
    "azure": lambda text: azure.item(f"machine {text}"),
    "gcp": lambda text: gcp.table_row(f"core {text}"),
    "focus": lambda text: FOCUS_USAGE | words(text),
    "oci": oci.item,
}


def row_of(line: str) -> dict[str, Any]:
    provider, _, text = line.strip().partition(" ")
    return PROVIDERS[provider](text)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """A file, the expected charges, their number, and the expected message."""

    provider: str
    content: str | bytes
    charges: Sequence[str]
    count: int
    message: str = ""


def case(table: str, count: int = 0, message: str = "") -> Case:
    """A case from a table of rows and charges.

    With a `count`, some rows may be left out.
    """
    rows, _ = scene(table, row_of)
    provider = table.split(maxsplit=1)[0].replace("oci", "focus")
    charges = [right for _, right in halves(table)]
    return Case(provider, text_of(rows), charges, count or len(rows), message)


#: Dates as files write them, and their billing periods and starts of charges.
DATES = titled("""
= month first, settled by the period
aws day=3/5/26 since="3/1/26 0:00" until="4/1/26 0:00" | period=2026-03 start=2026-03-05T10:00:00
= day first, settled by the period
aws day=5/3/26 since="1/3/26 0:00" until="1/4/26 0:00" | period=2026-03 start=2026-03-05T10:00:00
= the first day, settled by the period's length
aws day=3/1/26 since="3/1/26 0:00" until="4/1/26 0:00" | period=2026-03 start=2026-03-01T10:00:00
= a period's start is enough
aws day=5/3/26 since="1/3/26 0:00" | period=2026-03 start=2026-03-05T10:00:00
= year first
aws day=26/03/05 since="26/03/01 0:00" until="26/04/01 0:00" | period=2026-03 start=2026-03-05T10:00:00
= most days of a month
aws day=3/4/26 | period=2026-03 start=2026-03-04T10:00:00
aws day=3/5/26 | period=2026-03 start=2026-03-05T10:00:00
aws day=3/6/26 | period=2026-03 start=2026-03-06T10:00:00
= a day after the twelfth
aws day=5/3/26  | period=2026-03 start=2026-03-05T10:00:00
aws day=13/3/26 | period=2026-03 start=2026-03-13T10:00:00
= afternoon
aws UsageStartDate="3/5/2026 10:00:00 PM" UsageEndDate="3/5/2026 11:00:00 PM" BillingPeriodStartDate="3/1/2026 12:00:00 AM"
    until="4/1/2026 12:00 AM" | period=2026-03 start=2026-03-05T22:00:00
= hours from UTC
aws UsageStartDate=2026-03-05T22:00-07:00 UsageEndDate=2026-03-05T23:00-07:00 | period=2026-03 start=2026-03-06T05:00:00
= last day included
azure Date=05/03/2026 BillingPeriodStartDate=01/03/2026 BillingPeriodEndDate=31/03/2026
    | period=2026-03 start=2026-03-05T00:00:00
= one day and month
azure Date=10/10/2026 BillingPeriodStartDate= BillingPeriodEndDate= | period=2026-10 start=2026-10-10T00:00:00
= Google's zone
gcp usage_start_time=2026-02-28T17:00:00-07:00 usage_end_time=2026-02-28T18:00:00-07:00
    | period=2026-03 start=2026-03-01T00:00:00
= Google's days
gcp usage_start_time="3/5/26 0:00" usage_end_time="3/5/26 1:00" | period=2026-03 start=2026-03-05T00:00:00
gcp usage_start_time="3/6/26 0:00" usage_end_time="3/6/26 1:00" | period=2026-03 start=2026-03-06T00:00:00
= FOCUS
focus ChargePeriodStart="5/3/26 10:00" ChargePeriodEnd="5/3/26 11:00" BillingPeriodStart="1/3/26 0:00"
    BillingPeriodEnd="1/4/26 0:00" | period=2026-03 start=2026-03-05T10:00:00
= FOCUS of the first day, a short month
focus ChargePeriodStart="1/2/26 10:00" ChargePeriodEnd="1/2/26 11:00" BillingPeriodStart=1/2/26 BillingPeriodEnd=28/2/26
    | period=2026-02 start=2026-02-01T10:00:00
= digits
azure Date=20260305 BillingPeriodStartDate=20260301 BillingPeriodEndDate=20260331 SubscriptionId=2 id=/subscriptions/2/vm
    | period=2026-03 start=2026-03-05T00:00:00
= OCI
oci classic 1 8 lineItem/intervalUsageStart="5/3/26 1:00" lineItem/intervalUsageEnd="5/3/26 2:00" | start=2026-03-05T01:00:00
oci classic 1 8 lineItem/intervalUsageStart="6/3/26 1:00" lineItem/intervalUsageEnd='6/3/26 2:00'
    | start=2026-03-06T01:00:00""")
#: Costs as files write them, and their values.
NUMBERS = titled("""
= a point and commas
aws cost=1,234 pricing/publicOnDemandCost=1,234.50 | billed=1234 list_cost=1234.5 hours=1
= a comma and points
aws cost=1.234 pricing/publicOnDemandCost=1.234,50 | billed=1234 list_cost=1234.5 hours=1
= another row's point
aws hour=1 cost=1,234 | billed=1234 list_cost=- hours=1
aws hour=2 cost=0.5   | billed=0.5 list_cost=- hours=1
= another row's comma
aws hour=1 cost=1.234 | billed=1234 hours=1
aws hour=2 cost=0,5   | billed=0.5 hours=1
= lakhs
aws cost=1,23,456.50 | billed=123456.5 hours=1
= blanks between thousands
aws cost="1 234,50" | billed=1234.5 hours=1
= below 0
aws hour=1 cost=-1,234.5 | billed=-1234.5 hours=1
aws hour=2 cost=2,000    | billed=2000 hours=1
= in SQL notation
aws hour=1 cost=1.234 | billed=1.234 hours=1
aws hour=2 cost=1E-05 | billed=0.00001 hours=1""")

LEFT_OUT = "left out, because it costs nothing and its end is before its start or cannot be read"
OF_ONE = "rows without a billing account ({}) count for {}, the only one in it"
#: Rows of a file, the number of charges, and the message about the other rows.
ODD = {
    "a credit of 0 that ends before its start": case("""
aws hour=10
aws item=Credit cost=0 UsageEndDate=2026-03-05T09:00:00Z""", 1, f"row 2: {LEFT_OUT}"),
    "three without an end": case("""
aws item=Credit cost=0 UsageEndDate=
aws hour=10
aws item=Credit cost=0 UsageEndDate=x
aws item=Credit cost=0 UsageEndDate=x""", 1, f"row 1 and 2 more: {LEFT_OUT}"),
    "FOCUS with an end in another century": case("""
focus BilledCost=4
focus BilledCost=0 EffectiveCost=0 ChargePeriodEnd=9999-12-31""", 1, f"row 2: {LEFT_OUT}"),
    "a credit of 0 that ends at its start": case("""
aws hour=10
aws item=Credit cost=0 UsageEndDate=2026-03-05T10:00:00Z"""),
    "a row without an account": case("""
aws hour=10
aws hour=11
aws hour=12 PayerAccountId=""", 3, OF_ONE.format(1, "111122223333")),
    "an account name of blanks": case("""
focus BilledCost=4
focus BillingAccountId=" "
focus BillingAccountId=' '""", 3, OF_ONE.format(2, "acct-1")),
    "Azure's marketplace": case("""
azure MeterId=m-1
azure BillingAccountId= MeterId=m-9""", 2, OF_ONE.format(1, "4711")),
    "without any account": case("aws PayerAccountId="),
}  # fmt: skip

HEAD, FIRST, SECOND, THIRD, LAST = csv_text([usage(hour) for hour in range(10, 14)]).splitlines(keepends=True)
START = f"{HEAD}{FIRST}{SECOND}"
MARK, CUT = "\ufeff", "two bytes of it at the end of a chunk"
IN_MACHINE = THIRD.replace("i-0123", f"{MARK}i-0123")
PAYER = "111122223333"
#: Four rows with invisible marks.
MARKED = {
    "a second mark before a row": f"{MARK}{HEAD}{MARK}{FIRST}{SECOND}{THIRD}{LAST}",
    "in mid-file": f"{START}{MARK}{THIRD}{LAST}",
    "before a field in mid-file": START + THIRD.replace(PAYER, f"{MARK}{PAYER}") + LAST,
    "before a machine": f"{START}{IN_MACHINE}{LAST}",
    "before a quote": f'{START}{MARK}"' + THIRD.replace(",", '",', 1) + LAST,
    "two at the beginning": f"{MARK}{MARK}{START}{THIRD}{LAST}",
    CUT: f"{START}{IN_MACHINE}{LAST}",
    "blanks that are invisible": START
    + THIRD.replace(PAYER, f"\u200b{PAYER} ")
    + LAST.replace(PAYER, f"{PAYER}\xa0"),
}


def typed_days(number: int, kind: pa.DataType) -> bytes:
    days = words("Date=20260305 BillingPeriodStartDate=20260301 BillingPeriodEndDate=20260331")
    own = dict.fromkeys(("BillingAccountId", "SubscriptionId", "ResourceId"), f"{number}")
    values = {name: pa.array([Decimal(day)]).cast(kind, safe=False) for name, day in days.items()}
    return parquet([azure.row(**days) | own], **values)


QUOTED = 'a "quoted"\r\nbreak, and\nanother'


def mixed_lines(first: str, other: str) -> str:
    """A CSV with two kinds of line ends, and a quoted field that contains both."""
    in_csv = QUOTED.replace('"', '""')
    text = csv_text([usage(hour, LineItemDescription=QUOTED if hour == 2 else "plain") for hour in range(6)])
    head, _, rest = text.partition("\n")
    lines = rest.replace(in_csv, "@").splitlines()
    mixed = head + first + "".join(row + (other if number % 2 else first) for number, row in enumerate(lines))
    return mixed.replace("@", in_csv)


LOCAL = snake([aws("day=5/3/26 cost=1.234,50"), aws("day=6/3/26 cost=1.234,50")])
TYPED = {
    "line_item_unblended_cost": 1.234,
    "line_item_usage_start_date": datetime(2026, 3, 6, 10, tzinfo=UTC),
    "line_item_usage_end_date": "2026-03-06T11:00Z",
}
TAGS = """{"team": "before", "resourceTags/user_team": "nlp", "resourceTags/aws:createdBy": "eks", "accountTag/env": "prod",
    "costCategory/Org": "research", "resourceTags/x": ""}"""
MEANT = """tags='{"accountTag/env": "prod", "aws:createdBy": "eks", "team": "nlp"}' cost_categories='{"Org": "research"}'"""
HOURLY = snake([usage(hour) for hour in range(2)])
SKU = '{"ServiceType": "Standard_ND96isr_H100_v5", "VMName": "aks-h100-1-vmss_3", "UsageType": "ComputeHR"}'
SET = azure.SET.replace("aks-gpu-1-vmss", "aks-h100-1-vmss")
#: Rows of a scale set in FOCUS, with details in two columns.
X_SKU = '{"x_ServiceType": "Standard_ND96isr_H100_v5", "x_VMName": "aks-h100-1-vmss_3", "x_UsageType": "ComputeHR"}'
IN_FOCUS = f"""
focus x_SkuDetails='{SKU}' | kind=instance hours=1 machine=SET/virtualmachines/3 instance_type=Standard_ND96isr_H100_v5
focus SkuPriceDetails='{X_SKU}' x_SkuDetails=
    | kind=instance hours=1 machine=SET/virtualmachines/3 instance_type=Standard_ND96isr_H100_v5
focus SkuPriceDetails='{{"InstanceType": "X"}}' x_SkuDetails='{SKU}'
    | kind=instance hours=1 machine=SET/virtualmachines/3 instance_type=X
focus x_SkuDetails='{{"ServiceType": "", "VMName": ""}}' | kind=instance hours=1 machine=SET instance_type=-""".replace(
    "focus ", f'focus ProviderName=Microsoft ResourceId={SET} ResourceType="Virtual machine scale set" '
).replace("machine=SET", f"machine={SET.lower()}")


def of_aws(content: Rows | str | bytes, *charges: str) -> Case:
    """A case of a file that is given as it is."""
    return Case(
        "aws", content if isinstance(content, str | bytes) else csv_text(content), charges, len(charges)
    )


#: Files of the same text in other types and columns, and the expected charges.
OTHERS = {
    **{
        f"days as {kind}": Case("azure", typed_days(number, kind), ["period=2026-03 start=2026-03-05T00:00:00"], 1)
        for number, kind in enumerate((pa.int32(), pa.int64(), pa.float64(), pa.decimal128(12, 2)))
    },
    "local text in JSON lines": of_aws(
        "".join(json.dumps(row) + "\n" for row in LOCAL), *["period=2026-03 billed=1234.5"] * 2
    ),
    "local text in Parquet": of_aws(parquet(own_rows(LOCAL, 902)), *["period=2026-03 billed=1234.5"] * 2),
    "typed costs and times": of_aws(
        parquet([row | TYPED for row in own_rows(LOCAL, 903)]), *["period=2026-03 billed=1.234"] * 2
    ),
    "tags of CUR 2 as text": of_aws([HOURLY[0] | {"tags": TAGS}], MEANT),
    "tags of CUR 2 next to empty columns": of_aws(
        [HOURLY[0] | {"tags": TAGS, "resource_tags": "{}", "cost_category": "{}"}], MEANT
    ),
    "tags in columns of earlier versions": of_aws(
        [HOURLY[0] | {"resource_tags": '{"user_team": "nlp"}', "cost_category": '{"Org": "research", "Env": ""}'}],
        """tags='{"team": "nlp"}' cost_categories='{"Org": "research"}'""",
    ),
    "tags of CUR 2 as a map": of_aws(
        parquet(
            own_rows(HOURLY, 904),
            tags=pa.array([list(json.loads(TAGS).items()), None], pa.map_(pa.string(), pa.string())),
        ),
        MEANT, "tags=- cost_categories=-",
    ),
    "cost categories in columns": case("""
aws costCategory/Department=Research costCategory/Env= | cost_categories='{"Department": "Research"}'"""),
    "cost categories of Athena": of_aws(
        [HOURLY[0] | {"cost_category_department": "Serving"}], """cost_categories='{"department": "Serving"}'"""
    ),
    "blank text in Parquet": of_aws(
        parquet(own_rows(snake([item(f"machine usage={text} id={text}") for text in ("", "NULL", "null", "None")]), 905)),
        *["resource_id=- sku_description=-"] * 4,
    ),
    **{
        f"lines with two kinds of ends, the first {first!r}": of_aws(
            mixed_lines(first, other), *["charge_description=plain billed=32.77"] * 2,
            f"charge_description='{QUOTED}'", *["charge_description=plain billed=32.77"] * 3,
        )
        for first, other in (("\n", "\r\n"), ("\r\n", "\n"))
    },
    "machines of Azure in FOCUS": case(IN_FOCUS),
}  # fmt: skip
EXPECTED = "billing_account_id=111122223333 billed=32.77 machine=i-0123456789abcdef0 period=2026-03"
CASES = {name: case(table) for name, table in (DATES | NUMBERS).items()} | ODD | OTHERS
CASES |= {
    name: Case(
        "aws", text, [EXPECTED] * 4, 4,
        "" if name.startswith("blanks") else "byte order marks inside the text were removed",
    )
    for name, text in MARKED.items()
}  # fmt: skip
NUMBER = {name: number for number, name in enumerate(CASES)}


def own(text: str, name: str) -> str:
    """A case's text, with accounts and machines that no other case has."""
    number = NUMBER[name]
    names = {"01AAAA-BBBBBB-CCCCCC": f"01AAAA-BBBBBB-{number:06}", "4711": f"4711{number:03}"}
    names |= {"000000000001": f"{number:012}", "acct-1": f"acct-{number}", "vm-1": f"vm-{number}"}
    for old, new in names.items():
        text = text.replace(old, new)
    return own_text(text, number)


class Read:
    """The files of all tables in one store, each with its own account: charges and messages by case."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, wanted: Container[str]) -> None:
        bills, names = Bills(folder), list(CASES)
        self.charges: dict[str, list[Charge]] = {name: [] for name in names}
        self.messages: dict[str, list[str]] = {name: [] for name in names}
        files: dict[tuple[str, int], list[Path]] = {}  # a load of all runs out of memory
        for number, (name, one) in enumerate(CASES.items()):
            if name in wanted:
                content = one.content if isinstance(one.content, bytes) else own(one.content, name).encode()
                if name == CUT:
                    patch.setattr("gpucost.inputs.MIB", content.index(MARK.encode()) + 2)
                content = gzip.compress(content) if name == "in mid-file" else content
                files.setdefault((one.provider, number // 20), []).append(
                    bills.write(f"{number:03}.csv", content)
                )
        for (provider, _), paths in files.items():
            run = bills.loaded(*paths, provider=None if provider == "focus" else provider)
            for finding in run.findings:
                if found := re.search(r"/(\d{3})\.csv", finding.message):
                    self.messages[names[int(found[1])]].append(finding.message[found.end() :].lstrip(":, "))
        for charge in bills.charges():
            self.charges[names[int(Path(charge["source_file"]).stem)]].append(charge)

    def check(self, name: str) -> None:
        """Check the charges and messages of a case."""
        one, charges = CASES[name], self.charges[name]
        assert len(charges) == one.count
        if any(one.charges):
            check_scene(charges, [words(own(line, name)) for line in one.charges])
        assert self.messages[name] == ([own(one.message, name)] if one.message else [])
        if name in OTHERS:  # each file counts its rows, in any columns
            assert [charge["source_row"] for charge in charges] == list(range(1, one.count + 1))
        if name in DATES:
            hours = 24 if one.provider == "azure" else 1
            spans = {charge["charge_period_end"] - charge["charge_period_start"] for charge in charges}
            assert spans == {timedelta(hours=hours)}


@pytest.fixture(scope="module")
def read(request: pytest.FixtureRequest, module_path: Path) -> Read:
    """The files of the collected cases."""
    with pytest.MonkeyPatch.context() as patch:
        return Read(module_path, patch, asked_names(request) or CASES)


@pytest.mark.parametrize("name", CASES)
def test_texts_are_read_as_their_file_settles(read: Read, name: str) -> None:
    read.check(name)
