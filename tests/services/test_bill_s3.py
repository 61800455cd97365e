"""`gpucost collect aws` against a real S3 server (moto's): manifests, paging, what AWS refuses."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.bill.load import BillRun, collect_bills
from gpucost.collect.bill.opening import BucketTree
from gpucost.config.model import Aws, Config
from gpucost.store.connection import Store
from tests.programs import listening
from tests.replay.server import free_port
from tests.unit.bills import csv_text, usage

ROWS = [usage(hour) for hour in range(6)]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # a test dependency: it lies beside the Python that runs this
    program, port = str(Path(sys.executable).with_name("moto_server")), free_port()
    with listening(
        [program, "-H", "127.0.0.1", "-p", str(port)], port, tmp_path_factory.mktemp("moto") / "log"
    ) as url:
        yield url


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")


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
def test_an_export_in_s3_through_its_manifests(s3: Any, endpoint: str, store: Store) -> None:
    def load(address: str) -> BillRun:
        tree = BucketTree(address, Config(aws=Aws(endpoint_url=endpoint)))
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
    # a delivery in progress, and what is not there
    s3.delete_object(Bucket="through", Key="exports/gpu/20260301-20260401/new/gpu-2.csv.gz")
    assert "gpu-2.csv.gz is not there" in load("s3://through").errors[0].message
    assert load("s3://nowhere/x").errors[0].message == "there is no bucket s3://nowhere"
    assert "there is nothing at s3://through/x" in load("s3://through/x").errors[0].message
