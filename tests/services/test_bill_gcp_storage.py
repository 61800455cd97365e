"""Exports in Cloud Storage, against an emulator of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.bill.gcp import GcsTree
from gpucost.collect.bill.load import collect_bills
from gpucost.errors import UsageError
from tests.unit.bills import Bills
from tests.unit.test_bill_gcp import CORE, flat, row

emulator = pytest.importorskip(
    "gcp_storage_emulator.server", reason="gcp-storage-emulator is not installed (pip install gcp-storage-emulator)"
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bills")
    server.start()
    port = server._api._httpd.server_port
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture
def bills(tmp_path: Path, endpoint: str) -> Bills:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(project="local", credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint})
    bucket = client.bucket("bills")
    for blob in list(bucket.list_blobs()):
        blob.delete()
    days = [[row(CORE, 0.36, hour) for hour in hours] for hours in ((0, 1), (2, 3, 4))]
    bucket.blob("exports/2026-03/000.json").upload_from_string("".join(json.dumps(one) + "\n" for one in days[0]))
    bucket.blob("exports/2026-03/001.csv").upload_from_string(flat(days[1]))
    bucket.blob("exports/2026-03/notes.txt").upload_from_string("nothing")
    bucket.blob("exports-old/000.json").upload_from_string(json.dumps(row(CORE, 99.0, 7)))
    return Bills(tmp_path)


def test_all_files_below_a_prefix_load_together_and_once(bills: Bills, endpoint: str) -> None:
    for _ in range(2):
        run = collect_bills(bills.store, [GcsTree("gs://bills/exports", endpoint=endpoint)], "gcp")
        assert not run.errors, run.errors
    assert bills.sums() == [("gcp/01AAAA-BBBBBB-CCCCCC", "2026-03", 5, pytest.approx(1.8), pytest.approx(1.8))]
    assert {charge["source_file"] for charge in bills.charges()} == {
        f"gs://bills/exports/2026-03/00{name}" for name in ("0.json", "1.csv")
    }


def test_files_from_a_bucket_are_the_same_as_on_disk(bills: Bills, endpoint: str) -> None:
    run = collect_bills(bills.store, [GcsTree("gs://bills/exports/2026-03/001.csv", endpoint=endpoint)], "gcp")
    assert not run.errors and run.results[0].rows == 3
    (bills.directory / "disk").mkdir()
    disk = Bills(bills.directory / "disk")
    disk.load(disk.write("001.csv", flat([row(CORE, 0.36, hour) for hour in (2, 3, 4)])), provider="gcp")
    assert disk.sums() == bills.sums()


def test_the_command_reads_a_bucket(bills: Bills, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bills.write("gpucost.toml", f'[gcp]\nexports = ["gs://bills/exports"]\nstorage_endpoint = "{endpoint}"\n')
    monkeypatch.chdir(bills.directory)
    result = CliRunner().invoke(app, ["collect", "gcp"])
    assert result.exit_code == 0 and "2026-03: 5 rows" in result.stdout, result.output


def test_a_bucket_that_is_not_there(bills: Bills, endpoint: str) -> None:
    run = collect_bills(bills.store, [GcsTree("gs://nobody/exports", endpoint=endpoint)], "gcp")
    assert "gs://nobody/exports" in run.errors[0].message
    run = collect_bills(bills.store, [GcsTree("gs://bills/nothing", endpoint=endpoint)], "gcp")
    assert "there is no billing export" in run.errors[0].message
    with pytest.raises(UsageError):
        GcsTree("gs://")
