"""Buckets as gpucost reads and writes them: addresses, tags, truncated answers, invalid keys."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost import objects
from gpucost.collect.bill.opening import BucketTree
from gpucost.config.model import Aws, Config, Gcp
from gpucost.errors import SourceError, UsageError
from gpucost.objects import open_address
from tests.loopback import Quiet, serving
from tests.services.test_bill_buckets import moto, s3  # noqa: F401 - fixtures
from tests.text_tables import text_rows

MD5 = "5d41402abc4b2a76b9719d911017c592"


LISTED = """<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated><Contents><Key>{key}</Key>
    <LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"{tag}"</ETag><Size>1000</Size></Contents></ListBucketResult>"""


class Broken(Quiet):
    """Serve Cloud Storage with one file of 1,000 bytes; each bucket answers differently."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802
        bucket = self.path.strip("/").split("/")[0].partition("?")[0]
        if "list-type" in self.path:
            if bucket.isdigit():
                code = {"400": "ExpiredToken", "403": "AccessDenied", "503": "SlowDown"}.get(bucket, "Wrong")
                error = f"<Error><Code>{code}</Code><Message>so\x1b[31m</Message></Error>"
                self.respond(int(bucket), error.encode())
                return
            key = {"empty": "f//a.csv", "dots": "f/../a.csv"}.get(bucket, "f/a.csv")
            self.respond(200, LISTED.format(key=key, tag=MD5).encode())
            return
        tag = "def" if bucket == "newer" else MD5
        headers = {"ETag": f'"{tag}"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        size = 500 if bucket in ("cut", "short") else 1000
        self.respond(200, b"x" * size, headers, missing=500 if bucket == "cut" else 0)


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    with serving(Broken) as url:
        yield url


BROKEN = r"""
400   | credentials are refused or have expired: ExpiredToken | gcloud auth
401   | credentials are refused or have expired               | gcloud auth
403   | not allowed: AccessDenied                             | roles/storage.objectViewer
503   | throttled repeatedly: SlowDown                        | wait a while
418   | Wrong so                                              | run the command again
cut   | the connection failed                                 | run the command again
short | is being replaced                                     | run the command again
newer | is being replaced                                     | run the command again
empty | a key with an empty part.* f//a.csv                   | copy the files
dots  | a key with an empty part.* f/\.\./a.csv               | copy the files
"""


@pytest.mark.parametrize(("bucket", "words", "fix"), text_rows(BROKEN))
def test_broken_answer_is_named_with_a_fix(
    broken: str, bucket: str, words: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 1})
    tree = BucketTree(f"gs://{bucket}/f", Config(gcp=Gcp(storage_endpoint=broken)))
    with pytest.raises(SourceError, match=f"^gs://{bucket}/f.*{words}") as caught:
        tree.fetch(tree.entries()[0], tmp_path)
    assert fix in str(caught.value.fix) and "\x1b" not in caught.value.message


def test_login_that_expires_during_a_transfer_is_named(broken: str) -> None:
    answers: list[dict[str, object]] = [{"token": "first", "expires_at": None}]
    named, _ = open_address("gs://fine", Config())
    bucket = replace(named, log_in=lambda: (broken, {}, answers.pop))
    with pytest.raises(
        SourceError, match=r"gs://fine/f: the credentials are refused or have expired: .*pop from empty"
    ) as caught:
        bucket.found("f")
    assert caught.value.fix == "gcloud auth application-default login"


def test_whole_file_is_fetched(broken: str, tmp_path: Path) -> None:
    tree = BucketTree("gs://fine/f", Config(gcp=Gcp(storage_endpoint=broken)))
    (entry,) = tree.entries()
    assert tree.fetch(entry, tmp_path).read_bytes() == b"x" * 1000
    assert entry.tag == "f/a.csv:XUFAKrxLKna5cZ2REBfFkg=="  # MD5 as the JSON API writes it


TAGS = """
s3://bucket                               | 5d41402abc4b2a76b9719d911017c592
gs://bucket                               | a/b.csv:XUFAKrxLKna5cZ2REBfFkg==
https://account.blob.core.windows.net/box | a/b.csv:5d41402abc4b2a76b9719d911017c592
"""


@pytest.mark.parametrize(("url", "tag"), text_rows(TAGS))
def test_tag_is_spelled_as_in_stores_of_earlier_versions(url: str, tag: str) -> None:
    meta = {
        "path": "a/b.csv",
        "size": 5,
        "e_tag": f'"{MD5}"',
        "last_modified": datetime(2026, 1, 1, tzinfo=UTC),
    }
    assert open_address(url, Config())[0]._entry(meta).tag == tag


SHOWN = """
s3://bucket                                                    | s3://bucket
s3://bucket/a/b/                                               | s3://bucket/a/b
s3://bucket/a#b?endpoint_override=minio:9000&scheme=http       | s3://bucket/a#b
gs://bucket/a                                                  | gs://bucket/a
abfss://box@account.dfs.core.windows.net/a?sig=hunter2         | abfss://box@account.dfs.core.windows.net/a
https://account.blob.core.windows.net/box/a%20b?sv=1&sig=hunter2 | https://account.blob.core.windows.net/box/a b
http://127.0.0.1:10000/devstoreaccount1/box/a                  | http://127.0.0.1:10000/devstoreaccount1/box/a
"""


@pytest.mark.parametrize(("address", "shown"), text_rows(SHOWN))
def test_address_is_shown_without_its_options(address: str, shown: str) -> None:
    assert BucketTree(address, Config()).name == shown


WRONG = """
s3://
gs:///x
s3://key:hunter2@bucket/x
https://account.blob.core.windows.net/
ftp://hunter2@host/x
abfss://account/x
s3://bucket/x?token=hunter2
https://me:hunter2@account.blob.core.windows.net/box
"""


@pytest.mark.parametrize("address", WRONG.split())
def test_wrong_address_is_refused_without_its_secret(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_address(address, Config())
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}" and caught.value.fix


@pytest.mark.ci
def test_bucket_is_queried_in_its_own_region(s3: object, moto: str) -> None:  # noqa: F811
    s3.create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-west-3"})  # type: ignore[attr-defined]
    bucket, _ = open_address("s3://far", Config(aws=Aws(endpoint_url=moto)))
    bucket.put("a", b"x")
    assert bucket.read("a") == b"x" and bucket._store.config["region"] == "eu-west-3"


@pytest.mark.slow
def test_signal_ends_the_wait_for_a_silent_server() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            server = f"http://127.0.0.1:{silent.getsockname()[1]}"
            bucket, _ = open_address("gs://bucket", Config(gcp=Gcp(storage_endpoint=server)))
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            began = time.monotonic()
            with pytest.raises(Interrupted):
                bucket.found("a")
        assert time.monotonic() - began < 10
    finally:
        signal.signal(signal.SIGUSR1, before)
