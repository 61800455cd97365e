"""Loading: what counts, what replaces what, and what is refused. Nothing is doubled, nothing is lost."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from gpucost.collect.bill import opening
from gpucost.collect.bill.load import BillProgress, collect_bills
from gpucost.collect.bill.opening import LocalTree
from tests.text_tables import columns, text_rows, words
from tests.unit.bills import (
    FOCUS_USAGE,
    ITEMS,
    Bills,
    Row,
    csv_text,
    item,
    own_rows,
    own_text,
    parquet,
    snake,
    usage,
)

#: Line items by the word that a line begins with; those without resource ids are told apart by their tags and amounts alone.
# in "one" and "two", of one hour, the bill's company is a column that nobody reads
KINDS = ITEMS | columns("""
    line    identity/LineItemId=id{n}
    nlp     identity/LineItemId=nlp{n} id= cost=30 resourceTags/user:team=nlp
    vision  identity/LineItemId=vision{n} id= cost=20 resourceTags/user:team=vision
    planned identity/LineItemId=cov{n} item=SavingsPlanCoveredUsage plan=PLAN plan_cost=12
    negated identity/LineItemId=neg{n} item=SavingsPlanNegation cost=-32.77 plan=PLAN plan_cost=12
    tax     identity/LineItemId=t{n} item=Tax id= usage= UsageStartDate=2026-03-01T00:00:00Z UsageEndDate=2026-04-01T00:00:00Z
    credit  identity/LineItemId=credit item=Credit id= cost=-50
    one     identity/LineItemId=a{n} hour=10 id=i-{n} lineItem/LegalEntity="AWS Inc."
    two     identity/LineItemId=b{n} hour=10 id=j-{n} lineItem/LegalEntity="AWS Inc."
""")


def rows_of(*lines: str) -> list[Row]:
    """CUR rows: a line has a word of KINDS, hours such as 0-5, and what is changed; a number n is that of the hour."""
    rows = []
    for line in lines:
        kind, hours, *changed = line.split(maxsplit=2)
        first, _, last = hours.partition("-")
        for hour in range(int(first), int(last or first) + 1):
            text = f"machine hour={hour} {KINDS[kind]} {' '.join(changed)}".replace("{n}", str(hour))
            row = item(text)
            if "identity/LineItemId" in row:
                start, end = row["lineItem/UsageStartDate"], row["lineItem/UsageEndDate"]
                if kind == "tax":
                    start, end = "2026-03-05T10:00:00Z", "2026-03-05T11:00:00Z"
                row = {"identity/TimeInterval": f"{start}/{end}", "lineItem/BlendedCost": "1"} | row
            rows.append(row)
    return rows


def of_month(rows: list[Row], month: str) -> list[Row]:
    return [{name: value.replace("2026-03", month) for name, value in row.items()} for row in rows]


def files_of(table: str) -> list[list[Row]]:
    """The rows of each file of a table, whose lines, parted by "; ", begin with the file's number."""
    files: dict[str, list[Row]] = {}
    for line in table.split(";"):
        number, rest = line.split(maxsplit=1)
        april = rest.startswith("april ")
        rows = rows_of(rest.removeprefix("april "))
        files.setdefault(number, []).extend(of_month(rows, "2026-04") if april else rows)
    return list(files.values())


