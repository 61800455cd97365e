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


def _deliver(
    s3: Any,
    bucket: str,
    assembly: str,
    rows: list[dict[str, str]],
    *,
    live: bool = True,
    missing: bool = False,
) -> None:
    keys = [f"exports/gpu/20260301-20260401/{assembly}/gpu-{part}.csv.gz" for part in (1, 2)]
    for key, some in zip(keys, (rows[:3], rows[3:]), strict=True):
        if not (missing and key == keys[1]):
            s3.put_object(Bucket=bucket, Key=key, Body=gzip.compress(csv_text(some).encode()))
    span = {"start": "20260301T000000.000Z", "end": "20260401T000000.000Z"}
    manifest = json.dumps({"bucket": bucket, "reportName": "gpu", "billingPeriod": span, "reportKeys": keys})
    s3.put_object(
        Bucket=bucket, Key=f"exports/gpu/20260301-20260401/{assembly}/gpu-Manifest.json", Body=manifest
    )
    if live:
        s3.put_object(Bucket=bucket, Key="exports/gpu/20260301-20260401/gpu-Manifest.json", Body=manifest)


def _load(store: Store, endpoint: str, address: str) -> BillRun:
    return collect_bills(store, [BucketTree(address, Config(aws=Aws(endpoint_url=endpoint)))], "aws")


def _rows(store: Store) -> list[tuple[Any, ...]]:
    return store.query("SELECT source, billing_period, count(*) FROM charges GROUP BY ALL")[1]


@pytest.mark.ci
def test_an_export_in_s3_through_its_manifests(s3: Any, endpoint: str, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="through")
    _deliver(s3, "through", "old", ROWS[:4], live=False)
    _deliver(s3, "through", "new", ROWS)
    s3.put_object(Bucket="through", Key="exports/gpu2/other.csv", Body="not of this export")
    store = Store(tmp_path / "store.duckdb")
    assert not _load(store, endpoint, "s3://through/exports/gpu").errors
    assert _rows(store) == [("s3://through/exports/gpu", "2026-03", 6)]
    again = _load(store, endpoint, "s3://through/exports/gpu/")
    assert not again.results and "unchanged" in [finding.code for finding in again.findings]
    assert store.query("SELECT count(DISTINCT source_file) FROM charges")[1] == [(2,)]


@pytest.mark.ci
def test_a_delivery_in_progress_is_refused(s3: Any, endpoint: str, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="half")
    _deliver(s3, "half", "new", ROWS, missing=True)
    run = _load(Store(tmp_path / "store.duckdb"), endpoint, "s3://half")
    assert "gpu-2.csv.gz is not there" in run.errors[0].message


@pytest.mark.slow
def test_what_is_refused_is_said(s3: Any, endpoint: str, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="empty")
    store = Store(tmp_path / "store.duckdb")
    assert _load(store, endpoint, "s3://nowhere/x").errors[0].message == "there is no bucket s3://nowhere"
    assert "there is nothing at s3://empty/x" in _load(store, endpoint, "s3://empty/x").errors[0].message
