"""Ambiguous or unreadable texts of bills are refused and named."""

from __future__ import annotations

import pytest

from tests.text_tables import text_rows
from tests.unit.bills import Bills, csv_text, item, own_rows, usage
from tests.unit.test_bill_texts import row_of

#: Rows of files that settle nothing, and the ambiguous text.
AMBIGUOUS = text_rows("""
aws day=3/5/26 | 3/5/26 10:00
aws day=3/4/26; aws day=3/5/26; aws day=3/6/26; aws day=13/3/26 | 13/3/26 10:00
aws day=3/15/26; aws day=15/3/26 | 15/3/26 10:00
aws cost=1,234 | 1,234 1
aws cost=12,34; aws hour=11 cost=12.5 | 12,34 1
azure BillingPeriodStartDate= BillingPeriodEndDate= | 03/05/2026""")
AGE = "UsageStartDate={0}-03-05T10:00:00Z UsageEndDate={0}-03-05T11:00:00Z"
#: Changes to a file's second row, and the error.
UNREADABLE = text_rows(f"""
year 0026 | {AGE.format("0026")} | the start of the charge
year 1926 | {AGE.format("1926")} | the start of the charge
year 2226 | {AGE.format("2226")} | the start of the charge
a period in another century | BillingPeriodStartDate=0026-03-01T00:00:00Z | the billing period
an end in another century | UsageEndDate=9999-12-31T00:00:00Z | the end of the charge is empty or cannot be read
an end before its start | UsageEndDate=2026-03-05T09:00:00Z | the end of the charge is before its start
a refund with an end before its start | UsageEndDate=2026-03-05T09:00:00Z cost=-1 | the end of the charge is before its start
no start at cost 0 | UsageStartDate= cost=0 | the start of the charge is empty
a missing currency | CurrencyCode= | the currency is empty or cannot be read
text as a cost | cost=n/a | the billed cost is empty or cannot be read
hours below 0 that cost | amount=-1 | the cost of hours below 0""")


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_ambiguous_file_is_refused(bills: Bills, provider: str) -> None:
    cases = {table: text for table, text in AMBIGUOUS if table.startswith(f"{provider} ")}
    files = {table: csv_text([row_of(line) for line in table.split(";")]) for table in cases}
    for table, message in bills.refusals(files, provider).items():
        assert f": {cases[table]} is ambiguous" in message, table


#: Errors found by one condition each; next to other bad files they would not show.
ALONE = ("an end before its start", "an end in another century", "hours below 0 that cost")


@pytest.mark.parametrize("alone", ["", *ALONE], ids=["all", *ALONE])
def test_unreadable_row_is_refused(bills: Bills, alone: str) -> None:
    files, wrong = {}, {}
    for number, (name, changed, wrong[name]) in enumerate(UNREADABLE):
        if alone in (name, ""):
            files[name] = csv_text(own_rows([usage(), item(f"machine {changed}")], number))
    for name, message in bills.refusals(files).items():
        assert message.startswith(f"row 2: {wrong[name]}"), name


def test_row_without_an_account_is_refused_in_a_file_with_several_accounts(bills: Bills) -> None:
    rows = [usage(), item("machine hour=11 PayerAccountId="), item("machine hour=12 PayerAccountId=OTHER")]
    assert "some rows have no billing account" in bills.refusals({"several": csv_text(rows)})["several"]