ROWS = rows_of("machine 0-5")
FINAL = rows_of("machine 0-5 InvoiceId=INV1")
#: What is loaded first and second: whether that stands, how many charges there are then, and what they cost.
SECOND = text_rows("""
a final month | 1 machine 0-3; 2 machine 0-5 InvoiceId=INV1 | replace 6 196.62
not final after final | 1 machine 0-5 InvoiceId=INV1; 2 machine 0-3 | not_final 6 196.62
restated | 1 machine 0-5; 2 machine 0-5 cost=30 | replace 6 180
a part of the same | 1 machine 0-5; 2 machine 4-5 | part 6 196.62
a part with other amounts | 1 machine 0-5; 2 machine 4-5 cost=9 | restated 6 196.62
parts | 1 machine 0-1; 2 machine 2-5 | beside 6 196.62
overlap by an hour | 1 machine 0-3; 2 machine 3-5 | overlap 4 131.08
overlap by most | 1 machine 0-3; 2 machine 1-5 | overlap 4 131.08
overlap backwards | 1 machine 3-5; 2 machine 0-3 | overlap 3 98.31
parts that share rows | 1 line 0-3; 2 line 3-5 | beside 6 196.62
parts without resource ids | 1 nlp 0-5; 2 vision 0-5; 2 nlp 0 | beside 12 300
other ids | 1 nlp 0-5; 1 vision 0-5; \
    2 nlp 0-5 identity/LineItemId=x{n} InvoiceId=INV1; 2 vision 0-5 identity/LineItemId=y{n} InvoiceId=INV1 | replace 12 300
an overlap that is restated | 1 line 0-3; 2 line 3 cost=30; 2 line 2; 2 line 4-5 | overlap 4 131.08
a month's tax that grows | 1 line 0-3; 1 line 0 identity/LineItemId=gone id=i-99; \
    1 tax 1 cost=5; 2 line 0-5; 2 tax 2 cost=9 | replace 7 205.62
retyped | 1 line 0-2; 2 line 0-1; 2 planned 2; 2 negated 2; 2 line 3-4 | replace 6 131.08
withdrawn | 1 line 0-2; 1 credit 1; 2 line 0-3 | replace 4 131.08
withdrawn, no later | 1 line 0-2; 1 credit 1; 2 line 0-2; 2 line 2 identity/LineItemId=more id=i-2 | replace 4 131.08
less than half is shared | 1 line 0-4; 2 line 0; 2 planned 1-5; 2 negated 1-5 | overlap 5 163.85
the columns that are read decide | 1 one 0-10; 2 two 0-9; 2 one 0 lineItem/LegalEntity="AWS EMEA" | beside 21 688.17
one month of two | 1 machine 0-3; 1 april machine 0-5; 2 machine 0-5 | replace 12 393.24""")
#: Files that are loaded together: how many charges there are of them.
TOGETHER = text_rows("""
the final one | 1 machine 0-5; 2 machine 0-5 InvoiceId=INV1 | 6
growing day by day | 1 machine 0; 2 machine 0-1; 3 machine 0-2; 4 machine 0-3; 5 machine 0-4; 6 machine 0-5 | 6
the same | 1 machine 0-5; 2 machine 0-5 | 6
parts that share rows | 1 line 0-11; 1 line 0-4 identity/LineItemId=b{n} id=i-2; \
    2 line 3-11 identity/LineItemId=b{n} id=i-2; \
    2 line 0-5 identity/LineItemId=c{n} id=i-3; 3 line 5-11 identity/LineItemId=c{n} id=i-3 | 36
parts without resource ids | 1 nlp 0-5; 2 vision 0-5; 2 nlp 0 | 12
retyped | 1 line 0-2; 2 line 0-1; 2 planned 2; 2 negated 2; 2 line 3-4 | 6
the columns that are read decide | 1 one 0-10; 2 two 0-9; 2 one 0 lineItem/LegalEntity="AWS EMEA" | 21""")
REPEATS = "1 row repeats a charge already in the store with {}, equal in every column"
LEFT_OUT = "left out; the bill in the store stays: each bill has some of the other's charges"
#: Which of SECOND's bills are loaded with charges that the store has.
REPEATED = ("parts that share rows", "parts without resource ids", "the columns that are read decide")


def test_what_becomes_of_a_bill_that_is_loaded_after_another(bills: Bills) -> None:
    """Nothing is doubled, nothing is lost: each case is an account's."""
    files = [files_of(table) for _, table, _ in SECOND]
    for step in (0, 1):
        rows: list[Row] = []
        for number, loads in enumerate(files):
            rows += own_rows(loads[step], number)
        run = bills.load(bills.write(f"d/{step}.csv", csv_text(rows)))
    results = {result.billing_account_id: result for result in run.results}
    charges = bills.charges()
    for number, (name, _, outcome) in enumerate(SECOND):
        account = own_text("111122223333", number)
        result = results[account]
        costs = [one["billed_cost"] for one in charges if one["billing_account_id"] == account]
        assert f"{result.verdict} {len(costs)} {float(sum(costs)):g}" == outcome, name
        assert result.repeated == (name in REPEATED), name
        assert result.is_final is (name in ("a final month", "other ids")), name
        message = REPEATS.format(f"another part of aws/{account} 2026-03")
        assert any(finding.message.startswith(message) for finding in run.findings) == bool(result.repeated)
        messages = [error.message for error in run.errors if account in error.message]
        assert len(messages) == (not result.loaded) or result.verdict == "overlap", name
        assert result.verdict != "overlap" or LEFT_OUT in messages[0], name
    # The whole takes the place of parts, and an older file that of a final one if it is forced.
    names = [name for name, *_ in SECOND]
    for name, rows, is_forced in (("parts", FINAL, False), ("not final after final", ROWS[:4], True)):
        number = names.index(name)
        path = bills.write("d/3.csv", csv_text(own_rows(rows, number)))
        (result,) = bills.load(path, force=is_forced).results
        assert (result.verdict, result.is_final) == ("replace", not is_forced)
        account = own_text("111122223333", number)
        assert [row[2] for row in bills.sums() if row[0] == f"aws/{account}"] == [len(rows)]


