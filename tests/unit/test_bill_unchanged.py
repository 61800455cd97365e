"""Digests identify loaded files before they are read; files next to them are compared with them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucost.collect.bill import opening
from gpucost.store import charges
from gpucost.store.bill_rules import BillVersion, verdict
from gpucost.store.charges import BillResult
from tests.text_tables import words
from tests.unit.bills import Bills, csv_text, own_rows
from tests.unit.test_bill_load import report, rows_of

ROWS = rows_of("machine 0-5")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened from here on."""
    names: list[str] = []
    open_files = opening.open_files

    def watched(con: object, path: Path, name: str, directory: Path) -> list[opening.RawFile]:
        names.append(path.name)
        return open_files(con, path, name, directory)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "open_files", watched)
    return names


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are digested from here on.

    Files of any age may be known by their stamps.
    """
    names: list[str] = []
    digest = opening.LocalTree.digest

    def watched(tree: opening.LocalTree, entry: opening.Entry) -> str:
        names.append(entry.key)
        return digest(tree, entry)

    monkeypatch.setattr(opening.LocalTree, "digest", watched)
    monkeypatch.setattr(opening, "_AT_REST_NS", 0)
    return names


@pytest.mark.ci
def test_unchanged_file_is_neither_read_nor_digested_again(
    bills: Bills, opened: list[str], digested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bills.write("march.csv", csv_text(ROWS))

    def load(file: Path = path, *, force: bool = False) -> str:
        """The verdict on the bill, and the numbers of files read and digested so far."""
        (result,) = bills.load(file, force=force).results
        results.append(result)
        return f"{result.verdict} {len(opened)} {len(digested)}"

    results: list[BillResult] = []

    with monkeypatch.context() as timeless:  # a file system without modification times
        fstat = os.fstat

        def stat_of(number: int) -> SimpleNamespace:
            at = fstat(number)
            sizes = {"st_dev": at.st_dev, "st_ino": at.st_ino, "st_size": at.st_size}
            return SimpleNamespace(st_mtime_ns=0, st_ctime_ns=0, **sizes)

        timeless.setattr(opening.os, "fstat", stat_of)
        load()
        path.write_text(csv_text(ROWS).replace("32.77,", "12.77,"))
        assert load() == "replace 2 2"
    # a new file is digested again; the first run that finds it old enough keeps its stamp
    monkeypatch.setattr(opening, "_AT_REST_NS", 10**18)
    assert load() == "unchanged 2 3"
    names = "provider source format billing_account_id billing_period is_final rows amounts"
    first, again = ([getattr(result, name) for name in names.split()] for result in results[-2:])
    assert first == again
    monkeypatch.setattr(opening, "_AT_REST_NS", 0)
    assert load() == load() == "unchanged 2 4"
    path.chmod(0o600)
    assert load() == load() == "unchanged 2 5"
    # under another name it is digested and not read
    assert load(bills.write("copy.csv", path.read_bytes())) == "unchanged 2 6"
    assert load(force=True) == "replace 3 7"
    # other content of the same size and age is read
    before = path.stat()
    path.write_text(csv_text(ROWS))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert load() == "replace 4 8"
    assert bills.sums()[0][2:4] == (6, pytest.approx(6 * 32.77))


def test_sums_of_an_unchanged_file_are_stored_ones(bills: Bills) -> None:
    path = bills.write("march.csv", csv_text(ROWS))
    (first,) = bills.load(path).results
    (again,) = bills.load(path).results
    sums = {"currency": "USD", "billed": Decimal("196.62"), "effective": Decimal("196.62")}
    assert again.amounts == first.amounts == [sums]
    with bills.store.write() as con:
        con.execute("UPDATE bills SET amounts = [{'currency': 'USD', 'billed': 1, 'effective': 2}]")
    assert bills.load(path).results[0].amounts == [{"currency": "USD", "billed": 1, "effective": 2}]


@pytest.mark.ci
def test_new_file_is_compared_with_the_unchanged_files_of_its_run(bills: Bills, opened: list[str]) -> None:
    """Alone, the second file would be added to the first; together they are ambiguous."""
    march = bills.write("march.csv", csv_text(ROWS[:4]))
    bills.load(march)
    other = bills.write("other.csv", csv_text(rows_of("machine 0-3 cost=1")))
    run = bills.load(march, other)
    assert "have the same charges of 2026-03" in run.errors[0].message
    assert sorted(opened) == ["march.csv", "march.csv", "other.csv"]
    # a file that was replaced by another one is also read
    bills.load(bills.write("final.csv", csv_text(rows_of("machine 0-5 InvoiceId=INV1"))))
    assert [result.verdict for result in bills.load(march).results] == ["not_final"]
    assert opened[3:] == ["final.csv", "march.csv"]


@pytest.mark.ci
def test_part_of_an_earlier_load_is_read(bills: Bills, opened: list[str]) -> None:
    one, two = [bills.write(f"{number}.csv", csv_text(own_rows(ROWS, number))) for number in (1, 2)]
    bills.load(one, two)
    del opened[:]
    assert [result.verdict for result in bills.load(one, two).results] == ["unchanged", "unchanged"]
    assert opened == []
    bills.load(one)
    assert opened == ["1.csv"]


@pytest.mark.ci
def test_unchanged_file_of_a_manifest_is_not_digested_again(bills: Bills, digested: list[str]) -> None:
    bucket = report(bills, "one", one=ROWS)
    bills.load(bucket)
    del digested[:]
    again = bills.load(bucket)
    assert [finding.code for finding in again.findings] == ["unchanged"] and not digested


@pytest.mark.ci
def test_file_replaced_during_reading_is_not_loaded(bills: Bills, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = (bills.write(name, csv_text(ROWS)) for name in ("march.csv", "other"))
    replace = charges.replace

    def replaced(*args: Any, **options: Any) -> Any:
        other.replace(path)
        return replace(*args, **options)

    monkeypatch.setattr(charges, "replace", replaced)
    run = bills.load(path)
    assert "changed while it was read" in run.errors[0].message
    assert not bills.store.exists


#: A new version of a bill: the differences, its number of charges, the common charges, and the verdict.
VERDICTS = """
other             100 100 replace
same              100 100 unchanged
other             100   0 beside
other              30   2 beside
other              30  14 overlap
later             100  60 overlap
later,is_whole    100  60 replace
later,is_final    100  60 replace
later,is_final    100  40 overlap
other              30  30 part
other             300 100 replace
other,is_whole     30  30 replace
focus             100   0 beside"""


@pytest.mark.parametrize("case", VERDICTS.strip().splitlines())
def test_verdict_on_a_new_version(case: str) -> None:
    how, count, common, expected = case.split()
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 20, 9, 31)]
    base: dict[str, Any] = words("source=s digest=a") | {"is_whole": False, "is_final": None}
    base |= {"earliest": days[0], "latest": days[1]}
    old = BillVersion(**base, charges=100, format="aws-cur", account="1")
    changed: dict[str, Any] = {"digest": "a" if how == "same" else "b", "charges": int(count)}
    changed |= {name: True for name in how.split(",") if name.startswith("is_")}
    changed |= words("format=focus account=1") if how == "focus" else {}
    changed |= {"earliest": days[2], "latest": days[3]} if "later" in how else {}
    new = BillVersion(**base | changed)
    assert verdict(new, old, int(common)) == expected
