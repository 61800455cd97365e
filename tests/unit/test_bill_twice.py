"""Two exports of the same money: a charge counts once, whichever is loaded first; what only one of them bills adds up."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.store import charges
from tests.unit import test_bill_azure as azure
from tests.unit import test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, own_rows, own_text, usage

Rows = list[dict[str, Any]]


def line(name: str, hour: int, **changed: str) -> dict[str, Any]:
    interval = f"2026-03-05T{hour:02}:00:00Z/2026-03-05T{hour + 1:02}:00:00Z"
    return {"identity/LineItemId": name, "identity/TimeInterval": interval} | usage(hour, **changed)


def daily(day: int = 5, **changed: str) -> dict[str, Any]:
    times = {
        "UsageStartDate": f"2026-03-{day:02}T00:00:00Z",
        "UsageEndDate": f"2026-03-{day + 1:02}T00:00:00Z",
    }
    return line(f"D{day}", 0, **times | {"UsageAmount": "6", "UnblendedCost": "196.62"} | changed)


HOURLY = [line(f"L{hour}", hour) for hour in range(6)]
NAMELESS = [line(f"N{hour}", hour, ResourceId="") for hour in range(6)]
SOFTWARE = {"ProductCode": "abcmarketplace", "UsageType": "SoftwareUsage:p4d.24xlarge"}
PAYER = {
    "bill/PayerAccountId": "999988887777",
    "lineItem/UsageAccountId": "999988887777",
    "lineItem/ResourceId": "i-0ddd",
}
WEST = {"ResourceId": "", "AvailabilityZone": "us-west-2a"}
FOCUS = FOCUS_USAGE | {
    "ProviderName": "AWS", "ChargePeriodStart": "2026-03-05T01:00:00Z", "ChargePeriodEnd": "2026-03-05T02:00:00Z",
    "BillingAccountId": "111122223333", "SubAccountId": "444455556666", "SkuId": "SKU1",
    "ResourceId": "arn:aws:ec2:us-east-1:444455556666:instance/i-0123456789abcdef0",
}  # fmt: skip
NEXT_DAY = {"ChargePeriodStart": "2026-03-06T10:00:00Z", "ChargePeriodEnd": "2026-03-06T11:00:00Z"}
VM, DISK = (
    azure.row(),
    azure.row(MeterCategory="Storage", MeterName="P30", ResourceId=f"{azure.SUB}/disks/d1"),
)
TAGGED = {"Tags": '{"aks-managed-poolName": "gpu", "team": "a"}'}
IN_FOCUS = FOCUS_USAGE | {
    "ProviderName": "Microsoft", "BillingAccountId": "/providers/4711", "SubAccountId": azure.SUB, "ResourceId": azure.SET,
    "ChargePeriodStart": "2026-03-05T00:00:00Z", "ChargePeriodEnd": "2026-03-06T00:00:00Z", "ConsumedQuantity": "24",
    "x_SkuDetails": json.dumps(azure.INFO),
}  # fmt: skip
OTHER_DAY = {"Date": "03/01/2026"}
DETAILED = [gcp.row(hour=hour, cost=0.36) for hour in (0, 1)]
STANDARD: Rows = [{name: value for name, value in row.items() if name != "resource"} for row in DETAILED]


def answer(*rows: dict[str, Any]) -> Rows:
    """What the query API answers for these rows."""
    names = {
        "Cost": "CostInBillingCurrency", "UsageQuantity": "Quantity", "UsageDate": "Date", "ResourceId": "ResourceId",
        "SubscriptionId": "SubscriptionId", "ResourceLocation": "ResourceLocation", "MeterCategory": "MeterCategory",
        "Meter": "MeterName", "ChargeType": "ChargeType", "PricingModel": "PricingModel", "Currency": "BillingCurrencyCode",
    }  # fmt: skip
    values = [
        [row[name].lower() if name == "ResourceId" else row[name] for name in names.values()] for row in rows
    ]
    values = [[re.sub(r"^(..)/(..)/(20..)$", r"\3\1\2", value) for value in row] for row in values]
    columns = [{"name": name, "type": "String"} for name in names]
    return [{"id": "q", "properties": {"nextLink": None, "columns": columns, "rows": values}}]


_BY_SERVICE = {
    "columns": [
        {"name": name} for name in ("PreTaxCost", "UsageDate", "ServiceName", "SubscriptionId", "Currency")
    ]
}
_COSTS = [[150, 20260305, "Virtual Machines", VM["SubscriptionId"], "USD"]]
SERVICES: Rows = [{"id": "s", "properties": _BY_SERVICE | {"nextLink": None, "rows": _COSTS}}]

#: What is loaded first, what second; and what the second is refused with, or '' where it loads; how much is billed then.
CASES: dict[str, dict[str, tuple[Rows, Rows, str, float]]] = {
    "aws": {
        "hourly, then daily": (HOURLY, [daily()], "2026-03-05: 196.62 and 196.62 USD", 196.62),
        "daily, then hourly": ([daily()], HOURLY[:4], "2026-03-05: 131.08 and 196.62 USD", 196.62),
        "without resource ids": (HOURLY, NAMELESS, "2026-03-05: 196.62 and 196.62 USD", 196.62),
        "daily without, hourly with ids": ([daily(ResourceId="")], HOURLY, "2026-03-05: 196.62 and 196.62 USD", 196.62),
        "some days of it": (
            [daily(day) for day in (4, 5, 6)], [*HOURLY, daily(9)], "2026-03-05: 196.62 and 196.62 USD", 589.86
        ),
        "one more tag": (HOURLY, [row | {"resourceTags/user:team": "a"} for row in HOURLY], "", 196.62),
        "month to date": (HOURLY[:4], HOURLY, "", 196.62),
        "the hours after": (HOURLY[:2], HOURLY[2:], "", 196.62),
        "other days": ([daily(4)], [daily(5)], "", 393.24),
        "another region": ([daily(ResourceId="")], [line("W", 3, **WEST)], "", 229.39),
        "another payer": (HOURLY, [row | PAYER for row in HOURLY], "", 393.24),
        "another account": (HOURLY, [row | {"lineItem/UsageAccountId": "999988887777"} for row in NAMELESS], "", 393.24),
        "another account, the same resource": (HOURLY, [daily() | {"lineItem/UsageAccountId": "999988887777"}], "", 393.24),
        "a late row of a day before": (
            HOURLY, [daily(6), daily(7), line("Z", 1, Operation="late", UnblendedCost="0.5")], "", 590.36
        ),
        "credits": (HOURLY, [line("C", 1, LineItemType="Credit", UnblendedCost="-50")], "", 146.62),
        "marketplace": (HOURLY, [line("M", 1, **SOFTWARE, UnblendedCost="9")], "", 205.62),
        "marketplace by the same usage type": (HOURLY, [line("M", 1, ProductCode="abc", UnblendedCost="9")], "", 205.62),
    },
    "focus": {
        "CUR, then FOCUS of the same machine": (HOURLY, [FOCUS], "2026-03-05: 4.00 and 196.62 USD", 196.62),
        "CUR, then FOCUS without resources": (HOURLY, [FOCUS | {"ResourceId": ""}], "2026-03-05: 4.00 and 196.62 USD", 196.62),
        "CUR, then FOCUS of another account": (HOURLY, [FOCUS | {"SubAccountId": "999988887777"}], "", 200.62),
        "CUR, then FOCUS of another day": (HOURLY, [FOCUS | NEXT_DAY], "", 200.62),
        "CUR, then FOCUS of another machine": (HOURLY, [FOCUS | {"ResourceId": "i-0fff"}], "", 200.62),
        "CUR, then a correction in FOCUS": (HOURLY, [FOCUS | {"ChargeClass": "Correction"}], "", 200.62),
    },
    "azure": {
        "an answer, then the export": (
            answer(VM, DISK), [VM, DISK], "2026-03-05: 176.30 and 176.30 USD", 176.304
        ),
        "the export, then an answer": ([VM], answer(VM), "2026-03-05: 88.15 and 88.15 USD", 88.152),
        "the export, then an answer by service": ([VM, DISK], SERVICES, "2026-03-05: 150.00 and 176.30 USD", 176.304),
        "the export, then FOCUS": ([VM], [IN_FOCUS], "2026-03-05: 4.00 and 88.15 USD", 88.152),
        "FOCUS, then the export": ([IN_FOCUS], [VM], "2026-03-05: 88.15 and 4.00 USD", 4),
        "the export, then FOCUS of another subscription": (
            [VM], [IN_FOCUS | {"SubAccountId": "/subscriptions/0", "ResourceId": "/subscriptions/0/vm"}], "", 92.152
        ),
        "another billing period": (
            [VM | {"BillingPeriodStartDate": "02/15/2026"}], [VM], "2026-03-05: 88.15 and 88.15 USD", 88.152
        ),
        "one more tag": ([VM], [VM | TAGGED], "", 88.152),
        "restated": ([VM], [VM | {"CostInBillingCurrency": "80"}], "", 80),
        "actual and amortized": (azure.actual(), azure.amortized(), "", 453),
        "amortized and actual": (azure.amortized(), azure.actual(), "", 453),
        "a machine billed for 48 hours, by another meter": (
            [VM], [VM | {"MeterId": "m-2"}], "virtualmachines/3 is billed for 48.0 hours a day, 2026-03-05: 176.30 USD", 88.152
        ),
        "a scale set of many machines": (
            [VM | OTHER_DAY], [VM | {"AdditionalInfo": "", "Quantity": "480"}], "", 176.304
        ),
    },
    "gcp": {
        "standard, then detailed": (STANDARD, DETAILED, "2026-03-05: 0.72 and 0.72 USD", 0.72),
        "detailed, then standard": (DETAILED, STANDARD, "2026-03-05: 0.72 and 0.72 USD", 0.72),
        "one more label": (
            DETAILED, [row | {"labels": [{"key": "team", "value": "a"}]} for row in DETAILED],
            "2026-03-05: 0.72 and 0.72 USD", 0.72,
        ),
        "other SKUs": (STANDARD, [gcp.row(gcp.GPU, cost=0.5, resource=None)], "", 1.22),
        "another project": (DETAILED, [row | {"project": {"id": "Other"}} for row in STANDARD], "", 1.44),
        "promotions": (DETAILED, [gcp.row(cost=-0.1, cost_type="adjustment")], "", 0.62),
    },
}  # fmt: skip
COMMANDS: dict[str, tuple[str | None, str | None]] = {
    "focus": ("aws", None),
    "gcp": ("gcp", "gcp"),
    "azure": ("azure", "azure"),
}


def _text(rows: Rows, number: int) -> str:
    """The rows as a file that shares nothing with those of other cases."""
    text = (
        csv_text(rows)
        if isinstance(next(iter(rows[0].values())), str) and "id" not in rows[0]
        else "".join(json.dumps(row) + "\n" for row in rows)
    )
    text = text.replace("ML-Proj", f"ml-{number}")
    text = re.sub(
        r"(11111111-aaaa-bbbb-cccc-000000000|01AAAA-BBBBBB-|\b4)(001|CCCCCC|711)\b",
        rf"\g<1>{number + 100}",
        text,
    )
    return own_text(text, number)


def _load(bills: Bills, kind: str, step: int) -> list[str]:
    """Loads each case's files, first or second, and answers the messages of what is refused. Rows of AWS are one file."""
    files = [case[:2][step] for case in CASES[kind].values()]
    if kind in ("aws", "focus"):
        bills.write(
            f"{step}/all.csv",
            csv_text([row for number, rows in enumerate(files) for row in own_rows(rows, number)]),
        )
        files = []
    for number, rows in enumerate(files):
        text = _text(rows, number)
        bills.write(f"{step}/{number:03}.{'csv' if text[0] != '{' else 'json'}", text)
    run = bills.load(bills.directory / str(step), provider=COMMANDS.get(kind, ("aws", "aws"))[step])
    return [error.message for error in run.errors]