def test_of_files_in_one_directory_each_charge_counts_once(bills: Bills) -> None:
    for number, (_, table, _) in enumerate(TOGETHER):
        for place, rows in enumerate(files_of(table)):
            bills.write(f"d/{number}-{place}.csv", csv_text(own_rows(rows, number)))
    run = bills.loaded(bills.directory / "d")
    assert [str(row[2]) for row in bills.sums()] == [count for *_, count in TOGETHER]
    superseded = [finding.message for finding in run.findings if finding.code == "superseded"]
    newer = ["d/1-5.csv is a newer version of the same bill" in message for message in superseded]
    assert (len(newer), sum(newer)) == (7, 5)
    assert sum(finding.code == "same_file" for finding in run.findings) == 1
    (repeated,) = [finding.message for finding in run.findings if finding.code == "repeated_rows"]
    assert repeated.startswith("5 rows repeat charges of these files, equal in every column that is read")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([ROWS[:4], ROWS[3:]], "share some charges of 2026-03"),
        ([[*ROWS[:4], *of_month(ROWS, "2026-04")], ROWS], "0.csv has one bill that is newer in another file"),
    ],
    ids=["overlap", "a month of two"],
)
def test_files_of_one_bill_that_nothing_tells_apart_are_refused(
    bills: Bills, files: list[list[Row]], message: str
) -> None:
    for number, rows in enumerate(files):
        bills.write(f"d/{number}.csv", csv_text(rows))
    (error,) = bills.load(bills.directory / "d").errors
    assert message in error.message and not bills.store.exists


