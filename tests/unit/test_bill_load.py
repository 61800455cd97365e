"""Loading: what counts, what replaces what, and what is refused. Nothing is doubled, nothing is lost."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpucost.collect.bill.load import BillProgress, collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.store.bill_rules import Telling, Verdict, verdict
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, own_rows, own_text, snake, usage

ROWS = [usage(hour) for hour in range(6)]
FINAL = [row | {"bill/InvoiceId": "INV1"} for row in ROWS]


Row = dict[str, str]


def of_month(row: Row, month: str) -> Row:
    return {name: value.replace("2026-03", month) for name, value in row.items()}


def _of(account: str) -> list[dict[str, str]]:
    changed = {
        "bill/PayerAccountId": account,
        "lineItem/UsageAccountId": account,
        "lineItem/ResourceId": f"i-{account}",
    }
    return [row | changed for row in ROWS]


def line(name: str, hour: int = 10, /, **changed: str) -> dict[str, str]:
    """A CUR row with a line item id, of an hour."""
    interval = f"2026-03-05T{hour:02}:00:00Z/2026-03-05T{hour + 1:02}:00:00Z"
    return {
        "identity/LineItemId": name,
        "identity/TimeInterval": interval,
        "lineItem/BlendedCost": "1",
    } | usage(hour, **changed)


def covered(hour: int) -> list[Row]:
    """An hour that AWS has put under a savings plan since."""
    plan = {"savingsPlan/SavingsPlanARN": "arn:plan", "savingsPlan/SavingsPlanEffectiveCost": "12"}
    return [
        line(f"cov{hour}", hour, LineItemType="SavingsPlanCoveredUsage") | plan,
        line(f"neg{hour}", hour, LineItemType="SavingsPlanNegation", UnblendedCost="-32.77") | plan,
    ]


LINES = [line(f"id{hour}", hour) for hour in range(6)]
# A report without resource ids: two charges an hour that only their tags and amounts tell apart.
NAMELESS = [
    line(f"{team}{hour}", hour, ResourceId="", UnblendedCost=cost, **{"resourceTags/user:team": team})
    for hour in range(6)
    for team, cost in (("nlp", "30"), ("vision", "20"))
]
OTHER_IDS = [
    row | {"identity/LineItemId": f"x{number}", "bill/InvoiceId": "INV1"}
    for number, row in enumerate(NAMELESS)
]
MONTH = {"lineItem/UsageStartDate": "2026-03-01T00:00:00Z", "lineItem/UsageEndDate": "2026-04-01T00:00:00Z"}
TAX = MONTH | {"lineItem/LineItemType": "Tax", "lineItem/ResourceId": "", "lineItem/UsageType": ""}
CREDIT = line("credit", 1, LineItemType="Credit", ResourceId="", UnblendedCost="-50")
RETYPED = [*LINES[:2], *covered(2), *LINES[3:5]]
# Rows with a column that nobody reads.
ONE = [
    line(f"a{number}", ResourceId=f"i-{number}") | {"lineItem/LegalEntity": "AWS Inc."}
    for number in range(11)
]
TWO = [
    line(f"b{number}", ResourceId=f"j-{number}") | {"lineItem/LegalEntity": "AWS Inc."}
    for number in range(10)
]
ELSEWHERE = ONE[0] | {"lineItem/LegalEntity": "AWS EMEA"}
AN_HOUR = 32.77
SHUFFLED = [
    line(f"id{hour}-{machine}", hour, ResourceId=f"i-{machine}") for hour in range(20) for machine in range(5)
]
random.Random(0).shuffle(SHUFFLED)
#: What is loaded, what is loaded after it: whether that stands, how many charges there are then, and what they cost.
SECOND: dict[str, tuple[list[Row], list[Row], Verdict, int, float]] = {
    "a final month": (ROWS[:4], FINAL, "replace", 6, 6 * AN_HOUR),
    "not final after final": (FINAL, ROWS[:4], "not_final", 6, 6 * AN_HOUR),
    "restated": (ROWS, [row | {"lineItem/UnblendedCost": "30"} for row in ROWS], "replace", 6, 180),
    "a part of the same": (ROWS, ROWS[4:], "part", 6, 6 * AN_HOUR),
    "a part with other amounts": (
        ROWS, [row | {"lineItem/UnblendedCost": "9"} for row in ROWS[4:]], "restated", 6, 6 * AN_HOUR
    ),
    "parts": (ROWS[:2], ROWS[2:], "beside", 6, 6 * AN_HOUR),
    **{
        f"overlap {first} {second}": (ROWS[slice(*first)], ROWS[slice(*second)], "overlap", first[1] - first[0],
                                      (first[1] - first[0]) * AN_HOUR)
        for first, second in (((0, 4), (3, 6)), ((0, 4), (1, 6)), ((3, 6), (0, 4)))
    },
    "parts that share rows": (LINES[:4], LINES[3:], "beside", 6, 6 * AN_HOUR),
    "parts without resource ids": (NAMELESS[::2], [*NAMELESS[1::2], NAMELESS[0]], "beside", 12, 300),
    "other ids": (NAMELESS, OTHER_IDS, "replace", 12, 300),
    "an overlap that is restated": (
        LINES[:4], [line("id3", 3, UnblendedCost="30"), *LINES[2:3], *LINES[4:]], "overlap", 4, 4 * AN_HOUR
    ),
    "a month's tax that grows": (
        [*LINES[:4], line("gone", 0, ResourceId="i-99"), line("t1", UnblendedCost="5") | TAX],
        [*LINES, line("t2", UnblendedCost="9") | TAX], "replace", 7, 6 * AN_HOUR + 9,
    ),
    "retyped": (LINES[:3], RETYPED, "replace", 6, 5 * AN_HOUR - AN_HOUR),
    "withdrawn": ([*LINES[:3], CREDIT], LINES[:4], "replace", 4, 4 * AN_HOUR),
    "withdrawn, no later": ([*LINES[:3], CREDIT], [*LINES[:3], line("more", 2, ResourceId="i-2")], "replace", 4, 4 * AN_HOUR),
    "less than half is shared": (
        LINES[:5], [LINES[0], *(row for hour in range(1, 6) for row in covered(hour))], "overlap", 5, 5 * AN_HOUR
    ),
    "the columns that are read decide": (ONE, [*TWO, ELSEWHERE], "beside", 21, 21 * AN_HOUR),
    "one month of two": (ROWS[:4] + [of_month(row, "2026-04") for row in ROWS], ROWS, "replace", 12, 12 * AN_HOUR),
}  # fmt: skip
#: Files that are loaded together: how many charges there are of them.
TOGETHER: dict[str, tuple[list[list[Row]], int]] = {
    "the final one": ([ROWS, FINAL], 6),
    "growing day by day": ([ROWS[:hours] for hours in range(1, 7)], 6),
    "the same": ([ROWS, ROWS], 6),
    "parts that share rows": ([LINES[:4], LINES[3:]], 6),
    "parts without resource ids": ([NAMELESS[::2], [*NAMELESS[1::2], NAMELESS[0]]], 12),
    "retyped": ([LINES[:3], RETYPED], 6),
    "the columns that are read decide": ([ONE, [*TWO, ELSEWHERE]], 21),
    "split at random": ([SHUFFLED[:40], SHUFFLED[35:70], SHUFFLED[65:]], 100),
}


def test_what_becomes_of_a_bill_that_is_loaded_after_another(bills: Bills) -> None:
    """Nothing is doubled, nothing is lost: each case is an account's."""
    for step in (0, 1):
        rows = [row for number, case in enumerate(SECOND.values()) for row in own_rows(case[step], number)]
        path = bills.write(f"d/{step}.csv", csv_text(rows))
        run = bills.load(path)
    results = {result.billing_account_id: result for result in run.results}
    sums: dict[str, tuple[int, float]] = {}
    for source, _, count, cost, _ in bills.sums():
        sums[source] = sums.get(source, (0, 0.0))[0] + count, sums.get(source, (0, 0.0))[1] + cost
    repeated = {
        name for name in SECOND if name in ("the columns that are read decide", "parts that share rows")
    }
    for number, (name, (_, _, verdict_of, count, cost)) in enumerate(SECOND.items()):
        account = own_text("111122223333", number)
        result = results[account]
        assert (result.verdict, *sums[f"aws/{account}"]) == (verdict_of, count, pytest.approx(cost)), name
        assert result.repeated == (name in {*repeated, "parts without resource ids"}), name
        assert result.is_final is (name in ("a final month", "other ids")), name
        part = f"another part of aws/{account} 2026-03"
        message = f"1 row repeats a charge that the store has with {part}, the same in every column"
        assert any(finding.message.startswith(message) for finding in run.findings) == bool(result.repeated)
        messages = [error.message for error in run.errors if account in error.message]
        if verdict_of == "overlap":
            assert (
                "left out beside the bill in the store: each holds some of the other's charges" in messages[0]
            ), name
        else:
            assert len(messages) == (not result.loaded), name
    # The whole takes the place of parts, and an older file that of a final one if it is forced.
    names = list(SECOND)
    for name, rows, is_forced in (("parts", FINAL, False), ("not final after final", ROWS[:4], True)):
        number = names.index(name)
        (result,) = bills.load(
            bills.write("d/3.csv", csv_text(own_rows(rows, number))), force=is_forced
        ).results
        assert (result.verdict, result.is_final) == ("replace", not is_forced)
        assert [row[2] for row in bills.sums() if row[0].endswith(own_text("111122223333", number))] == [
            len(rows)
        ]