@pytest.mark.parametrize("kind", CASES)
def test_money_in_both_is_refused_and_the_rest_adds_up(bills: Bills, kind: str) -> None:
    assert not _load(bills, kind, 0)
    messages = "; ".join(_load(bills, kind, 1)).split("; ")
    sums: dict[str, Decimal] = {}
    for charge in bills.charges():
        number = charge["source_file"].rpartition("/")[2][:3]
        number = charge["billing_account_id"][-3:] if number == "all" else number
        sums[number] = sums.get(number, Decimal(0)) + charge["billed_cost"]
    for number, (name, (_, _, _, billed)) in enumerate(CASES[kind].items()):
        assert float(sums[f"{number:03}"]) == pytest.approx(billed), name
    refused = [message for _, _, message, _ in CASES[kind].values() if message]
    assert [bool(text) for text in messages] == [True] * len(refused), messages
    for message in set(refused):
        assert sum(message in text for text in messages) == refused.count(message), (message, messages)


TOGETHER = {
    "hourly and daily": ("aws", [HOURLY, [daily()]], "2026-03-05: 196.62 and 196.62 USD"),
    "without resource ids": ("aws", [HOURLY, NAMELESS], "2026-03-05: 196.62 and 196.62 USD"),
    "an export and an answer": ("azure", [[VM, DISK], answer(VM, DISK)], "2026-03-05: 176.30 and 176.30 USD"),
    "standard and detailed": ("gcp", [STANDARD, DETAILED], "2026-03-05: 0.72 and 0.72 USD"),
    "two parts of an hour": (
        "gcp", [[gcp.row(cost=0.3), gcp.row(cost=0.1, hour=1)], [gcp.row(cost=0.06), gcp.row(cost=0.2, hour=1)]], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] if re.search("without|and an answer|and detailed", name) else []
        )
        for name in TOGETHER
    ],
)
def test_files_of_one_load_are_two_exports_or_parts_of_one(bills: Bills, name: str) -> None:
    provider, files, message = TOGETHER[name]
    for number, rows in enumerate(files):
        text = _text(rows, 0)
        bills.write(f"d/{number}.{'csv' if text[0] != '{' else 'json'}", text)
    run = bills.load(bills.directory / "d", provider=provider)
    assert [error.message.partition("are billed twice, ")[2] for error in run.errors] == (
        [message] if message else []
    )
    assert bills.store.exists == (not message)