def packed(*texts: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, text in enumerate(texts):
            archive.writestr(f"{number}.csv", text)
    return out.getvalue()


def in_parquet(rows: list[Row]) -> bytes:
    costs = [float(row["lineItem/UnblendedCost"]) for row in rows]
    return parquet(snake(rows), line_item_unblended_cost=[costs])


def test_content_tells_what_a_file_is_not_its_name(bills: Bills) -> None:
    """A file of each kind, each the bill of an account."""
    rows = [own_rows(ROWS, number) for number in range(7)]
    texts = list(map(csv_text, rows))
    contents: list[str | bytes] = [
        texts[0], gzip.compress(texts[1].encode()), packed(texts[2]), "\ufeff" + texts[3], texts[4].replace("\n", "\r\n"),
        texts[5].replace(",", ";"), in_parquet(rows[6]),
    ]  # fmt: skip
    folder = "2026-03 [final] *?"  # read as a name, not as a pattern
    paths = [bills.write(f"{folder}/export-{number}.dat", content) for number, content in enumerate(contents)]
    bills.loaded(*paths)
    assert [row[2:4] for row in bills.sums()] == [(6, pytest.approx(6 * 32.77))] * 7


TEXT = csv_text(ROWS)
LINE = TEXT.splitlines()[3]
#: Contents of files, and what they are refused with.
BROKEN: list[tuple[str | bytes, str]] = [
    (gzip.compress(csv_text(ROWS * 500).encode())[:-400], "is truncated"),
    (packed(TEXT)[:-40], "is truncated"),
    (in_parquet(ROWS)[:-40], "is cut off"),
    ("", "is empty"),
    (csv_text([usage(LineItemDescription="caf\xe9")]).encode("latin-1"), "not UTF-8"),
    (TEXT.encode("utf-16"), "not UTF-8 text"),
    (TEXT.replace("\n", "\r\n") + "1,2,3\n", "line 8: 3 fields, but "),
    (TEXT.replace(LINE, LINE + ",x"), ".csv, line 4: "),
    (TEXT.replace(LINE, LINE.rpartition(",")[0]), " in the header"),
    (TEXT + 'a"b,"c"d\n', "a quoted field does not end correctly"),
    ('{"ResultsByTime": []}', "Cost Explorer"),
    ('{"skus": [{}]}', "price list"),
    ("InvoiceID,PayerAccountId,LinkedAccountId,RecordType,ProductCode,UsageType\n", "AWS replaced"),
    ("date,amount\n2026-01-01,3\n", "not a known billing export"),
]


def test_what_cannot_be_read_is_refused_in_words(bills: Bills) -> None:
    refusals = bills.refusals({str(number): content for number, (content, _) in enumerate(BROKEN)})
    for number, (content, message) in enumerate(BROKEN):
        assert message in refusals[str(number)], content[:80]


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_packed_file_that_unpacks_without_end_is_refused(
    bills: Bills, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    text = csv_text([usage(hour) for hour in range(20)] * 400).encode()
    half = len(text) // 2
    content = gzip.compress(text) if kind == "gz" else packed(text[:half], text[half:])
    path = bills.write(f"a.csv.{kind}", content)
    assert 20 * path.stat().st_size < len(text)
    monkeypatch.setattr(opening, "_UNPACKED", 3 * len(text) // 4)
    monkeypatch.setattr(opening, "_RATIO", 2)
    run = bills.load(path)
    assert ["unpacks to over" in error.message for error in run.errors] == [True] and not bills.store.exists
    monkeypatch.setattr(opening, "_UNPACKED", len(text))
    opened = opening.open_files(None, path, path.name, bills.directory)  # type: ignore[arg-type]
    assert sum(file.path.stat().st_size for file in opened) == len(text)


def test_one_broken_file_keeps_the_batch_out_and_one_of_no_bill_is_named_and_left_out(bills: Bills) -> None:
    bills.write("d/good.csv", TEXT)
    bills.write("d/ragged.csv", csv_text(own_rows(ROWS, 1)) + "1,2\n")
    run = bills.load(bills.directory / "d")
    assert len(run.errors) == 1 and [finding.code for finding in run.findings] == ["batch_left"]
    assert not bills.store.exists
    bills.write("d/ragged.csv", "a,b\n1,2\n")
    run = bills.load(bills.directory / "d")
    assert not run.errors and bills.sums()[0][2] == 6
    assert "ragged.csv" in run.findings[0].message


@pytest.mark.slow
def test_files_of_a_directory_that_are_passed_over_by_name_are_told(bills: Bills) -> None:
    folder = bills.directory / "d"
    for name in ("export_00001", "cur.csv.bak"):
        bills.write(f"d/{name}", TEXT)
    bills.write("d/.hidden", "")
    run = bills.load(folder)
    over = f"{folder}: 2 files were skipped by name: cur.csv.bak, export_00001"
    assert [finding.message for finding in run.findings] == [over]
    assert "judging by file names" in run.errors[0].message
    bills.write("d/notes.csv", "a,b\n1,2\n")
    assert "none is a billing export" in bills.load(folder).errors[0].message
    assert not bills.load(folder / "export_00001").errors and bills.sums()[0][2] == 6


def report(bills: Bills, live: str | None = None, **assemblies: list[Row]) -> Path:
    """A legacy report: a directory for each delivery, and the period's manifest that names the live one."""
    folder = "exports/gpu/20260301-20260401"
    for assembly, rows in assemblies.items():
        keys = [f"{folder}/{assembly}/gpu-{part}.csv.gz" for part in (1, 2)]
        for key, some in zip(keys, (rows[:3], rows[3:]), strict=True):
            bills.write(f"bucket/{key}", gzip.compress(csv_text(some).encode()))
        period = words("start=20260301T000000.000Z end=20260401T000000.000Z")
        manifest = {"assemblyId": assembly, "bucket": "billing", "reportName": "gpu", "reportKeys": keys}
        for place in [assembly, *([""] if assembly == live else [])]:
            path = f"bucket/{folder}/{place}/gpu-Manifest.json".replace("//", "/")
            bills.write(path, json.dumps(manifest | {"billingPeriod": period}))
    return bills.directory / "bucket"


def test_the_manifest_of_the_period_decides_which_files_count(bills: Bills) -> None:
    bucket = report(bills, old=ROWS[:4], new=ROWS)
    assert "deliveries of the same export and period" in bills.load(bucket).errors[0].message
    assert not bills.load(report(bills, "new", new=ROWS)).errors
    assert [row[:3] for row in bills.sums()] == [("s3://billing/exports/gpu", "2026-03", 6)]
    # half a period is refused, and what was there stays
    period = report(bills, "half", half=FINAL) / "exports/gpu/20260301-20260401"
    (period / "half/gpu-2.csv.gz").unlink()
    assert "gpu-2.csv.gz is missing" in bills.load(bucket).errors[0].message
    text = (period / "gpu-Manifest.json").read_text()
    (period / "gpu-Manifest.json").write_text(text[:-20])
    assert "gpu-Manifest.json is a truncated manifest" in bills.load(bucket).errors[0].message
    assert bills.sums()[0][2] == 6
    # a later delivery replaces the period as a whole
    bills.load(report(bills, "later", later=ROWS[:4]))
    assert bills.sums()[0][2] == 4
    again = bills.load(bucket)
    assert not again.results and "unchanged" in [finding.code for finding in again.findings]


def test_in_a_directory_of_several_providers_each_command_loads_its_own_alone(bills: Bills) -> None:
    """What is wrong with another provider's export is no concern of a command."""
    bucket = report(bills, "new", new=ROWS)
    alone = bills.load(bucket, provider="gcp")
    assert "no file was loaded" in alone.errors[0].message
    assert "gpu-2.csv.gz is an AWS" in alone.findings[-1].message
    (bucket / "exports/gpu/20260301-20260401/new/gpu-2.csv.gz").unlink()
    names = ("exports/a/20260301-20260331/202604010000/1.csv", "cost.csv")
    bills.write("bucket/manifest.json", json.dumps({"blobs": [{"blobName": name} for name in names]}))
    bills.write("bucket/cost.csv", "Date,Cost,MeterCategory,ResourceId\n")
    for name, provider, cost in text_rows("aws | AWS | 4\naws-again | AWS | 5\ngcp | Google Cloud | 4"):
        row = FOCUS_USAGE | {"ProviderName": provider, "BilledCost": cost}
        bills.write(f"bucket/{name}-focus.csv", csv_text([row]))
    run = bills.loaded(bucket, provider="gcp")
    assert [(result.provider, result.rows) for result in run.results] == [("gcp", 1)]
    messages = " ".join(finding.message for finding in run.findings)
    assert "gpu-Manifest.json is the manifest of an export of aws; not loaded" in messages
    assert "bucket/manifest.json is the manifest of an export of azure; not loaded" in messages
    assert "aws-focus.csv is a FOCUS cost and usage file of aws; not loaded" in messages


def test_data_exports_name_their_files_in_the_manifest(bills: Bills) -> None:
    """A loose copy of an export's bill is the same bill."""
    at = "cur2/data/BILLING_PERIOD=2026-03"
    bills.write(f"bucket/{at}/cur2-00001.snappy.parquet", in_parquet(ROWS))
    bills.write(f"bucket/{at}/leftover-00002.snappy.parquet", in_parquet(ROWS[:3]))
    manifest = {
        "exportArn": "arn:aws:bcm-data-exports:us-east-1:1:export/cur2-abc",
        "dataFiles": [f"s3://billing/{at}/cur2-00001.snappy.parquet"],
    }
    bills.write("bucket/cur2/metadata/BILLING_PERIOD=2026-03/cur2-Manifest.json", json.dumps(manifest))
    bills.loaded(bills.directory / "bucket")
    assert [row[:3] for row in bills.sums()] == [("s3://billing/cur2", "2026-03", 6)]
    bills.load(bills.write("copy.csv", TEXT))
    assert sum(row[2] for row in bills.sums()) == 6


def test_a_file_is_for_its_command_and_replaces_the_bill_that_it_tells_in_another_format(
    bills: Bills,
) -> None:
    cur = bills.write("cur.csv", csv_text([usage(10)]))
    assert bills.load(cur, provider=None).errors[0].fix == "load it with gpucost collect aws"
    bills.load(cur)
    own = words("ProviderName=AWS BillingAccountId=111122223333 ResourceId=i-0123456789abcdef0")
    path = bills.write("focus.csv", csv_text([FOCUS_USAGE | own]))
    assert [result.verdict for result in bills.load(path, provider=None).results] == ["twice"]
    assert [result.verdict for result in bills.load(path, provider=None, force=True).results] == ["replace"]
    assert [row[2] for row in bills.sums()] == [1]


@pytest.mark.slow
def test_progress_is_told_in_bytes_and_nothing_of_the_reading_stays_in_the_store(bills: Bills) -> None:
    path = bills.write("cur.csv", csv_text(rows_of(*(f"line 0-23 id=i-{n}" for n in range(80)))))
    seen: list[BillProgress] = []
    collect_bills(bills.store, [LocalTree(path)], "aws", progress=seen.append)
    assert seen[-1].done == seen[-1].total == path.stat().st_size
    assert any("cur.csv" in state.note for state in seen)
    _, views = bills.store.query("SELECT view_name FROM duckdb_views() WHERE NOT internal")
    assert ("charges",) in views and not {("incoming",), ("raw",), ("mapped",)} & set(views)