def test_of_files_in_one_directory_each_charge_counts_once(bills: Bills) -> None:
    for number, (files, _) in enumerate(TOGETHER.values()):
        for place, rows in enumerate(files):
            bills.write(f"d/{number}-{place}.csv", csv_text(own_rows(rows, number)))
    run = bills.load(bills.directory / "d")
    assert not run.errors, run.errors
    assert [row[2] for row in bills.sums()] == [count for _, count in TOGETHER.values()]
    superseded = [finding.message for finding in run.findings if finding.code == "superseded"]
    assert (
        len(superseded) == 7
        and sum("d/1-5.csv holds the same bill" in message for message in superseded) == 5
    )
    assert sum(finding.code == "same_file" for finding in run.findings) == 1
    (repeated,) = [finding.message for finding in run.findings if finding.code == "repeated_rows"]
    assert repeated.startswith("13 rows repeat charges of these files, the same in every column that is read")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([ROWS[:4], ROWS[3:]], "hold some of the same charges of 2026-03"),
        pytest.param(
            list(SECOND["less than half is shared"][:2]), "hold some of the same charges of 2026-03", marks=pytest.mark.slow
        ),
        ([[*ROWS[:4], *(of_month(row, "2026-04") for row in ROWS)], ROWS],
         "0.csv holds a bill that another file holds newer"),
    ],
)  # fmt: skip
def test_files_of_one_bill_that_nothing_tells_apart_are_refused(
    bills: Bills, files: list[list[Row]], message: str
) -> None:
    for number, rows in enumerate(files):
        bills.write(f"d/{number}.csv", csv_text(rows))
    (error,) = bills.load(bills.directory / "d").errors
    assert message in error.message and not bills.store.exists


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
    packed: dict[str, Callable[[str], bytes]] = {
        "csv": str.encode,
        "gz": lambda text: gzip.compress(text.encode()),
        "zip": _packed,
        "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
        "crlf": lambda text: text.replace("\n", "\r\n").encode(),
        "semicolon": lambda text: text.replace(",", ";").encode(),
    }
    accounts = [f"77778888000{number}" for number in range(len(packed) + 1)]
    contents = [
        pack(csv_text(_of(account))) for account, pack in zip(accounts, packed.values(), strict=False)
    ]
    contents.append(_parquet(_of(accounts[-1])))
    folder = "2026-03 [final] *?"  # read as a name, not as a pattern
    run = bills.load(
        *(bills.write(f"{folder}/export-{number}.dat", content) for number, content in enumerate(contents))
    )
    assert not run.errors, run.errors
    assert [row[0] for row in bills.sums()] == [f"aws/{account}" for account in accounts]
    assert [(row[2], row[3]) for row in bills.sums()] == [(6, pytest.approx(6 * 32.77))] * len(accounts)


