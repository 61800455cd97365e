"""Two exports of the same money: a charge counts once, in either order.

Money in only one export is added.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.store import charges
from tests.text_tables import titled, words
from tests.unit import test_bill_azure as azure, test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, item, own_rows, own_text, text_of
from tests.unit.test_bill_load import rows_of

Rows = list[dict[str, Any]]
VM = azure.row()
DISK = azure.item("machine of=Storage meter=P30 id=SUB/disks/d1")


def answer(*rows: dict[str, Any]) -> Rows:
    """The answer of the query API for these rows."""
    names = words("""
        Cost=CostInBillingCurrency UsageQuantity=Quantity UsageDate=Date ResourceId=ResourceId SubscriptionId=SubscriptionId
        ResourceLocation=ResourceLocation MeterCategory=MeterCategory Meter=MeterName ChargeType=ChargeType
        PricingModel=PricingModel Currency=BillingCurrencyCode""")
    values = []
    for row in rows:
        known = row | {"ResourceId": row["ResourceId"].lower(), "Date": "20260305"}
        values.append([known[name] for name in names.values()])
    columns = [{"name": name, "type": "String"} for name in names]
    return [{"id": "q", "properties": {"nextLink": None, "columns": columns, "rows": values}}]


BY_SERVICE = """{"id": "s", "properties": {"nextLink": null, "columns": [{"name": "PreTaxCost"}, {"name": "UsageDate"},
    {"name": "ServiceName"}, {"name": "SubscriptionId"}, {"name": "Currency"}],
    "rows": [[150, 20260305, "Virtual Machines", "11111111-aaaa-bbbb-cccc-000000000001", "USD"]]}}"""
#: Files, by their names in tables.
FILES: dict[str, Rows] = {
    "answer": answer(VM),
    "answers": answer(VM, DISK),
    "services": [json.loads(BY_SERVICE)],
    "actual": azure.actual(),
    "amortized": azure.amortized(),
}
#: Rows, by their names in tables.
ROWS = {
    "vm": VM,
    "disk": DISK,
    "focus": FOCUS_USAGE
    | words("""ProviderName=AWS ChargePeriodStart=2026-03-05T01:00:00Z ChargePeriodEnd=2026-03-05T02:00:00Z SkuId=SKU1
        BillingAccountId=111122223333 SubAccountId=444455556666
        ResourceId=arn:aws:ec2:us-east-1:444455556666:instance/i-0123456789abcdef0"""),
    "in_focus": FOCUS_USAGE
    | words(f"""ProviderName=Microsoft BillingAccountId=/providers/4711 SubAccountId={azure.SUB} ResourceId={azure.SET}
        ChargePeriodStart=2026-03-05T00:00:00Z ChargePeriodEnd=2026-03-06T00:00:00Z ConsumedQuantity=24""")
    | {"x_SkuDetails": json.dumps(azure.INFO)},
}


def rows_for(text: str) -> Rows:
    """The rows of a file: names of FILES, of ROWS or of line items with changes, joined by "+"."""
    rows: Rows = []
    for part in text.strip().split(" + "):
        name, _, changed = part.partition(" ")
        if name in FILES:
            rows += FILES[name]
        elif name in ROWS:
            rows.append(ROWS[name] | words(changed))
        elif name == "daily":
            day, _, changed = changed.partition(" ")
            times = (
                f"UsageStartDate=2026-03-0{day}T00:00:00Z UsageEndDate=2026-03-{int(day) + 1:02}T00:00:00Z"
            )
            rows.append(item(f"machine identity/LineItemId=D{day} {times} amount=6 cost=196.62 {changed}"))
        elif name in ("core", "gpu", "standard"):
            rows.append(gcp.table_row(part.replace("standard", "core")))
            if name == "standard":
                del rows[-1]["resource"]
        else:
            rows += rows_of(part)
    return rows


#: Files loaded first and second; the error for the second, if any; and the billed cost afterwards.
CASES = titled("""
= aws
# an hourly and a daily CUR, and others
line 0-5    | daily 5  | 2026-03-05: 196.62 and 196.62 USD | 196.62
daily 5     | line 0-3 | 2026-03-05: 131.08 and 196.62 USD | 196.62
line 0-5    | line 0-5 identity/LineItemId=N{n} id= | 2026-03-05: 196.62 and 196.62 USD | 196.62
daily 5 id= | line 0-5 | 2026-03-05: 196.62 and 196.62 USD | 196.62
daily 4 + daily 5 + daily 6 | line 0-5 + daily 9 | 2026-03-05: 196.62 and 196.62 USD | 589.86
line 0-5    | line 0-5 resourceTags/user:team=a | | 196.62
line 0-3    | line 0-5 | | 196.62
line 0-1    | line 2-5 | | 196.62
daily 4     | daily 5  | | 393.24
daily 5 id= | line 3 identity/LineItemId=W id= zone=us-west-2a | | 229.39
line 0-5    | line 0-5 PayerAccountId=OTHER account=OTHER id=i-0ddd | | 393.24
line 0-5    | line 0-5 identity/LineItemId=N{n} id= account=OTHER | | 393.24
line 0-5    | daily 5 account=OTHER | | 393.24
line 0-5    | daily 6 + daily 7 + line 1 identity/LineItemId=Z Operation=late cost=0.5 | | 590.36
line 0-5    | line 1 identity/LineItemId=C item=Credit cost=-50 | | 146.62
line 0-5    | line 1 identity/LineItemId=M product=abcmarketplace usage=SoftwareUsage:p4d.24xlarge cost=9 | | 205.62
line 0-5    | line 1 identity/LineItemId=M product=abc cost=9 | | 205.62
= focus
# of the same machine, without resources, of another account, another day, another machine, and a correction
line 0-5 | focus                         | 2026-03-05: 4.00 and 196.62 USD | 196.62
line 0-5 | focus ResourceId=             | 2026-03-05: 4.00 and 196.62 USD | 196.62
line 0-5 | focus SubAccountId=999988887777 | | 200.62
line 0-5 | focus ChargePeriodStart=2026-03-06T10:00:00Z ChargePeriodEnd=2026-03-06T11:00:00Z | | 200.62
line 0-5 | focus ResourceId=i-0fff       | | 200.62
line 0-5 | focus ChargeClass=Correction  | | 200.62
= azure
# an export, answers of the query API, FOCUS; at the end a machine billed for 48 hours, and a scale set of many machines
answers   | vm + disk | 2026-03-05: 176.30 and 176.30 USD | 176.304
vm        | answer    | 2026-03-05: 88.15 and 88.15 USD   | 88.152
vm + disk | services  | 2026-03-05: 150.00 and 176.30 USD | 176.304
vm        | in_focus  | 2026-03-05: 4.00 and 88.15 USD    | 88.152
in_focus  | vm        | 2026-03-05: 88.15 and 4.00 USD    | 4
vm        | in_focus SubAccountId=/subscriptions/0 ResourceId=/subscriptions/0/vm | | 92.152
vm BillingPeriodStartDate=02/15/2026 | vm | 2026-03-05: 88.15 and 88.15 USD | 88.152
vm        | vm Tags='{"aks-managed-poolName": "gpu", "team": "a"}' | | 88.152
vm        | vm CostInBillingCurrency=80 | | 80
actual    | amortized | | 453
amortized | actual    | | 453
vm        | vm MeterId=m-2 | virtualmachines/3 is billed for 48.0 hours a day, 2026-03-05: 176.30 USD | 88.152
vm Date=03/01/2026 | vm AdditionalInfo= Quantity=480 | | 176.304
= gcp
# the standard export, the detailed one, one more label, other SKUs, another project, a promotion
standard + standard hour=1 | core + core hour=1 | 2026-03-05: 0.72 and 0.72 USD | 0.72
core + core hour=1 | standard + standard hour=1 | 2026-03-05: 0.72 and 0.72 USD | 0.72
core + core hour=1 | core labels=[] + core hour=1 labels=[] | 2026-03-05: 0.72 and 0.72 USD | 0.72
standard + standard hour=1 | gpu cost=0.5 resource= | | 1.22
core + core hour=1 | standard project='{"id": "Other"}' + standard hour=1 project='{"id": "Other"}' | | 1.44
core + core hour=1 | core cost=-0.1 cost_type=adjustment | | 0.62""")
COMMANDS = {"focus": ("aws", None), "gcp": ("gcp", "gcp"), "azure": ("azure", "azure"), "aws": ("aws", "aws")}


def _text(rows: Rows, number: int) -> str:
    """The rows as a file without shared identifiers: CSV, or JSON lines for nested rows."""
    accounts = r"(11111111-aaaa-bbbb-cccc-000000000|01AAAA-BBBBBB-|\b4)(001|CCCCCC|711)\b"
    text = re.sub(accounts, rf"\g<1>{number + 100}", text_of(rows).replace("ML-Proj", f"ml-{number}"))
    return own_text(text, number)


def _load(bills: Bills, kind: str, step: int) -> list[str]:
    """Load the first or second files of all cases; return the errors.

    AWS rows are in one file.
    """
    files = [rows_for(line.split(" | ")[step]) for line in CASES[kind].strip().splitlines()]
    together: Rows = []
    for number, rows in enumerate(files):
        if kind in ("aws", "focus"):
            together += own_rows(rows, number)
        else:
            text = _text(rows, number)
            bills.write(f"{step}/{number:03}.{'json' if text[0] == '{' else 'csv'}", text)
    if together:
        bills.write(f"{step}/all.csv", csv_text(together))
    run = bills.load(bills.directory / str(step), provider=COMMANDS[kind][step])
    return [error.message for error in run.errors]


@pytest.mark.parametrize("kind", CASES)
def test_money_in_both_is_refused_and_the_rest_is_added(bills: Bills, kind: str) -> None:
    assert not _load(bills, kind, 0)
    messages = "; ".join(_load(bills, kind, 1)).split("; ")
    sums: dict[str, Decimal] = {}
    for charge in bills.charges():
        number = charge["source_file"].rpartition("/")[2][:3]
        number = charge["billing_account_id"][-3:] if number == "all" else number
        sums[number] = sums.get(number, Decimal(0)) + charge["billed_cost"]
    refused = []
    for number, line in enumerate(CASES[kind].strip().splitlines()):
        *_, message, billed = line.split("|")
        assert float(sums[f"{number:03}"]) == pytest.approx(float(billed)), line
        refused += [message.strip()] if message.strip() else []
    assert [bool(text) for text in messages] == [True] * len(refused), messages
    for message in set(refused):
        assert sum(message in text for text in messages) == refused.count(message), (message, messages)


@pytest.mark.parametrize(
    ("provider", "files", "message"),
    [
        ("aws", ("line 0-5", "daily 5"), "2026-03-05: 196.62 and 196.62 USD"),
        ("gcp", ("core cost=0.3 + core cost=0.1 hour=1", "core cost=0.06 + core cost=0.2 hour=1"), ""),
    ],
    ids=["hourly and daily", "two parts of an hour"],
)
def test_files_of_one_load_are_two_exports_or_parts_of_one(
    bills: Bills, provider: str, files: tuple[str, str], message: str
) -> None:
    for number, rows in enumerate(files):
        bills.write(f"d/{number}.{'csv' if provider == 'aws' else 'json'}", _text(rows_for(rows), 0))
    run = bills.load(bills.directory / "d", provider=provider)
    doubled = [error.message.partition("are billed twice, ")[2] for error in run.errors]
    assert doubled == ([message] if message else []) and bills.store.exists == (not message)


def _warned(bills: Bills) -> list[tuple[object, ...]]:
    pipeline.attribute(Config(), bills.store)
    return bills.store.query(
        "SELECT subject, message, fix FROM warnings WHERE code = 'billed_twice' ORDER BY ALL"
    )[1]


def test_store_with_two_views_of_a_month_reports_it_until_one_replaces_the_other(
    bills: Bills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store left by earlier versions, with a machine that one export bills for 48 hours of a day."""
    run = bills.load(bills.write("cost.csv", csv_text(rows_for("vm + vm MeterId=m-2"))), provider="azure")
    [finding] = run.findings
    assert not run.errors and finding.code == "billed_twice"
    assert finding.message.endswith(
        "virtualmachines/3 is billed for 48.0 hours a day, 2026-03-05: 176.30 USD"
    )
    loads = {"hourly": "line 0-5", "daily": "daily 5 + daily 6"}
    files = [bills.write(f"{name}.csv", csv_text(rows_for(rows))) for name, rows in loads.items()]
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


def test_file_with_new_charge_names_replaces_itself(bills: Bills) -> None:
    path = bills.write("cost.csv", csv_text([VM]))
    assert not bills.load(path, provider="azure").errors
    with bills.store.write() as con:
        con.execute("UPDATE bill_lines SET charge_key = 1; UPDATE bills SET digest = 'of other rules'")
    (result,) = bills.load(path, provider="azure").results
    assert result.verdict == "replace" and [row[2] for row in bills.sums()] == [1]
