"""Rows of billing exports: each charge once, in its currency, with all details of its export."""

from __future__ import annotations

import duckdb
import pytest
from pydantic import ValidationError

from gpucost.collect.bill.load import BillRun
from gpucost.config.model import Bills as BillSettings
from gpucost.store.schema import _migrations
from tests.text_tables import text_rows
from tests.unit import test_bill_azure as azure
from tests.unit.bills import Bills, csv_text, item, own_rows, own_text, usage
from tests.unit.test_bill_load import report, rows_of

LINES = rows_of("line 0-5")


def repeated(run: BillRun) -> list[str]:
    assert not run.errors, run.errors
    return [finding.message for finding in run.findings if finding.code == "repeated_rows"]


#: Rows of a file, and the number of charges.
ROWS = text_rows("""
twice | line 0-5; line 1-2; line 1 | 6
another interval | line 0; line 1 identity/LineItemId=id0 | 2
a correction | line 0; line 0 cost=-2 | 2
a column that is not read | line 0; line 0 lineItem/BlendedCost=2 | 2
another id | line 0; line 0 identity/LineItemId=other | 2
without ids | line 0 identity/LineItemId=; line 0 identity/LineItemId=; machine 1; machine 1 | 4
in a column that is not read \
| one 0-10; one 0 lineItem/LegalEntity="AWS EMEA"; one 0; one 0 lineItem/LegalEntity="AWS EMEA"; one 1 | 12""")


def test_identical_rows_are_one_charge_and_rows_that_differ_in_a_column_are_two(bills: Bills) -> None:
    rows: list[dict[str, str]] = []
    for number, (_, lines, _) in enumerate(ROWS):
        rows += own_rows(rows_of(*lines.split(";")), number)
    run = bills.load(bills.write("d/a.csv", csv_text(rows)))
    what = "charges of these files, equal in every column that is read: each charge counts once"
    assert repeated(run) == [f"6 rows repeat {what}"]
    sums = {row[0]: row[2] for row in bills.sums()}
    for number, (name, _, count) in enumerate(ROWS):
        assert sums[f"aws/{own_text('111122223333', number)}"] == int(count), name
    own = own_text("111122223333", 0)
    ids = {charge["line_item_id"] for charge in bills.charges() if charge["billing_account_id"] == own}
    assert ids == {f"id{hour}" for hour in range(6)}
    # Another file with the same two charges has both in common with it.
    number = len(ROWS) - 1
    again = rows_of("two 0-9", "one 0", 'one 0 lineItem/LegalEntity="AWS EMEA"')
    run = bills.load(bills.write("d/b.csv", csv_text(own_rows(again, number))))
    assert repeated(run)[0].startswith("2 rows repeat charges")
    assert {row[0]: row[2] for row in bills.sums()}[f"aws/{own_text('111122223333', number)}"] == 22


def test_files_of_a_manifest_count_a_row_once(bills: Bills) -> None:
    bucket = report(bills, "one", one=[*LINES[:3], *LINES[2:]])
    assert len(repeated(bills.load(bucket))) == 1 and bills.sums()[0][2] == 6


def test_row_without_a_currency_is_refused_or_has_the_configured_one(bills: Bills) -> None:
    path = bills.write("f.csv", csv_text([usage(1), item("machine hour=2 CurrencyCode=")]))
    (error,) = bills.load(path).errors
    assert error.message == f"{path}, row 2: the currency is empty or cannot be read"
    assert 'currency = "USD" (for example) in [bills] of gpucost.toml' in (error.fix or "")
    assert not bills.store.exists
    # another currency reads the file again
    for currency, verdict in (("EUR", "beside"), ("EUR", "unchanged"), ("GBP", "replace")):
        assert [result.verdict for result in bills.load(path, currency=currency).results] == [verdict]
        assert [charge["billing_currency"] for charge in bills.charges()] == ["USD", currency]
    with pytest.raises(ValidationError):
        BillSettings(currency="euro")


def test_file_without_charges_fails_if_named_and_is_listed_in_a_directory(bills: Bills) -> None:
    empty = bills.write("d/empty.csv", csv_text(LINES).splitlines()[0] + "\n")
    run = bills.load(empty, bills.write("d/good.csv", csv_text(LINES)))
    assert [error.message for error in run.errors] == [f"{empty} has a header, but no charges"]
    assert bills.sums()[0][2] == 6
    run = bills.load(bills.directory / "d")
    messages = [finding.message for finding in run.findings]
    assert not run.errors and f"{empty} has a header, but no charges; not loaded" in messages


def test_named_file_superseded_by_another_fails(bills: Bills) -> None:
    final = bills.write("final.csv", csv_text(rows_of("line 0-5 InvoiceId=1")))
    early = bills.write("early.csv", csv_text(LINES[:4]))
    (error,) = bills.load(early, final).errors
    assert error.message == f"{early} does not count: {final} is a newer version of the same bill"


def test_machines_have_the_names_of_their_export(bills: Bills) -> None:
    """Ids in Azure's case, and the name of a Google instance whose id is a number."""
    vm = f"{azure.SUB}/resourceGroups/Rg-ML/providers/Microsoft.Compute/virtualMachines/GPU-Node-1"
    azure.load(bills, [azure.row(ResourceId=vm, AdditionalInfo=""), azure.row()])
    names = bills.store.query("SELECT machine_name(instance_key, resource_id) FROM charges ORDER BY 1")[1]
    assert names == [(f"{azure.SET}/virtualmachines/3",), (vm,)]
    others = "SELECT machine_name('i-1', NULL), machine_name('p/z/name', '//compute/instances/4711')"
    assert bills.store.query(others)[1] == [("i-1", "p/z/name")]


def test_rows_of_an_older_store_stay_after_the_split_into_tables() -> None:
    rows = (
        "INSERT INTO bill_rows BY NAME SELECT bill AS bill_id, place AS charge_key, place::DECIMAL(38, 12) AS billed_cost,"
        " place / 3 AS effective_cost, 'Usage' AS charge_category, 'USD' AS billing_currency, MAP {'team': name} AS tags,"
        " 'instance' AS kind, 'same' AS cost_cause, 'f.csv' AS source_file, place AS source_row,"
        " TIMESTAMP '2026-03-01' AS charge_period_start, TIMESTAMP '2026-03-02' AS charge_period_end"
        " FROM (VALUES (1, 'a'), (2, 'a'), (3, NULL), (3, NULL), (4, 'b')) AS t(place, name), (VALUES (1), (2)) AS b(bill)"
    )
    with duckdb.connect(":memory:") as con:
        for number, _, statements in _migrations():
            if number == 14:
                con.execute(rows)
                con.execute("CREATE TABLE before AS FROM bill_rows")
            con.execute(statements)
        assert not con.execute("FROM before EXCEPT ALL FROM bill_rows").fetchall()
        assert con.execute("SELECT count(*) FROM bill_rows").fetchall() == [(10,)]
        assert con.execute("SELECT count(*) FROM bill_details").fetchall() == [(6,)]