RAGGED = csv_text(ROWS).splitlines()


#: Contents of files, and what they are refused with.
BROKEN: list[tuple[bytes, str]] = [
    (gzip.compress(csv_text(ROWS * 500).encode())[:-400], "breaks off"),
    (_packed(csv_text(ROWS))[:-40], "breaks off"),
    (_parquet(ROWS)[:-40], "breaks off"),
    (b"", "is empty"),
    (csv_text([usage(LineItemDescription="caf\xe9")]).encode("latin-1"), "not UTF-8"),
    (csv_text(ROWS).encode("utf-16"), "no UTF-8 text"),
    (csv_text(ROWS).replace("\n", "\r\n").encode() + b"1,2,3\n", "line 8: 3 fields where the header has"),
    ("\n".join([*RAGGED[:3], RAGGED[3] + ",x", *RAGGED[4:], ""]).encode(), ".csv, line 4: "),
    (
        "\n".join([*RAGGED[:3], RAGGED[3].rpartition(",")[0], *RAGGED[4:], ""]).encode(),
        "fields where the header has",
    ),
    (csv_text(ROWS).encode() + b'a"b,"c"d\n', "a quoted field does not end where it should"),
    (b'{"ResultsByTime": []}', "Cost Explorer"),
    (b'{"skus": [{}]}', "price list"),
    (b"InvoiceID,PayerAccountId,LinkedAccountId,RecordType,ProductCode,UsageType\n", "AWS replaced"),
    (b"date,amount\n2026-01-01,3\n", "no billing export that gpucost knows"),
]


