"""Loading: what counts, what replaces what, and what is refused. Nothing is doubled, nothing is lost."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpucost.collect.bill.load import BillProgress, collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.store.bill_rules import Telling, verdict
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, snake, usage

ROWS = [usage(hour) for hour in range(6)]
FINAL = [row | {"bill/InvoiceId": "INV1"} for row in ROWS]


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def _of(account: str) -> list[dict[str, str]]:
    changed = {"bill/PayerAccountId": account, "lineItem/UsageAccountId": account, "lineItem/ResourceId": f"i-{account}"}
    return [row | changed for row in ROWS]


def test_twice_is_once(bills: Bills) -> None:
    path = bills.write("march.csv", csv_text(ROWS))
    bills.load(path)
    again = bills.load(path)
    assert [result.verdict for result in again.results] == ["unchanged"]
    assert bills.sums()[0][2] == 6


def test_a_final_month_takes_the_place_of_one_that_was_not(bills: Bills) -> None:
    bills.load(bills.write("march-not-final.csv", csv_text(ROWS[:4])))
    run = bills.load(bills.write("march.csv", csv_text(FINAL)))
    assert [(result.verdict, result.is_final) for result in run.results] == [("replace", True)]
    assert [(row[2], row[3]) for row in bills.sums()] == [(6, pytest.approx(6 * 32.77))]


def test_an_older_file_does_not_take_the_place_of_the_final_one_unless_forced(bills: Bills) -> None:
    bills.load(bills.write("march.csv", csv_text(FINAL)))
    older = bills.write("march-not-final.csv", csv_text(ROWS[:4]))
    assert [result.verdict for result in bills.load(older).results] == ["not_final"]
    assert bills.sums()[0][2] == 6
    assert [result.verdict for result in bills.load(older, force=True).results] == ["replace"]
    assert bills.sums()[0][2] == 4


MONTHS_FILES = {"early.csv": ROWS[:3], "final.csv": FINAL, "other-account.csv": _of("777788889999")}


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param([tuple(MONTHS_FILES), tuple(reversed(MONTHS_FILES))], id="two"),
        pytest.param([*permutations(MONTHS_FILES)], marks=pytest.mark.slow, id="all"),
    ],
)
def test_files_in_any_order_make_the_same_store(tmp_path: Path, orders: list[tuple[str, ...]]) -> None:
    files, seen = MONTHS_FILES, set()
    for number, order in enumerate(orders):
        bills = Bills(tmp_path / str(number))
        for name in order:
            bills.load(bills.write(name, csv_text(files[name])))
        seen.add(tuple(bills.sums()))
    (only,) = seen
    assert [row[2] for row in only] == [6, 6]


def test_restated_costs_replace(bills: Bills) -> None:
    bills.load(bills.write("a.csv", csv_text(ROWS)))
    bills.load(bills.write("b.csv", csv_text([row | {"lineItem/UnblendedCost": "30"} for row in ROWS])))
    assert [row[3] for row in bills.sums()] == [180.0]


def test_parts_given_one_by_one_add_up(bills: Bills) -> None:
    for number in (0, 2, 4):
        bills.load(bills.write(f"part-{number}.csv", csv_text(ROWS[number : number + 2])))
    assert [row[2] for row in bills.sums()] == [6]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (slice(0, 4), slice(3, 6)),
        pytest.param(slice(0, 4), slice(1, 6), marks=pytest.mark.slow),
        pytest.param(slice(3, 6), slice(0, 4), marks=pytest.mark.slow),
    ],
)
def test_snapshots_that_overlap_neither_double_nor_lose_a_row(bills: Bills, first: slice, second: slice) -> None:
    """Hours 0-3 and 3-5 of a month: the second file is not loaded, and the line says why; with the whole month all is there."""
    bills.load(bills.write("a.csv", csv_text(ROWS[first])))
    before = bills.sums()
    run = bills.load(bills.write("b.csv", csv_text(ROWS[second])))
    assert [result.verdict for result in run.results] == ["overlap"]
    assert "left out beside the bill in the store: each holds some of the other's charges" in run.errors[0].message
    assert bills.sums() == before
    together = bills.load(bills.directory / "a.csv", bills.directory / "b.csv")
    assert "a.csv and " in together.errors[0].message and "hold some of the same charges of 2026-03" in together.errors[0].message
    bills.load(bills.write("all.csv", csv_text(ROWS)))
    assert [row[2] for row in bills.sums()] == [6]


def test_a_part_does_not_take_the_place_of_the_whole(bills: Bills) -> None:
    bills.load(bills.write("all.csv", csv_text(ROWS)))
    assert [result.verdict for result in bills.load(bills.write("late.csv", csv_text(ROWS[4:]))).results] == ["part"]
    assert bills.sums()[0][2] == 6


def test_in_one_directory_the_final_file_counts(bills: Bills) -> None:
    bills.write("d/2026-03-not-final.csv", csv_text(ROWS))
    bills.write("d/2026-03.csv", csv_text(FINAL))
    run = bills.load(bills.directory / "d")
    assert bills.sums()[0][2] == 6 and [finding.code for finding in run.findings] == ["superseded"]


def test_of_snapshots_that_grow_day_by_day_in_one_directory_the_last_counts(bills: Bills) -> None:
    for hours in range(1, 7):
        bills.write(f"d/{hours}.csv", csv_text(ROWS[:hours]))
    run = bills.load(bills.directory / "d")
    assert bills.sums()[0][2] == 6 and not run.errors
    assert all("d/6.csv holds the same bill" in finding.message for finding in run.findings) and len(run.findings) == 5


@pytest.mark.parametrize("other_month", ["2026-04", pytest.param("2026-02", marks=pytest.mark.slow)])
def test_a_file_is_not_left_out_for_one_month_where_only_it_holds_another(bills: Bills, other_month: str) -> None:
    other = [{name: value.replace("2026-03", other_month) for name, value in row.items()} for row in ROWS]
    bills.write("d/two-months.csv", csv_text(ROWS[:4] + other))
    bills.write("d/march.csv", csv_text(ROWS))
    run = bills.load(bills.directory / "d")
    assert "two-months.csv holds a bill that another file holds newer" in run.errors[0].message and not bills.store.exists
    for name in ("two-months.csv", "march.csv"):
        bills.load(bills.directory / "d" / name)
    assert [row[2] for row in bills.sums()] == [6, 6]


def test_two_files_of_one_bill_that_nothing_tells_apart_are_refused(bills: Bills) -> None:
    bills.write("d/a.csv", csv_text(ROWS))
    bills.write("d/b.csv", csv_text([row | {"lineItem/UnblendedCost": "30"} for row in ROWS]))
    run = bills.load(bills.directory / "d")
    assert "hold the same charges of 2026-03" in run.errors[0].message
    assert not bills.store.exists


def test_the_same_file_twice_in_a_directory_counts_once(bills: Bills) -> None:
    bills.write("d/a.csv", csv_text(ROWS))
    bills.write("d/copy.csv", csv_text(ROWS))
    bills.load(bills.directory / "d")
    assert bills.sums()[0][2] == 6


def _packed(text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.csv", text)
    return out.getvalue()


def _parquet(rows: list[dict[str, str]]) -> bytes:
    table = pa.Table.from_pylist(snake(rows))
    cost = table.schema.get_field_index("line_item_unblended_cost")
    table = table.set_column(cost, "line_item_unblended_cost", table.column(cost).cast(pa.float64()))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def test_content_tells_what_a_file_is_not_its_name(bills: Bills) -> None:
    """A file of each kind, each the bill of an account."""
    made: dict[str, Callable[[str], bytes]] = {
        "csv": str.encode,
        "gz": lambda text: gzip.compress(text.encode()),
        "zip": _packed,
        "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
        "crlf": lambda text: text.replace("\n", "\r\n").encode(),
        "semicolon": lambda text: text.replace(",", ";").encode(),
    }
    accounts = [f"77778888000{number}" for number in range(len(made) + 1)]
    contents = [make(csv_text(_of(account))) for account, make in zip(accounts, made.values(), strict=False)]
    contents.append(_parquet(_of(accounts[-1])))
    run = bills.load(*(bills.write(f"export-{number}.dat", content) for number, content in enumerate(contents)))
    assert not run.errors, run.errors
    assert [row[0] for row in bills.sums()] == [f"aws/{account}" for account in accounts]
    assert [(row[2], row[3]) for row in bills.sums()] == [(6, pytest.approx(6 * 32.77))] * len(accounts)


def test_commas_quotes_and_line_breaks_inside_fields_stay_there(bills: Bills) -> None:
    said = 'a, "quoted"\nand broken, description'
    (charge,) = bills.aws([usage(LineItemDescription=said)])
    assert charge["charge_description"] == said


@pytest.mark.parametrize("break_it", [lambda line: line + ",x", lambda line: line.rpartition(",")[0]])
def test_a_ragged_file_is_refused_with_file_and_line(bills: Bills, break_it: object) -> None:
    lines = csv_text(ROWS).splitlines()
    lines[3] = break_it(lines[3])  # type: ignore[operator]
    run = bills.load(bills.write("ragged.csv", "\n".join(lines) + "\n"))
    assert "ragged.csv, line 4: " in run.errors[0].message and "fields where the header has" in run.errors[0].message
    assert not bills.store.exists


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(csv_text(ROWS * 500).encode())[:-400], "breaks off"),
        (_packed(csv_text(ROWS))[:-40], "breaks off"),
        (_parquet(ROWS)[:-40], "breaks off"),
        (b"", "is empty"),
        (csv_text([usage(LineItemDescription="caf\xe9")]).encode("latin-1"), "not UTF-8"),
        (csv_text(ROWS).encode("utf-16"), "no UTF-8 text"),
        (csv_text(ROWS).replace("\n", "\r\n").encode() + b"1,2,3\n", "line 8: 3 fields where the header has"),
        (csv_text(ROWS).encode() + b'a"b,"c"d\n', "a quoted field does not end where it should"),
        (b'{"ResultsByTime": []}', "Cost Explorer"),
        (b'{"skus": [{}]}', "price list"),
        (b"InvoiceID,PayerAccountId,LinkedAccountId,RecordType,ProductCode,UsageType\n", "AWS replaced"),
        (b"date,amount\n2026-01-01,3\n", "no billing export that gpucost knows"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(bills: Bills, content: bytes, said: str) -> None:
    run = bills.load(bills.write("export", content))
    assert said in run.errors[0].message and run.errors[0].fix
    assert not bills.store.exists


def test_one_broken_file_keeps_the_batch_out(bills: Bills) -> None:
    bills.write("d/good.csv", csv_text(ROWS))
    bills.write("d/ragged.csv", csv_text(_of("777788889999")) + "1,2\n")
    run = bills.load(bills.directory / "d")
    assert len(run.errors) == 1 and [finding.code for finding in run.findings] == ["batch_left"]
    assert not bills.store.exists


def test_files_of_no_bill_in_a_directory_are_named_and_left_out(bills: Bills) -> None:
    bills.write("d/good.csv", csv_text(ROWS))
    bills.write("d/notes.csv", "a,b\n1,2\n")
    run = bills.load(bills.directory / "d")
    assert not run.errors and bills.sums()[0][2] == 6
    assert "notes.csv" in run.findings[0].message


def test_files_of_a_directory_that_are_passed_over_by_name_are_told(bills: Bills) -> None:
    for name in ("export_00001", "cur.csv.bak"):
        bills.write(f"d/{name}", csv_text(ROWS))
    bills.write("d/.hidden", "")
    run = bills.load(bills.directory / "d")
    over = f"{bills.directory / 'd'}: 2 files are passed over by name: cur.csv.bak, export_00001"
    assert [found.message for found in run.findings] == [over]
    assert "by its files' names" in run.errors[0].message and "named itself is read" in (run.errors[0].fix or "")
    bills.write("d/notes.csv", "a,b\n1,2\n")
    assert "none of the files read is a billing export" in bills.load(bills.directory / "d").errors[0].message
    assert not bills.load(bills.directory / "d/export_00001").errors and bills.sums()[0][2] == 6


def test_an_export_of_another_command_in_a_directory_is_named_and_left_out(bills: Bills) -> None:
    bucket = _report(bills, {"one": ROWS}, live="one")
    alone = bills.load(bucket, provider="gcp")
    assert "nothing was loaded" in alone.errors[0].message and "gpu-2.csv.gz is an AWS" in alone.findings[-1].message
    bills.write("bucket/focus.csv", csv_text([FOCUS_USAGE]))
    beside = bills.load(bucket, provider=None)
    assert not beside.errors and [result.format for result in beside.results] == ["focus"]


def _report(bills: Bills, assemblies: dict[str, list[dict[str, str]]], live: str) -> Path:
    """A legacy report: a directory for each delivery, and the period's manifest that names the live one."""
    for assembly, rows in assemblies.items():
        keys = []
        for part, some in enumerate((rows[:3], rows[3:]), 1):
            keys.append(f"exports/gpu/20260301-20260401/{assembly}/gpu-{part}.csv.gz")
            bills.write(f"bucket/{keys[-1]}", gzip.compress(csv_text(some).encode()))
        manifest = {
            "assemblyId": assembly,
            "bucket": "billing",
            "reportName": "gpu",
            "billingPeriod": {"start": "20260301T000000.000Z", "end": "20260401T000000.000Z"},
            "reportKeys": keys,
        }
        bills.write(f"bucket/exports/gpu/20260301-20260401/{assembly}/gpu-Manifest.json", json.dumps(manifest))
        if assembly == live:
            bills.write("bucket/exports/gpu/20260301-20260401/gpu-Manifest.json", json.dumps(manifest))
    return bills.directory / "bucket"


