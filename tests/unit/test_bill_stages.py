"""Sums of the rows written by reading bills in each format, and by pricing nodes from one bill."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpucost.collect.bill import formats
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.store.connection import Store
from tests.fleets.test_fleets import STAGES
from tests.frozen.test_answers import check
from tests.profiles import listed, profile
from tests.replay.billing import by_day, charges
from tests.unit.test_price_bill_fleets import FORMATS, Billed, machines, rate


@pytest.mark.ci
def test_bills_of_each_format_give_the_recorded_rows(tmp_path: Path) -> None:
    found = {}
    for name, (kind, file, provider, writer) in FORMATS.items():
        billed_charges = list(charges(machines(kind), rate, booting=450))
        (tmp_path / file).write_text(writer(by_day(billed_charges) if name == "azure" else billed_charges))
        store = Store(tmp_path / f"{name}.duckdb")
        assert not collect_bills(store, [LocalTree(tmp_path / file)], provider).errors
        with store.read() as con:
            found[name] = [f"{table} {profile(con, table)}" for table in ("bill_lines", "bill_details")]
    check(listed(found), STAGES / "bill-formats.txt")


def test_stages_price_a_billed_fleet_with_the_recorded_rows(billed_fleet: Billed) -> None:
    check(listed(billed_fleet.stages), STAGES / "billed.txt")


@pytest.mark.parametrize(
    "known", formats.all_formats(), ids=lambda known: f"{known.name}-{known.required.split()[-1]}"
)
def test_columns_parsed_as_times_and_numbers_are_declared(known: formats.Format) -> None:
    text = "".join(map(formats.sql_text, known.sql.split()))
    number = r"(?:bill_decimal|TRY_CAST)\((?:raw\.)?(\w+)(?: AS (?:DECIMAL|DOUBLE)[^:]*?)?\)"
    time = r"(?:bill_moment|azure_day)\((?:raw\.)?\"?(\w+)\"?\)"
    numbers, times = (set(re.findall(form, text)) & known.columns.keys() for form in (number, time))
    others = {"product", "tags", "x_cost_categories", "start_time", "end_time"}
    assert numbers - others <= set(known.numbers.split())
    if known.name not in ("anthropic", "anthropic-console", "oci", "oci-focus"):
        assert times <= set(known.times)
