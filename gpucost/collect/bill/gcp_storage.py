"""Exports in Google Cloud Storage: `gs://bucket/prefix`, such as BigQuery's EXPORT DATA writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.collect.bill.gcp_google import in_words, login
from gpucost.collect.bill.opening import ENDINGS, Entry, Tree
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_S = 30


class GcsTree(Tree):
    """The objects below a `gs://` address that may be exports. `endpoint` is another base URL, of an emulator."""

    def __init__(self, address: str, *, endpoint: str | None = None, project: str | None = None) -> None:
        bucket, _, prefix = address.removeprefix("gs://").partition("/")
        if not bucket:
            raise UsageError(f"{address} names no bucket", "gs://bucket/prefix")
        self.name = address
        self.is_file = prefix.lower().endswith(ENDINGS)
        self._bucket_name = bucket
        self._prefix = prefix
        self._endpoint = endpoint
        self._project = project
        self._found: Any = None

    def entries(self) -> list[Entry]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        with in_words(self.name):
            # With a slash, else `exports` would find `exports-old`, too.
            prefix = self._prefix if self.is_file or not self._prefix or self._prefix.endswith("/") else self._prefix + "/"
            listed = [
                Entry(blob.name, blob.size or 0, f"{blob.name}:{blob.md5_hash or blob.crc32c or blob.generation}")
                for blob in self._bucket().list_blobs(prefix=prefix, timeout=60, retry=DEFAULT_RETRY.with_timeout(_PATIENCE_S))
            ]
        return [entry for entry in listed if entry.key.lower().endswith(ENDINGS) and (not self.is_file or entry.key == prefix)]

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = directory / entry.key.rpartition("/")[2]
        with in_words(self.shown(entry)):
            # The checksum is compared by the library: a broken download raises.
            self._bucket().blob(entry.key).download_to_filename(str(target), timeout=120)
        return target

    def shown(self, entry: Entry) -> str:
        return f"gs://{self._bucket_name}/{entry.key}"

    def _bucket(self) -> Any:
        if self._found is None:
            who, project = login(self._endpoint, self._project)
            from google.cloud.storage import Client

            options = {"api_endpoint": self._endpoint} if self._endpoint else None
            self._found = Client(project=project or "none", credentials=who, client_options=options).bucket(self._bucket_name)
        return self._found