def test_the_manifest_of_the_period_decides_which_files_count(bills: Bills) -> None:
    run = bills.load(_report(bills, {"old": ROWS[:4], "new": ROWS}, "new"))
    assert not run.errors
    assert [row[:3] for row in bills.sums()] == [("s3://billing/exports/gpu", "2026-03", 6)]


def test_a_later_delivery_replaces_the_period_as_a_whole(bills: Bills) -> None:
    bills.load(_report(bills, {"old": ROWS}, "old"))
    bills.load(_report(bills, {"old": ROWS, "new": ROWS[:4]}, "new"))
    assert bills.sums()[0][2] == 4
    again = bills.load(bills.directory / "bucket")
    assert not again.results and "unchanged" in [finding.code for finding in again.findings]


def test_half_a_period_is_refused_and_what_was_there_stays(bills: Bills) -> None:
    bills.load(_report(bills, {"old": ROWS}, "old"))
    path = _report(bills, {"old": ROWS, "new": FINAL}, "new")
    (path / "exports/gpu/20260301-20260401/new/gpu-2.csv.gz").unlink()
    run = bills.load(path)
    assert "gpu-2.csv.gz is not there" in run.errors[0].message
    assert bills.sums()[0][2] == 6


@pytest.mark.slow
def test_a_delivery_broken_off_is_refused_and_what_was_there_stays(bills: Bills) -> None:
    bills.load(_report(bills, {"old": ROWS}, "old"))
    path = _report(bills, {"old": ROWS, "new": FINAL}, "new")
    part = path / "exports/gpu/20260301-20260401/new/gpu-2.csv.gz"
    part.write_bytes(part.read_bytes()[:-10])
    assert "breaks off" in bills.load(path).errors[0].message
    assert bills.sums()[0][2] == 6


