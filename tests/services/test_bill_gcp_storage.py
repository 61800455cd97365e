"""Exports in Cloud Storage, against a server of its XML API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import BucketTree
from gpucost.config.model import Config, Gcp
from gpucost.errors import UsageError
from tests.services.gcs_server import gcs_server
from tests.unit.bills import Bills
from tests.unit.test_bill_gcp import CORE, flat, row


def buckets(endpoint: str) -> Any:
    """The server's buckets, to fill them."""
    import boto3

    return boto3.Session("test", "test", region_name="us-east-1").resource("s3", endpoint_url=endpoint)


def tree(address: str, endpoint: str) -> BucketTree:
    return BucketTree(address, Config(gcp=Gcp(storage_endpoint=endpoint)))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with gcs_server() as url:
        yield url


@pytest.fixture
def bills(tmp_path: Path, endpoint: str) -> Bills:
    bucket = buckets(endpoint).Bucket("bills")
    bucket.create()
    bucket.objects.delete()
    days = [[row(CORE, 0.36, hour) for hour in hours] for hours in ((0, 1), (2, 3, 4))]
    bucket.put_object(Key="exports/2026-03/000.json", Body="".join(json.dumps(one) + "\n" for one in days[0]))
    bucket.put_object(Key="exports/2026-03/001.csv", Body=flat(days[1]))
    bucket.put_object(Key="exports/2026-03/notes.txt", Body="nothing")
    bucket.put_object(Key="exports-old/000.json", Body=json.dumps(row(CORE, 99.0, 7)))
    return Bills(tmp_path)


@pytest.mark.slow
def test_all_files_below_a_prefix_load_together_and_once(bills: Bills, endpoint: str) -> None:
    for _ in range(2):
        run = collect_bills(bills.store, [tree("gs://bills/exports", endpoint)], "gcp")
        assert not run.errors, run.errors
    assert bills.sums() == [
        ("gcp/01AAAA-BBBBBB-CCCCCC", "2026-03", 5, pytest.approx(1.8), pytest.approx(1.8))
    ]
    assert {charge["source_file"] for charge in bills.charges()} == {
        f"gs://bills/exports/2026-03/00{name}" for name in ("0.json", "1.csv")
    }


def test_the_command_reads_a_bucket(bills: Bills, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bills.write("gpucost.toml", f'[gcp]\nexports = ["gs://bills/exports"]\nstorage_endpoint = "{endpoint}"\n')
    monkeypatch.chdir(bills.directory)
    result = CliRunner().invoke(app, ["collect", "gcp"])
    assert result.exit_code == 0 and "2026-03: 5 rows" in result.stdout, result.output


@pytest.mark.slow
def test_a_bucket_that_is_not_there(bills: Bills, endpoint: str) -> None:
    run = collect_bills(bills.store, [tree("gs://nobody/exports", endpoint)], "gcp")
    assert run.errors[0].message == "there is no bucket gs://nobody"
    run = collect_bills(bills.store, [tree("gs://bills/nothing", endpoint)], "gcp")
    assert run.errors[0].message == "there is nothing at gs://bills/nothing"
    with pytest.raises(UsageError):
        BucketTree("gs://", Config())
