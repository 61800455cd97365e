"""Exports in buckets, with servers for S3, Cloud Storage's XML API and Blob Storage."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gpucost.collect.bill.load import BillRun, collect_bills
from gpucost.collect.bill.opening import BucketTree
from gpucost.config.model import Aws, Config
from gpucost.objects import CONNECTION
from gpucost.store.connection import Store
from tests.programs import listening, program
from tests.replay.server import free_port
from tests.unit.bills import Bills, csv_text, usage
from tests.unit.command import call
from tests.unit.test_bill_azure import amortized, manifest, row
from tests.unit.test_bill_gcp import CORE, flat, row as gcp_row

SIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)


@pytest.fixture(scope="module")
def gcs() -> Iterator[str]:
    """Serve Cloud Storage's XML API: moto's S3, which shares its requests, behind Google's login.

    Emulators of Cloud Storage have its JSON API and at most the reading half of the XML API, which obstore uses. boto3 makes
    buckets under the same URL.
    """
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    s3 = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        if environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer "):
            environ["HTTP_AUTHORIZATION"] = SIGNED
            # obstore percent-encodes more characters than S3's clients, and moto reads the address as sent
            environ["RAW_URI"] = f"{quote(environ['PATH_INFO'].encode('latin-1'))}?{environ['QUERY_STRING']}"
            environ["REQUEST_URI"] = environ["RAW_URI"]
        return s3(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def buckets(endpoint: str) -> Any:
    """Return the server's buckets, to be filled."""
    import boto3

    return boto3.Session("test", "test", region_name="us-east-1").resource("s3", endpoint_url=endpoint)


@pytest.fixture
def gcp_bills(tmp_path: Path, gcs: str) -> Bills:
    bucket = buckets(gcs).Bucket("bills")
    bucket.create()
    bucket.objects.delete()
    days = [[gcp_row(CORE, 0.36, hour) for hour in hours] for hours in ((0, 1), (2, 3, 4))]
    bucket.put_object(Key="exports/2026-03/000.json", Body="".join(json.dumps(one) + "\n" for one in days[0]))
    bucket.put_object(Key="exports/2026-03/001.csv", Body=flat(days[1]))
    bucket.put_object(Key="exports/2026-03/notes.txt", Body="nothing")
    bucket.put_object(Key="exports-old/000.json", Body=json.dumps(gcp_row(CORE, 99.0, 7)))
    return Bills(tmp_path)


def test_command_reads_all_files_of_a_prefix_together(
    gcp_bills: Bills, gcs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f'exports = ["gs://bills/exports"]\nstorage_endpoint = "{gcs}"\n'
    gcp_bills.write("gpucost.toml", f'store = "store.duckdb"\n[gcp]\n{place}')
    monkeypatch.chdir(gcp_bills.directory)
    assert "2026-03: 5 rows" in call("collect", "gcp")[0]
    cost = pytest.approx(1.8)
    assert gcp_bills.sums() == [("gcp/01AAAA-BBBBBB-CCCCCC", "2026-03", 5, cost, cost)]
    files = {charge["source_file"] for charge in gcp_bills.charges()}
    assert files == {f"gs://bills/exports/2026-03/00{name}" for name in ("0.json", "1.csv")}
    assert "bucket gs://nobody not found" in call("collect", "gcp", "gs://nobody/exports", code=1)[1]


ROWS = [usage(hour) for hour in range(6)]


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # a test dependency, in the folder of this Python
    program, port = str(Path(sys.executable).with_name("moto_server")), free_port()
    with listening(
        [program, "-H", "127.0.0.1", "-p", str(port)], port, tmp_path_factory.mktemp("moto") / "log"
    ) as url:
        yield url


@pytest.fixture
def s3(moto: str, aws_login: None) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=moto, region_name="us-east-1")


def _deliver(s3: Any, bucket: str, assembly: str, rows: list[dict[str, str]], *, live: bool = True) -> None:
    folder = "exports/gpu/20260301-20260401"
    keys = [f"{folder}/{assembly}/gpu-{part}.csv.gz" for part in (1, 2)]
    for key, some in zip(keys, (rows[:3], rows[3:]), strict=True):
        s3.put_object(Bucket=bucket, Key=key, Body=gzip.compress(csv_text(some).encode()))
    span = {"start": "20260301T000000.000Z", "end": "20260401T000000.000Z"}
    manifest = json.dumps({"bucket": bucket, "reportName": "gpu", "billingPeriod": span, "reportKeys": keys})
    for place in (f"{folder}/{assembly}", *([folder] if live else [])):
        s3.put_object(Bucket=bucket, Key=f"{place}/gpu-Manifest.json", Body=manifest)


@pytest.mark.ci
def test_export_in_s3_is_read_through_its_manifests(s3: Any, moto: str, store: Store) -> None:
    def load(address: str) -> BillRun:
        tree = BucketTree(address, Config(aws=Aws(endpoint_url=moto)))
        return collect_bills(store, [tree], "aws")

    s3.create_bucket(Bucket="through")
    _deliver(s3, "through", "old", ROWS[:4], live=False)
    _deliver(s3, "through", "new", ROWS)
    s3.put_object(Bucket="through", Key="exports/gpu2/other.csv", Body="not of this export")
    assert not load("s3://through/exports/gpu").errors
    sums = "SELECT source, billing_period, count(*), count(DISTINCT source_file) FROM charges GROUP BY ALL"
    assert store.query(sums)[1] == [("s3://through/exports/gpu", "2026-03", 6, 2)]
    again = load("s3://through/exports/gpu/")
    assert not again.results and "unchanged" in [finding.code for finding in again.findings]
    # a delivery in progress, and missing files
    s3.delete_object(Bucket="through", Key="exports/gpu/20260301-20260401/new/gpu-2.csv.gz")
    assert "gpu-2.csv.gz is missing" in load("s3://through").errors[0].message
    assert load("s3://nowhere/x").errors[0].message == "bucket s3://nowhere not found"
    assert "no files at s3://through/x" in load("s3://through/x").errors[0].message


# The emulator's account, published by Microsoft, the same on every machine.
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
def azure_bills(tmp_path: Path, azurite: str, monkeypatch: pytest.MonkeyPatch) -> Bills:
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
def test_last_run_loads_once_like_from_disk(azure_bills: Bills, azurite: str) -> None:
    for _ in range(2):
        run = collect_bills(azure_bills.store, [BucketTree(f"{azurite}/exports/cost", Config())], "azure")
        assert not run.errors, run.errors
    assert azure_bills.sums() == [
        ("azure://cost/daily", "2026-03", 5, pytest.approx(176.152), pytest.approx(228.152))
    ]
    (azure_bills.directory / "disk").mkdir()
    disk = Bills(azure_bills.directory / "disk")
    disk.load(disk.write("000001.csv", csv_text([*amortized(), row(Date="03/07/2026")])), provider="azure")
    cells = "SELECT * EXCLUDE (bill_id, source, source_file) FROM charges ORDER BY source_row"
    assert [str(one) for one in azure_bills.store.query(cells)[1]] == [
        str(one) for one in disk.store.query(cells)[1]
    ]


def test_command_reads_a_container(azure_bills: Bills, azurite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(azure_bills.directory)
    assert "azure://cost/daily 2026-03: 5 rows" in call("collect", "azure", f"{azurite}/exports/cost")[0]
    nothing = f"{azurite}/nothing"
    assert f"bucket {nothing} not found" in call("collect", "azure", nothing, code=1)[1]