def test_deliveries_without_the_periods_manifest_are_refused(bills: Bills) -> None:
    run = bills.load(_report(bills, {"old": ROWS[:4], "new": ROWS}, "none"))
    assert "deliveries of the same export and period" in run.errors[0].message


@pytest.mark.slow
def test_half_a_manifest_is_refused_and_what_was_there_stays(bills: Bills) -> None:
    bills.load(_report(bills, {"old": ROWS}, "old"))
    told = _report(bills, {"old": ROWS, "new": ROWS[:4]}, "new") / "exports/gpu/20260301-20260401/gpu-Manifest.json"
    told.write_text(told.read_text()[:-20])
    run = bills.load(bills.directory / "bucket")
    assert "gpu-Manifest.json is a manifest that breaks off" in run.errors[0].message
    assert bills.sums()[0][2] == 6


def test_in_a_directory_of_several_providers_each_command_loads_its_own_alone(bills: Bills) -> None:
    """What is wrong with another provider's export is no concern of a command."""
    path = _report(bills, {"new": ROWS}, "new")
    (path / "exports/gpu/20260301-20260401/new/gpu-2.csv.gz").unlink()
    azure = {"blobs": [{"blobName": "exports/a/20260301-20260331/202604010000/1.csv"}, {"blobName": "cost.csv"}]}
    bills.write("bucket/manifest.json", json.dumps(azure))
    bills.write("bucket/cost.csv", "Date,Cost,MeterCategory,ResourceId\n")
    bills.write("bucket/aws-focus.csv", csv_text([FOCUS_USAGE | {"ProviderName": "AWS"}]))
    bills.write("bucket/aws-focus-again.csv", csv_text([FOCUS_USAGE | {"ProviderName": "AWS", "BilledCost": "5"}]))
    bills.write("bucket/gcp-focus.csv", csv_text([FOCUS_USAGE | {"ProviderName": "Google Cloud"}]))
    run = bills.load(path, provider="gcp")
    assert not run.errors, run.errors
    assert [(result.provider, result.rows) for result in run.results] == [("gcp", 1)]
    said = " ".join(finding.message for finding in run.findings)
    assert "gpu-Manifest.json is the manifest of an export of aws; not loaded" in said
    assert "bucket/manifest.json is the manifest of an export of azure; not loaded" in said
    assert "aws-focus.csv is a FOCUS cost and usage file of aws; not loaded" in said


