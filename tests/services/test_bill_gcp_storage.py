"""Exports in Cloud Storage, against a server of its XML API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.gcs_server import gcs_server
from tests.unit.bills import Bills
from tests.unit.command import call
from tests.unit.test_bill_gcp import CORE, flat, row


def buckets(endpoint: str) -> Any:
    """The server's buckets, to fill them."""
    import boto3

    return boto3.Session("test", "test", region_name="us-east-1").resource("s3", endpoint_url=endpoint)


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


def test_the_command_reads_all_files_below_a_prefix_together(
    bills: Bills, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f'exports = ["gs://bills/exports"]\nstorage_endpoint = "{endpoint}"\n'
    bills.write("gpucost.toml", f'store = "store.duckdb"\n[gcp]\n{place}')
    monkeypatch.chdir(bills.directory)
    assert "2026-03: 5 rows" in call("collect", "gcp")[0]
    cost = pytest.approx(1.8)
    assert bills.sums() == [("gcp/01AAAA-BBBBBB-CCCCCC", "2026-03", 5, cost, cost)]
    files = {charge["source_file"] for charge in bills.charges()}
    assert files == {f"gs://bills/exports/2026-03/00{name}" for name in ("0.json", "1.csv")}
    assert "there is no bucket gs://nobody" in call("collect", "gcp", "gs://nobody/exports", code=1)[1]
