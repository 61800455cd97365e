"""Small billing exports for tests, in the formats that the clouds deliver, loaded as a user loads them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from duckdb import DuckDBPyConnection

from gpucost.collect.bill import load
from gpucost.collect.bill.formats import Format
from gpucost.collect.bill.load import BillRun, collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.errors import DataError
from gpucost.store.charges import BillFiles, write_details
from gpucost.store.connection import Store
from tests.text_tables import columns, words

Row = dict[str, str]
Rows = Sequence[Mapping[str, Any]]
Charge = dict[str, Any]

USAGE = words("""
    bill/BillingPeriodStartDate=2026-03-01T00:00:00Z bill/PayerAccountId=111122223333 bill/InvoiceId=
    lineItem/LineItemType=Usage lineItem/UsageStartDate=2026-03-05T10:00:00Z lineItem/UsageEndDate=2026-03-05T11:00:00Z
    lineItem/UsageAccountId=444455556666 lineItem/ProductCode=AmazonEC2 lineItem/UsageType=BoxUsage:p4d.24xlarge
    lineItem/Operation=RunInstances lineItem/AvailabilityZone=us-east-1a lineItem/ResourceId=i-0123456789abcdef0
    lineItem/UsageAmount=1 lineItem/CurrencyCode=USD lineItem/UnblendedCost=32.77
    lineItem/LineItemDescription="$32.77 per On Demand Linux p4d.24xlarge Instance Hour" pricing/unit=Hrs""")

FOCUS_USAGE = words("""
    BilledCost=4.00 EffectiveCost=4.00 ListCost=4.00 BillingAccountId=acct-1 BillingCurrency=USD
    BillingPeriodStart=2026-03-01T00:00:00Z BillingPeriodEnd=2026-04-01T00:00:00Z ChargeCategory=Usage
    ChargeDescription="GPU machine" ChargePeriodStart=2026-03-05T10:00:00Z ChargePeriodEnd=2026-03-05T11:00:00Z
    ConsumedQuantity=1 ConsumedUnit=Hours ProviderName="Nimbus GPU Cloud" ResourceId=vm-1 ResourceType="Virtual Machine"
    ServiceName="GPU machines" ServiceCategory=Compute""")


def usage(hour: int = 10, /, **changed: str) -> Row:
    """A CUR row of one instance-hour; keywords are column names after the slash."""
    row = USAGE | {
        "lineItem/UsageStartDate": f"2026-03-05T{hour:02}:00:00Z",
        "lineItem/UsageEndDate": f"2026-03-05T{hour + 1:02}:00:00Z",
    }
    for name, value in changed.items():
        row[next((column for column in row if column.rpartition("/")[2] == name), name)] = value
    return row


#: Short names of CUR columns in tables, and of accounts and ARNs in them.
COLUMNS = words("""
    item=LineItemType cost=UnblendedCost net=lineItem/NetUnblendedCost usage=UsageType id=ResourceId product=ProductCode
    account=UsageAccountId amount=UsageAmount zone=AvailabilityZone description=LineItemDescription
    plan=savingsPlan/SavingsPlanARN plan_cost=savingsPlan/SavingsPlanEffectiveCost committed=savingsPlan/TotalCommitmentToDate
    net_plan_cost=savingsPlan/NetSavingsPlanEffectiveCost used=savingsPlan/UsedCommitment
    reservation=reservation/ReservationARN reserved_cost=reservation/EffectiveCost unused_fee=reservation/UnusedRecurringFee
    net_reserved_cost=reservation/NetEffectiveCost net_unused_fee=reservation/NetUnusedRecurringFee
    unused_upfront=reservation/UnusedAmortizedUpfrontFeeForBillingPeriod capacity=capacityReservation/CapacityReservationArn
    capacity_type=capacityReservation/CapacityReservationType""")
NAMES = words("""
    HOST=arn:aws:ec2:us-east-2:444455556666:dedicated-host/h-1 OTHER_HOST=arn:aws:ec2:us-east-2:444455556666:dedicated-host/h-2
    PAYER=111122223333 OTHER=999988887777
    PLAN=arn:aws:savingsplans::111122223333:savingsplan/aaaa
    RESERVATION=arn:aws:ec2:us-east-1:111122223333:reserved-instances/bbbb
    BLOCK=arn:aws:ec2:us-east-1:444455556666:capacity-reservation/cr-0aaa
    CAPACITY=arn:aws:ec2:us-east-1:444455556666:capacity-reservation/cr-0bbb""")
#: Line items by the first word of a table row.
ITEMS = columns("""
    machine
    p5 usage=BoxUsage:p5.48xlarge
    covered item=SavingsPlanCoveredUsage plan=PLAN
    negation item=SavingsPlanNegation cost=-32.77 id= plan=PLAN
    plan_upfront item=SavingsPlanUpfrontFee cost=1000 usage=ComputeSP:1yrAllUpfront id=PLAN
    plan_fee item=SavingsPlanRecurringFee product=ComputeSavingsPlans usage=ComputeSP:1yrNoUpfront account=PAYER id=PLAN plan=PLAN
    plan_refund item=Refund usage=ComputeSP:1yrAllUpfront id=PLAN
    reserved item=DiscountedUsage cost=0 reservation=RESERVATION
    reserved_upfront item=Fee usage=HeavyUsage:p4d.24xlarge id= reservation=RESERVATION
    reserved_fee item=RIFee usage=HeavyUsage:p4d.24xlarge id= reservation=RESERVATION
    reserved_refund item=Refund usage=HeavyUsage:p4d.24xlarge id= reservation=RESERVATION
    edp item=EdpDiscount id=
    block hour=0 item=Fee usage=USE1-CapacityBlock:p5.48xlarge id=BLOCK cost=100 amount= unit=
    in_block usage=BoxUsage:p5.48xlarge cost=0 capacity=BLOCK
    host usage=USE2-HostUsage:g4dn cost=8 id=HOST
    on_host usage=USE2-HostBoxUsage:g4dn.metal cost=0 id=i-0aa
    traffic usage=USE1-DataTransfer-Out-Bytes unit=GB
    volume usage=EBS:VolumeUsage.gp3 unit=GB-Mo id=vol-1""")


def item(text: str, kinds: Row = ITEMS) -> Row:
    """A CUR row from a word of `kinds` and its changed columns."""
    kind, _, changed = text.strip().partition(" ")
    row = words(kinds[kind]) | words(changed)
    hour = int(row.pop("hour", "10"))
    return usage(hour, **{COLUMNS.get(name, name): NAMES.get(value, value) for name, value in row.items()})


#: Short names of charge columns in tables.
SHORT = words("""
    period=billing_period start=charge_period_start billed=billed_cost effective=effective_cost cause=cost_cause
    hours=instance_hours machine=instance_key""")


def scene(text: str, row: Callable[[str], Any] = item) -> tuple[list[Any], list[Row]]:
    """Rows of a file and the expected charges, from a table.

    Each line contains the words of a row, a bar and the words of its charge. A line that begins with a blank
    continues the previous one.
    """
    lines = halves(text)
    return [row(left) for left, _ in lines], [words(right) for _, right in lines]


def halves(text: str) -> list[tuple[str, str]]:
    """Each line of such a table: the words of the row, and the words of its charge."""
    lines = (line.partition(" | ") for line in text.strip().replace("\n ", " ").splitlines())
    return [(left, right) for left, _, right in lines]


def as_text(value: Any) -> str:
    """A charge's value as tables write it; "-" is null."""
    if isinstance(value, Decimal):
        return f"{(value + 0).normalize():f}"
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, datetime):
        return value.isoformat()
    return "-" if value is None else str(value).removesuffix(".0")