def test_data_exports_name_their_files_in_the_manifest(bills: Bills) -> None:
    at = "cur2/data/BILLING_PERIOD=2026-03"
    bills.write(f"bucket/{at}/cur2-00001.snappy.parquet", _parquet(ROWS))
    bills.write(f"bucket/{at}/leftover-00002.snappy.parquet", _parquet(ROWS[:3]))
    manifest = {
        "exportArn": "arn:aws:bcm-data-exports:us-east-1:1:export/cur2-abc",
        "dataFiles": [f"s3://billing/{at}/cur2-00001.snappy.parquet"],
    }
    bills.write("bucket/cur2/metadata/BILLING_PERIOD=2026-03/cur2-Manifest.json", json.dumps(manifest))
    run = bills.load(bills.directory / "bucket")
    assert not run.errors, run.errors
    assert [row[:3] for row in bills.sums()] == [("s3://billing/cur2", "2026-03", 6)]


@pytest.mark.slow
def test_a_loose_copy_of_an_exports_bill_is_the_same_bill(bills: Bills) -> None:
    bills.load(_report(bills, {"new": ROWS}, "new"))
    bills.load(bills.write("copy.csv", csv_text(ROWS)))
    bills.load(bills.directory / "bucket")
    assert sum(row[2] for row in bills.sums()) == 6


