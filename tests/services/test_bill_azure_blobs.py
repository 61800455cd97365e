"""Exports in Blob Storage, against Azurite, Microsoft's emulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import BucketTree
from gpucost.config.model import Config
from gpucost.objects import CONNECTION
from tests.programs import listening, program
from tests.replay.server import free_port
from tests.unit.bills import Bills, csv_text
from tests.unit.command import call
from tests.unit.test_bill_azure import amortized, manifest, row

# Published by Microsoft as the emulator's account, the same on every machine.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    blobs = program("AZURITE_BLOB", "azurite-blob")
    port, place = free_port(), tmp_path_factory.mktemp("azurite")
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(place)]
    with listening([blobs, *where, "--skipApiVersionCheck", "--silent"], port, place / "log") as url:
        yield f"{url}/{ACCOUNT}"


@pytest.fixture
def bills(tmp_path: Path, azurite: str, monkeypatch: pytest.MonkeyPatch) -> Bills:
    from azure.storage.blob import ContainerClient

    monkeypatch.setenv(
        CONNECTION,
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={azurite};",
    )
    container = ContainerClient.from_connection_string(os.environ[CONNECTION], "exports")
    if container.exists():
        for blob in container.list_blobs():
            container.delete_blob(blob.name)
    else:
        container.create_container()
    for run, rows in (
        ("202603050500", amortized()),
        ("202603060500", [*amortized(), row(Date="03/07/2026")]),
    ):
        below = f"cost/daily/20260301-20260331/{run}/guid"
        content = csv_text(rows).encode()
        container.upload_blob(f"{below}/000001.csv", content)
        container.upload_blob(
            f"{below}/manifest.json",
            manifest({f"{below}/000001.csv": content}, f"2026-03-{run[6:8]}T05:00:00Z"),
        )
    return Bills(tmp_path)


@pytest.mark.slow
def test_the_last_run_loads_once_as_from_disk(bills: Bills, azurite: str) -> None:
    for _ in range(2):
        run = collect_bills(bills.store, [BucketTree(f"{azurite}/exports/cost", Config())], "azure")
        assert not run.errors, run.errors
    assert bills.sums() == [
        ("azure://cost/daily", "2026-03", 5, pytest.approx(176.152), pytest.approx(228.152))
    ]
    (bills.directory / "disk").mkdir()
    disk = Bills(bills.directory / "disk")
    disk.load(disk.write("000001.csv", csv_text([*amortized(), row(Date="03/07/2026")])), provider="azure")
    cells = "SELECT * EXCLUDE (bill_id, source, source_file) FROM charges ORDER BY source_row"
    assert [str(one) for one in bills.store.query(cells)[1]] == [
        str(one) for one in disk.store.query(cells)[1]
    ]


def test_the_command_reads_a_container(bills: Bills, azurite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bills.directory)
    assert "azure://cost/daily 2026-03: 5 rows" in call("collect", "azure", f"{azurite}/exports/cost")[0]
    nothing = f"{azurite}/nothing"
    assert f"there is no bucket {nothing}" in call("collect", "azure", nothing, code=1)[1]