def test_what_cannot_be_read_is_refused_in_words(bills: Bills) -> None:
    refusals = bills.refusals({str(number): content for number, (content, _) in enumerate(BROKEN)})
    for number, (content, message) in enumerate(BROKEN):
        assert message in refusals[str(number)], content[:80]


def test_one_broken_file_keeps_the_batch_out_and_one_of_no_bill_is_named_and_left_out(bills: Bills) -> None:
    bills.write("d/good.csv", csv_text(ROWS))
    bills.write("d/ragged.csv", csv_text(_of("777788889999")) + "1,2\n")
    run = bills.load(bills.directory / "d")
    assert len(run.errors) == 1 and [finding.code for finding in run.findings] == ["batch_left"]
    assert not bills.store.exists
    bills.write("d/ragged.csv", "a,b\n1,2\n")
    run = bills.load(bills.directory / "d")
    assert not run.errors and bills.sums()[0][2] == 6
    assert "ragged.csv" in run.findings[0].message


@pytest.mark.slow
def test_files_of_a_directory_that_are_passed_over_by_name_are_told(bills: Bills) -> None:
    for name in ("export_00001", "cur.csv.bak"):
        bills.write(f"d/{name}", csv_text(ROWS))
    bills.write("d/.hidden", "")
    run = bills.load(bills.directory / "d")
    over = f"{bills.directory / 'd'}: 2 files are passed over by name: cur.csv.bak, export_00001"
    assert [finding.message for finding in run.findings] == [over]
    assert "by its files' names" in run.errors[0].message and "named itself is read" in (
        run.errors[0].fix or ""
    )
    bills.write("d/notes.csv", "a,b\n1,2\n")
    assert "none of the files read is a billing export" in bills.load(bills.directory / "d").errors[0].message
    assert not bills.load(bills.directory / "d/export_00001").errors and bills.sums()[0][2] == 6


def test_an_export_of_another_command_in_a_directory_is_named_and_left_out(bills: Bills) -> None:
    bucket = _report(bills, {"one": ROWS}, live="one")
    alone = bills.load(bucket, provider="gcp")
    assert (
        "nothing was loaded" in alone.errors[0].message
        and "gpu-2.csv.gz is an AWS" in alone.findings[-1].message
    )
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
        bills.write(
            f"bucket/exports/gpu/20260301-20260401/{assembly}/gpu-Manifest.json", json.dumps(manifest)
        )
        if assembly == live:
            bills.write("bucket/exports/gpu/20260301-20260401/gpu-Manifest.json", json.dumps(manifest))
    return bills.directory / "bucket"


def test_the_manifest_of_the_period_decides_which_files_count(bills: Bills) -> None:
    bucket = _report(bills, {"old": ROWS[:4], "new": ROWS}, "none")
    assert "deliveries of the same export and period" in bills.load(bucket).errors[0].message
    assert not bills.load(_report(bills, {"new": ROWS}, "new")).errors
    assert [row[:3] for row in bills.sums()] == [("s3://billing/exports/gpu", "2026-03", 6)]
    # half a period is refused, and what was there stays
    (_report(bills, {"half": FINAL}, "half") / "exports/gpu/20260301-20260401/half/gpu-2.csv.gz").unlink()
    assert "gpu-2.csv.gz is not there" in bills.load(bucket).errors[0].message
    assert bills.sums()[0][2] == 6
    # a later delivery replaces the period as a whole
    bills.load(_report(bills, {"later": ROWS[:4]}, "later"))
    assert bills.sums()[0][2] == 4
    again = bills.load(bucket)
    assert not again.results and "unchanged" in [finding.code for finding in again.findings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("new/gpu-2.csv.gz", "breaks off"),
        ("gpu-Manifest.json", "gpu-Manifest.json is a manifest that breaks off"),
    ],
)
def test_a_delivery_broken_off_is_refused_and_what_was_there_stays(
    bills: Bills, file: str, message: str
) -> None:
    bills.load(_report(bills, {"old": ROWS}, "old"))
    part = _report(bills, {"old": ROWS, "new": FINAL}, "new") / "exports/gpu/20260301-20260401" / file
    part.write_bytes(part.read_bytes()[:-20])
    assert message in bills.load(bills.directory / "bucket").errors[0].message
    assert bills.sums()[0][2] == 6


