# ruff: noqa: E501  (a column of the report per line)
"""Loading a Cost and Usage Report compared with DuckDB's own typed read of the same columns, each in its own process.

The targets are ratios of CPU seconds: a first load over that read into a table of another file with DuckDB's defaults; a load
of an unchanged file over the first. GPUCOST_BENCH_ROWS sets the rows of the report (default: 5 million).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import duckdb
import pytest

from gpucost.collect.bill.aws import CUR
from gpucost.collect.bill.formats import locate
from tests.bench.measured import Page, run
from tests.text_tables import columns

pytestmark = pytest.mark.bench

ROWS = int(os.environ.get("GPUCOST_BENCH_ROWS", "5000000"))
FIRST, UNCHANGED, PEAK_MB = 1.6, 0.02, 1000
HOUR = "(TIMESTAMP '2026-03-01' + to_hours((i // 8000)::INTEGER % 744))"
# Machines by the hour, on demand, covered by a plan with its negation, reserved; volumes and traffic.
KIND = "[0, 0, 0, 1, 2, 3, 4, 5][i % 8 + 1]"
# Columns of a legacy report as SQL over the row number i. Fields without a value are blank.
COLUMNS = columns(f"""
    identity/LineItemId  md5(i::VARCHAR)
    identity/TimeInterval  strftime({HOUR}, '%Y-%m-%dT%H:%M:%SZ/') || strftime({HOUR} + INTERVAL 1 HOUR, '%Y-%m-%dT%H:%M:%SZ')
    bill/InvoiceId  NULL
    bill/BillingEntity  'AWS'
    bill/BillType  'Anniversary'
    bill/PayerAccountId  '111122223333'
    bill/BillingPeriodStartDate  '2026-03-01T00:00:00Z'
    bill/BillingPeriodEndDate  '2026-04-01T00:00:00Z'
    lineItem/UsageAccountId  '4444555566' || (i % 20 + 10)
    lineItem/LineItemType  ['Usage', 'SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'DiscountedUsage', 'Usage', 'Usage'][{KIND} + 1]
    lineItem/UsageStartDate  strftime({HOUR}, '%Y-%m-%dT%H:%M:%SZ')
    lineItem/UsageEndDate  strftime({HOUR} + INTERVAL 1 HOUR, '%Y-%m-%dT%H:%M:%SZ')
    lineItem/ProductCode  'AmazonEC2'
    lineItem/UsageType  ['BoxUsage:p5.48xlarge', 'BoxUsage:p4d.24xlarge', 'BoxUsage:p4d.24xlarge', 'BoxUsage:g5.12xlarge', 'EBS:VolumeUsage.gp3', 'USE1-USW2-AWS-Out-Bytes'][{KIND} + 1]
    lineItem/Operation  ['RunInstances', 'RunInstances', 'RunInstances', 'RunInstances', 'CreateVolume-Gp3', 'PublicIP-Out'][{KIND} + 1]
    lineItem/AvailabilityZone  CASE WHEN {KIND} < 4 THEN 'us-east-1' || ['a', 'b', 'c'][i % 3 + 1] END
    lineItem/ResourceId  CASE {KIND} WHEN 2 THEN NULL WHEN 4 THEN printf('vol-%017x', i % 8000) ELSE printf('i-%017x', i % 8000) END
    lineItem/UsageAmount  CASE WHEN {KIND} < 4 THEN '1.0000000000' ELSE (hash(i) % 1000000 / 1e6)::DECIMAL(12, 10)::VARCHAR END
    lineItem/CurrencyCode  'USD'
    lineItem/UnblendedRate  ['55.04', '21.957642', '21.957642', '5.672', '0.08', '0.02'][{KIND} + 1]
    lineItem/UnblendedCost  CASE WHEN {KIND} < 4 THEN ['55.0400000000', '21.9576420000', '-21.9576420000', '0.0000000000'][{KIND} + 1] ELSE (hash(i) % 1000000 / 2e7)::DECIMAL(12, 10)::VARCHAR END
    lineItem/LineItemDescription  ['$55.04 per On Demand Linux p5.48xlarge Instance Hour', 'Linux/UNIX p4d.24xlarge covered by Compute Savings Plans', 'SavingsPlanNegation used by AccountId and UsageSku', 'Linux/UNIX g5.12xlarge reserved instance applied', '$0.08 per GB-month of gp3 provisioned storage', '$0.02 per GB data transfer to US West'][{KIND} + 1]
    lineItem/TaxType  NULL
    product/ProductName  'Amazon Elastic Compute Cloud'
    product/instanceType  ['p5.48xlarge', 'p4d.24xlarge', NULL, 'g5.12xlarge', NULL, NULL][{KIND} + 1]
    product/productFamily  ['Compute Instance', 'Compute Instance', NULL, 'Compute Instance', 'Storage', 'Data Transfer'][{KIND} + 1]
    product/region  'us-east-1'
    product/sku  ['3K9RT4DUM7BZ2QXA', 'H7NGEAC6UEHNTKSJ', 'H7NGEAC6UEHNTKSJ', 'Q7G3BX2CZ5P9TNMY', 'HY3BZPP2B6K8MSJF', '2N3Y5T6U7V8W9X0Z'][{KIND} + 1]
    pricing/publicOnDemandCost  CASE WHEN {KIND} < 4 THEN ['55.04', '21.957642', '0', '5.672'][{KIND} + 1] ELSE (hash(i) % 1000000 / 2e7)::DECIMAL(12, 10)::VARCHAR END
    pricing/PurchaseOption  CASE {KIND} WHEN 3 THEN 'All Upfront' END
    pricing/term  ['OnDemand', 'OnDemand', NULL, 'Reserved', 'OnDemand', 'OnDemand'][{KIND} + 1]
    pricing/unit  ['Hrs', 'Hrs', 'Hrs', 'Hrs', 'GB-Mo', 'GB'][{KIND} + 1]
    reservation/ReservationARN  CASE {KIND} WHEN 3 THEN 'arn:aws:ec2:us-east-1:444455556666:reserved-instances/' || md5((i % 40)::VARCHAR) END
    reservation/EffectiveCost  CASE {KIND} WHEN 3 THEN '3.4032000000' END
    reservation/UnusedAmortizedUpfrontFeeForBillingPeriod  NULL
    reservation/UnusedRecurringFee  NULL
    savingsPlan/SavingsPlanARN  CASE WHEN {KIND} IN (1, 2) THEN 'arn:aws:savingsplans::111122223333:savingsplan/' || md5((i % 10)::VARCHAR) END
    savingsPlan/SavingsPlanEffectiveCost  CASE {KIND} WHEN 1 THEN '13.1800000000' END
    savingsPlan/TotalCommitmentToDate  NULL
    savingsPlan/UsedCommitment  NULL
    resourceTags/user:team  ['research', 'serving', NULL][i % 3 + 1]
    resourceTags/user:env  CASE WHEN i % 2 = 0 THEN 'prod' END
""")
# Unused columns of every report: a third filled, the others blank.
COLUMNS |= {f"product/filler{n}": f"'{n * 7919} of ' || i % 97" if n % 3 == 0 else "NULL" for n in range(60)}
TYPES = {"Date": "TIMESTAMPTZ"} | dict.fromkeys(("Cost", "Amount", "Commitment"), "DECIMAL(38, 12)")
# Typed columns as in gpucost; the rest is text in both.
PEER = """
import json, sys, duckdb
kind, source, target, header, wanted = *sys.argv[1:4], *map(json.loads, sys.argv[4:])
con = duckdb.connect(target)
con.execute("SET TimeZone = 'UTC'")
if kind == "csv":
    columns = {name: wanted.get(name, "VARCHAR") for name in header}
    con.read_csv(source, header=True, auto_detect=False, columns=columns).create_view("report")
else:
    con.read_parquet(source).create_view("report")
listed = ", ".join(f'"{name}"::{type} AS "{name}"' for name, type in wanted.items())
con.execute(f"CREATE TABLE charges AS SELECT {listed} FROM report")
con.close()
"""


def report(path: Path, rows: int) -> None:
    """Write the report as Parquet."""
    listed = ", ".join(f'({sql})::VARCHAR AS "{name}"' for name, sql in COLUMNS.items())
    duckdb.sql(f"COPY (SELECT {listed} FROM range({rows}) t(i)) TO '{path}' (COMPRESSION snappy)")  # noqa: S608


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bill") / "cur.parquet"
    report(path, ROWS)
    return path


def same_columns() -> dict[str, str]:
    """Return the report's columns that a load reads, with their types."""
    header = list(COLUMNS)
    positions, maps = locate(CUR, header, "report")
    read = {at for at in positions.values() if at is not None}
    read |= {at for entries in maps.values() for at in entries.values()}
    return {
        header[at]: next((kind for end, kind in TYPES.items() if header[at].endswith(end)), "VARCHAR")
        for at in sorted(read)
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_bill_load_compared_with_a_typed_read(parquet: Path, tmp_path: Path, kind: str, page: Page) -> None:
    path, store = parquet.with_suffix(f".{kind}"), tmp_path / "store.duckdb"
    if kind == "csv":
        duckdb.sql(f"COPY (FROM '{parquet}') TO '{path}' (HEADER, DELIMITER ',')")
    before = path.stat().st_mtime - 3600  # a file that was just written may still change
    os.utime(path, (before, before))
    wanted = same_columns()
    listed = json.dumps(list(COLUMNS)), json.dumps(wanted)
    peer = run(sys.executable, "-c", PEER, kind, str(path), str(tmp_path / "peer.duckdb"), *listed, limit=400)
    load = (sys.executable, "-m", "gpucost", "collect", "aws", str(path), "--store", str(store))
    first = run(*load, TMPDIR=str(tmp_path), limit=400)
    again = run(*load, TMPDIR=str(tmp_path))
    with (
        duckdb.connect(str(store), read_only=True) as con,
        duckdb.connect(str(tmp_path / "peer.duckdb"), read_only=True) as other,
    ):
        ours = con.execute("SELECT count(*), sum(billed_cost) FROM charges").fetchall()
        assert ours == other.execute('SELECT count(*), sum("lineItem/UnblendedCost") FROM charges').fetchall()
    assert "already loaded, unchanged" in again.output
    read = f"{ROWS:,} rows, {kind}, {len(wanted)} of {len(COLUMNS)} columns read"
    why = (
        "the file is not read, since its size and modification time match the stored digest, and neither are its rows: the bill's "
        "sums are stored. The rest is the start of Python with typer, pydantic and DuckDB, which does not depend on the bill."
    )
    peer_cpu = f"DuckDB's typed read of the same columns {peer.cpu:.1f} s", f"{first.cpu / peer.cpu:.2f} ×"
    before = f"its first load {first.cpu:.1f} s", f"{again.cpu / first.cpu:.1%}"
    peak = max(first.peak_mb, again.peak_mb)
    met = [
        page.row(f"bill load, {read}", f"≤ {FIRST} ×", first.cpu <= FIRST * peer.cpu, f"{first.cpu:.1f} s", *peer_cpu),
        page.row(
            f"the same bill unchanged, {kind}", f"≤ {UNCHANGED:.0%}", again.cpu <= UNCHANGED * first.cpu, f"{again.cpu:.2f} s",
            *before, why=why,
        ),
        page.row(f"memory of the load, {kind}", f"≤ {PEAK_MB} MB", peak <= PEAK_MB, f"{first.peak_mb:,.0f} MB"),
    ]  # fmt: skip
    assert all(met)