def test_a_header_without_charges_loads_nothing_and_says_so(bills: Bills) -> None:
    run = bills.load(bills.write("empty.csv", csv_text(ROWS).splitlines()[0] + "\n"))
    assert not run.results and not bills.store.exists
    assert [error.message.partition("empty.csv ")[2] for error in run.errors] == ["has a header, but no charges"]


def test_the_same_account_in_another_format_would_count_twice(bills: Bills) -> None:
    bills.load(bills.write("cur.csv", csv_text(ROWS)))
    focus = FOCUS_USAGE | {"ProviderName": "AWS", "BillingAccountId": "111122223333"}
    path = bills.write("focus.csv", csv_text([focus]))
    assert [result.verdict for result in bills.load(path, provider=None).results] == ["other_format"]
    assert [result.verdict for result in bills.load(path, provider=None, force=True).results] == ["replace"]
    assert [row[2] for row in bills.sums()] == [1]


def test_progress_is_told_in_bytes(bills: Bills) -> None:
    path = bills.write("cur.csv", csv_text(ROWS * 3000))
    seen: list[BillProgress] = []
    collect_bills(bills.store, [LocalTree(path)], "aws", progress=seen.append)
    assert seen[-1].done == seen[-1].total == path.stat().st_size
    assert any("cur.csv" in state.note for state in seen)