def test_in_a_directory_of_several_providers_each_command_loads_its_own_alone(bills: Bills) -> None:
    """What is wrong with another provider's export is no concern of a command."""
    path = _report(bills, {"new": ROWS}, "new")
    (path / "exports/gpu/20260301-20260401/new/gpu-2.csv.gz").unlink()
    azure = {
        "blobs": [{"blobName": "exports/a/20260301-20260331/202604010000/1.csv"}, {"blobName": "cost.csv"}]
    }
    bills.write("bucket/manifest.json", json.dumps(azure))
    bills.write("bucket/cost.csv", "Date,Cost,MeterCategory,ResourceId\n")
    bills.write("bucket/aws-focus.csv", csv_text([FOCUS_USAGE | {"ProviderName": "AWS"}]))
    bills.write(
        "bucket/aws-focus-again.csv", csv_text([FOCUS_USAGE | {"ProviderName": "AWS", "BilledCost": "5"}])
    )
    bills.write("bucket/gcp-focus.csv", csv_text([FOCUS_USAGE | {"ProviderName": "Google Cloud"}]))
    run = bills.load(path, provider="gcp")
    assert not run.errors, run.errors
    assert [(result.provider, result.rows) for result in run.results] == [("gcp", 1)]
    messages = " ".join(finding.message for finding in run.findings)
    assert "gpu-Manifest.json is the manifest of an export of aws; not loaded" in messages
    assert "bucket/manifest.json is the manifest of an export of azure; not loaded" in messages
    assert "aws-focus.csv is a FOCUS cost and usage file of aws; not loaded" in messages


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


def test_a_file_is_for_its_command_and_replaces_the_bill_that_it_tells_in_another_format(
    bills: Bills,
) -> None:
    cur = bills.write("cur.csv", csv_text([usage(10)]))
    assert bills.load(cur, provider=None).errors[0].fix == "gpucost collect aws loads it"
    bills.load(cur)
    focus = FOCUS_USAGE | {
        "ProviderName": "AWS",
        "BillingAccountId": "111122223333",
        "ResourceId": "i-0123456789abcdef0",
    }
    path = bills.write("focus.csv", csv_text([focus]))
    assert [result.verdict for result in bills.load(path, provider=None).results] == ["twice"]
    assert [result.verdict for result in bills.load(path, provider=None, force=True).results] == ["replace"]
    assert [row[2] for row in bills.sums()] == [1]


@pytest.mark.slow
def test_progress_is_told_in_bytes_and_nothing_of_the_reading_stays_in_the_store(bills: Bills) -> None:
    path = bills.write(
        "cur.csv", csv_text([line(f"id{n}", n % 24, ResourceId=f"i-{n}") for n in range(2000)])
    )
    seen: list[BillProgress] = []
    collect_bills(bills.store, [LocalTree(path)], "aws", progress=seen.append)
    assert seen[-1].done == seen[-1].total == path.stat().st_size
    assert any("cur.csv" in state.note for state in seen)
    _, views = bills.store.query("SELECT view_name FROM duckdb_views() WHERE NOT internal")
    assert ("charges",) in views and not {("incoming",), ("raw",), ("mapped",)} & set(views)
    _, loads = bills.store.query("SELECT kind, source, rows FROM loads")
    assert loads == [("bill", "aws/111122223333", 2000)]


def _telling(**changed: object) -> Telling:
    base: dict[str, object] = {
        "source": "s",
        "is_whole": False,
        "is_final": None,
        "digest": "a",
        "charges": 100,
    }
    base |= {"earliest": datetime(2026, 3, 1, tzinfo=UTC), "latest": datetime(2026, 3, 20, tzinfo=UTC)}
    return Telling(**(base | changed))  # type: ignore[arg-type]


LATER = {"earliest": datetime(2026, 3, 9, tzinfo=UTC), "latest": datetime(2026, 3, 31, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("new", "common", "expected"),
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
        ({"digest": "b", "format": "focus", "account": "1"}, 0, "beside"),
    ],
)
def test_which_bill_stands(new: dict[str, object], common: int, expected: str) -> None:
    assert verdict(_telling(**new), _telling(format="aws-cur", account="1"), common) == expected