def check_scene(charges: Rows, expected: Rows) -> None:
    """Check that the charges match the table's rows, with no others."""
    found = [
        {name: as_text(charge[SHORT.get(name, name)]) for name in columns}
        for columns, charge in zip(expected, charges, strict=True)
    ]
    assert found == expected, found


def own_text(text: str, number: int) -> str:
    """The text with AWS accounts, machines (i-0aaa, j-1) and capacity reservations (cr-0aaa) renamed for
    one case."""
    text = re.sub(r"(111122223|444455556|999988887)\d{3}", rf"\g<1>{number:03}", text)
    return re.sub(r"\b(i-[0-9a-f]+|j-\d+|cr-0[a-f]{3})\b", rf"\g<0>{number:03x}", text)


def own_rows(rows: Rows, number: int) -> list[Row]:
    """CUR rows of a case, renamed to share no identifier with other cases."""
    return [{column: own_text(value, number) for column, value in row.items()} for row in rows]


def csv_text(rows: Rows) -> str:
    """The rows as CSV, with the columns of all of them."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def text_of(rows: Rows) -> str:
    """Rows as CSV, or as JSON lines if they contain records."""
    if any(isinstance(value, dict) for value in rows[0].values()):
        return "".join(json.dumps(row) + "\n" for row in rows)
    return csv_text(rows)


def parquet(rows: Rows, **columns: Any) -> bytes:
    """Rows as Parquet; `columns` replace columns to give them other types."""
    import pyarrow as pa  # slow to import
    from pyarrow.parquet import write_table

    table = pa.Table.from_pylist(list(rows))
    for name, values in columns.items():
        others = [column for column in table.column_names if column != name]
        table = table.select(others).append_column(name, values)
    out = io.BytesIO()
    write_table(table, out)
    return out.getvalue()


def snake(rows: Rows) -> list[Row]:
    """The same rows with the column names of CUR 2.0."""
    return [{_snake(name): value for name, value in row.items()} for row in rows]


def _snake(name: str) -> str:
    letters = [("_" + letter.lower() if letter.isupper() else letter) for letter in name.replace("/", "_")]
    return "".join(letters).replace("__", "_").lstrip("_")


# Stored rows that differ from the mapped ones in any column, and the difference of their counts.
_STORED = "SELECT * EXCLUDE (bill_id) FROM incoming"
# Rows without an account belong to the only account of their file.
_MAPPED = """SELECT provider, billing_period, * EXCLUDE (provider, billing_period, is_invoiced, issuer, label_digest)
    REPLACE (CASE WHEN count(DISTINCT billing_account_id) OVER file = 1 THEN max(billing_account_id) OVER file
        ELSE billing_account_id END AS billing_account_id)
