"""Exports in S3, through boto3: `s3://bucket/prefix`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost.collect.aws import client, in_words, logged_in
from gpucost.collect.base import require
from gpucost.collect.bill.opening import ENDINGS, Entry, Tree
from gpucost.errors import SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpucost.config.model import Aws

SCHEME = "s3://"
_CHUNK = 8 << 20
_ATTEMPTS = 3
_NEEDS = "s3:ListBucket on the bucket and s3:GetObject on its files"
# Of a file that is asked for as it was listed, and is another one by now.
_REPLACED = ("PreconditionFailed", "412")


class S3Tree(Tree):
    """The files below a prefix of a bucket; credentials are those that boto3 finds."""

    def __init__(self, address: str, settings: Aws) -> None:
        bucket, _, prefix = address.removeprefix(SCHEME).partition("/")
        if not bucket:
            raise UsageError(f"{address} names no bucket", "s3://bucket/prefix")
        self.name = address.rstrip("/")
        self.bucket = bucket
        self.prefix = prefix.strip("/")
        self._settings = settings
        self._client: Any = None

    def entries(self) -> list[Entry]:
        entries = [entry for entry in self._listed(self.prefix) if self._is_below(entry.key)]
        self.is_file = bool(entries) and entries[0].key == self.prefix
        if not entries:
            raise SourceError(f"there is nothing at {self.name}", f"aws s3 ls --recursive {SCHEME}{self.bucket}/")
        return entries

    def around(self) -> list[Entry]:
        # A manifest of Data Exports lies under metadata/, its files beside that.
        above = self.prefix.partition("/metadata/")[0] if "/metadata/" in self.prefix else self.prefix.rpartition("/")[0]
        return self._listed(above)

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = directory / Path(entry.key).name
        with self._in_words():
            for attempt in range(_ATTEMPTS):
                got = 0
                answer = self._s3().get_object(Bucket=self.bucket, Key=entry.key, IfMatch=f'"{entry.tag}"')
                with target.open("wb") as out:
                    for chunk in answer["Body"].iter_chunks(_CHUNK):
                        got += out.write(chunk)
                if got == entry.size:
                    return target
                if attempt == _ATTEMPTS - 1:
                    break
        raise SourceError(f"{self.shown(entry)} broke off after {got:,} of {entry.size:,} bytes", "run the command again")

    def shown(self, entry: Entry) -> str:
        return f"{SCHEME}{self.bucket}/{entry.key}"

    def _is_below(self, key: str) -> bool:
        if not key.lower().endswith(ENDINGS):
            return False
        return not self.prefix or key == self.prefix or key.startswith(self.prefix + "/")

    def _listed(self, prefix: str) -> list[Entry]:
        with self._in_words():
            pages = self._s3().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
            return [
                Entry(item["Key"], item["Size"], item["ETag"].strip('"'))
                for page in pages
                for item in page.get("Contents", [])
                if item["Size"] and not item["Key"].endswith("/")
            ]

    def _s3(self) -> Any:
        if self._client is None:
            session = logged_in(self._settings)
            self._client = client(session, self._settings, "s3", session.region_name or "us-east-1")
        return self._client

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns what boto3 fails with into words."""
        require("aws")
        from botocore.exceptions import ClientError

        with in_words(self.name, "run the command again", _NEEDS):
            try:
                yield
            except ClientError as error:
                if error.response["Error"].get("Code") not in _REPLACED:
                    raise
                raise SourceError(f"{self.name}: AWS is delivering a new version", "run the command again") from None
            except OSError as error:
                raise SourceError(
                    f"{self.name}: cannot keep the file on disk: {error.strerror or error}", "TMPDIR names another disk"
                ) from None
