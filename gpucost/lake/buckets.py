"""Object stores that hold a lake: S3, Google Cloud Storage, Azure Blob, through the libraries that read bills from them.

An upload is there whole or not at all. (Not so through pyarrow's file systems: a stream that is interrupted still ends its
upload, and on Azure a file that is replaced is empty for a while.)
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from gpucost.collect import clouds
from gpucost.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from gpucost.config.model import Aws

_AGAIN = "run the command again: what is done stays"
_ATTEMPTS = 4
_CHUNK = 8 * 2**20
_SECONDS = 20.0


class Found(NamedTuple):
    """A file that is there: its key, its size in bytes and when it was written, in seconds since 1970."""

    key: str
    size: int
    written: float


class Bucket(Protocol):
    """What a lake needs of an object store; keys are whole."""

    def listed(self, prefix: str) -> Iterator[Found]:
        """Every file whose key begins so."""

    def get(self, key: str, out: BinaryIO) -> None:
        """Write what a file holds to `out`, an empty file. Raises FileNotFoundError."""

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        """Write or replace a file: others see what it held before, or all of `source`."""

    def delete(self, key: str) -> None:
        """Remove a file, if it is there."""

    def in_words(self, what: str) -> AbstractContextManager[None]:
        """Turns what the library raises into a GpucostError that names `what`; FileNotFoundError goes through."""


class S3Bucket:
    """A bucket of S3, or of a server like it that [aws] endpoint_url names; credentials are those that boto3 finds."""

    def __init__(self, name: str, settings: Aws, region: str | None = None) -> None:
        self._name, self._settings, self._region = name, settings, region

    def listed(self, prefix: str) -> Iterator[Found]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=prefix):
            for item in page.get("Contents", []):
                yield Found(item["Key"], item["Size"], item["LastModified"].timestamp())

    def get(self, key: str, out: BinaryIO) -> None:
        from botocore import exceptions as its

        for attempt in range(_ATTEMPTS):
            out.seek(0)
            out.truncate()
            try:
                for chunk in self._client.get_object(Bucket=self._name, Key=key)["Body"].iter_chunks(_CHUNK):
                    out.write(chunk)
                return
            # an answer that breaks off; the library tries again only before it begins
            except (its.IncompleteReadError, its.ReadTimeoutError, its.ResponseStreamingError):
                if attempt == _ATTEMPTS - 1:
                    raise

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        del size
        self._client.upload_fileobj(source, self._name, key)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._name, Key=key)

    @cached_property
    def _client(self) -> Any:
        session = clouds.aws_login(self._settings)
        return clouds.aws_client(session, self._settings, "s3", self._region or session.region_name or "us-east-1", _ATTEMPTS)

    @contextmanager
    def in_words(self, what: str) -> Iterator[None]:
        with clouds.aws_in_words(what, _AGAIN, "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject on this lake"):
            from botocore.exceptions import ClientError

            try:
                yield
            except ClientError as error:
                code = error.response["Error"].get("Code")
                if code in ("NoSuchKey", "404"):
                    raise FileNotFoundError(what) from None
                if code == "NoSuchBucket":
                    raise _none(f"bucket s3://{self._name}", f"aws s3 mb s3://{self._name}") from None
                raise


class GcsBucket:
    """A bucket of Google Cloud Storage, or of a server like it; credentials are the application default ones."""

    def __init__(self, name: str, endpoint: str | None) -> None:
        self._name, self._endpoint = name, endpoint

    def listed(self, prefix: str) -> Iterator[Found]:
        from google.api_core.exceptions import NotFound

        try:
            for blob in self._opened.list_blobs(prefix=prefix, **self._patience):
                yield Found(blob.name, blob.size or 0, blob.updated.timestamp())
        except NotFound:
            raise self._gone() from None

    def get(self, key: str, out: BinaryIO) -> None:
        # the library compares the checksum: a broken download raises
        self._opened.blob(key).download_to_file(out, **self._patience)

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        self._opened.blob(key).upload_from_file(source, size=size, **self._patience)

    def delete(self, key: str) -> None:
        self._opened.blob(key).delete(**self._patience)

    @cached_property
    def _patience(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        return {"timeout": 60, "retry": DEFAULT_RETRY.with_timeout(_SECONDS)}

    @cached_property
    def _opened(self) -> Any:
        return clouds.google_bucket(self._name, self._endpoint)

    @contextmanager
    def in_words(self, what: str) -> Iterator[None]:
        with clouds.google_in_words(what, _AGAIN, ("", "roles/storage.objectUser on the bucket allows it")):
            from google.api_core.exceptions import NotFound

            try:
                yield
            except NotFound as error:
                # a missing object is told of a missing bucket by words alone
                if "bucket does not exist" in str(error.message):
                    raise self._gone() from None
                raise FileNotFoundError(what) from None

    def _gone(self) -> StoreError:
        return _none(f"bucket gs://{self._name}", f"gcloud storage buckets create gs://{self._name}")


class BlobContainer:
    """A container of Azure Blob Storage; credentials as `azure_container` finds them."""

    def __init__(self, name: str, host: str, sas: str) -> None:
        self._name, self._sas = name, sas
        account, _, rest = host.partition(".")
        self._account, self._url = account, f"https://{account}.{rest.replace('dfs.', 'blob.', 1) or 'blob.core.windows.net'}"

    def listed(self, prefix: str) -> Iterator[Found]:
        for blob in self._opened.list_blobs(name_starts_with=prefix or None):
            yield Found(blob.name, blob.size or 0, blob.last_modified.timestamp())

    def get(self, key: str, out: BinaryIO) -> None:
        self._opened.download_blob(key).readinto(out)

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        self._opened.upload_blob(key, source, length=size, overwrite=True)

    def delete(self, key: str) -> None:
        self._opened.delete_blob(key)

    @cached_property
    def _opened(self) -> Any:
        return clouds.azure_container(self._url, self._account, self._name, self._sas)

    @contextmanager
    def in_words(self, what: str) -> Iterator[None]:
        with clouds.azure_in_words(what, _AGAIN, "the role Storage Blob Data Contributor on the container allows it"):
            from azure.core.exceptions import ResourceNotFoundError

            try:
                yield
            except ResourceNotFoundError as error:
                if getattr(error, "error_code", None) == "ContainerNotFound":
                    create = f"az storage container create --name {self._name} --account-name {self._account}"
                    raise _none(f"container {self._name} in the account {self._account}", create) from None
                raise FileNotFoundError(what) from None


def _none(what: str, create: str) -> StoreError:
    return StoreError(f"there is no {what}", f"check the name, or create it: {create}")