FROM charges_read
WINDOW file AS (PARTITION BY source_file, provider)"""
_OTHERWISE = f"""WITH mapped AS MATERIALIZED ({_MAPPED}), otherwise AS ({_STORED} EXCEPT ALL FROM mapped)
SELECT (SELECT count(*) FROM mapped) - (SELECT count(*) FROM incoming), (SELECT count(*) FROM otherwise)"""  # noqa: S608


def _as_mapped(con: DuckDBPyConnection, files: BillFiles) -> bool:
    """Write the rest of a load, and compare each stored row with the mapping of that row alone."""
    is_complete = write_details(con, files)
    if is_complete:
        con.execute("CREATE OR REPLACE TEMP VIEW raw AS FROM raw_rows")
        assert con.execute(_OTHERWISE).fetchall() == [(0, 0)]
    return is_complete


class Bills:
    """A store in `directory`, into which files are loaded.

    If `is_checked`, each load compares the stored rows with the result of mapping each row alone.
    """

    def __init__(self, directory: Path, *, is_checked: bool = True) -> None:
        self.directory = directory
        self.is_checked = is_checked
        self.store = Store(directory / "store.duckdb")

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def load(
        self, *paths: Path, provider: str | None = "aws", force: bool = False, currency: str | None = None
    ) -> BillRun:
        trees = [LocalTree(path) for path in paths]
        with patch("gpucost.store.charges.write_details", _as_mapped if self.is_checked else write_details):
            return collect_bills(self.store, trees, provider, currency=currency, force=force)

    def loaded(self, *paths: Path, **options: Any) -> BillRun:
        """Load files that must all be accepted."""
        run = self.load(*paths, **options)
        assert not run.errors, run.errors
        return run

    def take(self, content: Rows | str | bytes, name: str = "a.csv", **options: Any) -> BillRun:
        """Load one file, given as content or rows; it must be accepted."""
        text = content if isinstance(content, str | bytes) else text_of(content)
        return self.loaded(self.write(name, text), **options)

    def cases(
        self, files: Mapping[str, str | bytes], **options: Any
    ) -> tuple[BillRun, dict[str, list[Charge]]]:
        """Load one file per case in one run; return the charges of each."""
        paths = {
            self.write(f"{number:03}.csv", text): name for number, (name, text) in enumerate(files.items())
        }
        run, charges = self.loaded(*paths, **options), {name: list[Charge]() for name in files}
        for charge in self.charges():
            charges[paths[Path(charge["source_file"])]].append(charge)
        return run, charges

    def refusals(self, contents: Mapping[str, str | bytes], provider: str | None = "aws") -> Row:
        """The error for each file, with all of them loaded in one run.

        For bad rows, the first bad row of the file.
        """
        paths = {
            str(self.write(f"{number:03}.csv", text)): name
            for number, (name, text) in enumerate(contents.items())
        }
        bad_rows: dict[str, str] = {}
        unread = load._unread

        def unread_in_each(con: DuckDBPyConnection, known: Format) -> DataError:
            for file, row, what in con.execute(load._UNREAD.removesuffix("LIMIT 1")).fetchall():
                bad_rows.setdefault(file, f"row {row}: {what}")
            return unread(con, known)

        with patch.object(load, "_unread", unread_in_each):
            errors = self.load(*map(Path, paths), provider=provider).errors
        assert errors and all(error.fix for error in errors), errors
        assert not self.store.exists
        messages = [error.message for error in errors]
        return {
            name: bad_rows.get(path)
            or "; ".join(message for message in messages if path in message or len(paths) == 1)
            for path, name in paths.items()
        }

    def aws(self, rows: Rows, name: str = "cur.csv") -> list[Charge]:
        """Load CUR rows that must be accepted; return all charges."""
        self.take(rows, name)
        return self.charges()

    def charges(self) -> list[Charge]:
        columns, rows = self.store.query("FROM charges ORDER BY source_file, source_row")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def sums(self) -> list[tuple[Any, ...]]:
        """(rows, billed, effective) by source and period."""
        return self.store.query(
            "SELECT source, billing_period, count(*), sum(billed_cost)::DOUBLE, sum(effective_cost)::DOUBLE FROM charges "
            "GROUP BY ALL ORDER BY ALL"
        )[1]