def _warned(bills: Bills) -> list[tuple[object, ...]]:
    pipeline.attribute(Config(), bills.store)
    return bills.store.query(
        "SELECT subject, message, fix FROM warnings WHERE code = 'billed_twice' ORDER BY ALL"
    )[1]


def test_store_with_two_views_of_a_month_reports_it_until_one_replaces_the_other(
    bills: Bills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before left it; beside it a machine that one export bills for 48 hours of a day."""
    run = bills.load(bills.write("cost.csv", csv_text([VM, VM | {"MeterId": "m-2"}])), provider="azure")
    [finding] = run.findings
    assert not run.errors and finding.code == "billed_twice"
    assert finding.message.endswith(
        "virtualmachines/3 is billed for 48.0 hours a day, 2026-03-05: 176.30 USD"
    )
    files = [
        bills.write("hourly.csv", csv_text(HOURLY)),
        bills.write("daily.csv", csv_text([daily(), daily(6)])),
    ]
    with monkeypatch.context() as before:
        before.setattr(charges, "billed_twice", lambda *_, **__: [])
        for path in files:
            assert not bills.load(path).errors
    [(subject, message, fix), (_, long_day, _)] = _warned(bills)
    assert "is billed for 48.0 hours a day" in str(long_day)
    assert subject == "aws/111122223333" and str(fix).startswith("gpucost collect aws --replace PATH")
    assert str(message).endswith(
        "hourly.csv: the same accounts and resources are billed twice, 2026-03-05: 196.62 and 196.62 USD"
    )
    (result,) = bills.load(files[1], force=True).results
    assert result.verdict == "replace" and [row[1] for row in _warned(bills)] == [long_day]
    assert bills.sums()[0][3] == pytest.approx(393.24)


def test_file_whose_charges_are_named_otherwise_now_replaces_itself(bills: Bills) -> None:
    path = bills.write("cost.csv", csv_text([VM]))
    assert not bills.load(path, provider="azure").errors
    with bills.store.write() as con:
        con.execute("UPDATE bill_lines SET charge_key = 1; UPDATE bills SET digest = 'of other rules'")
    (result,) = bills.load(path, provider="azure").results
    assert result.verdict == "replace" and [row[2] for row in bills.sums()] == [1]