def test_another_providers_file_is_refused_with_the_command_that_takes_it(bills: Bills) -> None:
    run = bills.load(bills.write("cur.csv", csv_text(ROWS)), provider=None)
    assert run.errors[0].fix == "gpucost collect aws loads it"


def test_nothing_of_the_reading_stays_in_the_store(bills: Bills) -> None:
    bills.load(bills.write("a.csv", csv_text(ROWS)))
    _, views = bills.store.query("SELECT view_name FROM duckdb_views() WHERE NOT internal")
    assert ("charges",) in views and not {("incoming",), ("raw",), ("mapped",)} & set(views)
    _, loads = bills.store.query("SELECT kind, source, rows FROM loads")
    assert loads == [("bill", "aws/111122223333", 6)]


def _telling(**changed: object) -> Telling:
    base: dict[str, object] = {"source": "s", "is_whole": False, "is_final": None, "digest": "a", "charges": 100}
    base |= {"earliest": datetime(2026, 3, 1, tzinfo=UTC), "latest": datetime(2026, 3, 20, tzinfo=UTC)}
    return Telling(**(base | changed))  # type: ignore[arg-type]


LATER = {"earliest": datetime(2026, 3, 9, tzinfo=UTC), "latest": datetime(2026, 3, 31, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("new", "common", "said"),
    [
        ({"digest": "b"}, 100, "replace"),
        ({}, 100, "unchanged"),
        ({"digest": "b"}, 0, "beside"),
        ({"digest": "b", "charges": 30}, 2, "beside"),
        ({"digest": "b", "charges": 30}, 14, "overlap"),
        ({"digest": "b"} | LATER, 60, "overlap"),
        ({"digest": "b", "is_whole": True} | LATER, 60, "replace"),
        ({"digest": "b", "is_final": True} | LATER, 60, "replace"),
        ({"digest": "b", "is_final": True} | LATER, 40, "overlap"),
        ({"digest": "b", "charges": 30}, 30, "part"),
        ({"digest": "b", "charges": 300}, 100, "replace"),
        ({"digest": "b", "is_whole": True, "charges": 30}, 30, "replace"),
        ({"digest": "b", "format": "focus", "account": "1"}, 0, "other_format"),
        ({"digest": "b", "format": "focus", "account": "2"}, 0, "beside"),
    ],
)
def test_which_bill_stands(new: dict[str, object], common: int, said: str) -> None:
    assert verdict(_telling(**new), _telling(format="aws-cur", account="1"), common) == said
