"""Exports in Azure Blob Storage: the URL of a container or of a directory in it, as Cost Management delivers them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gpucost.collect.bill.azure_identity import in_words, login
from gpucost.collect.bill.trees import ENDINGS, Entry, Tree
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_SCOPE = "https://storage.azure.com/.default"
# The library's own waits add up to three minutes.
_RETRIES: dict[str, Any] = {"retry_total": 3, "initial_backoff": 1, "increment_base": 2}


class BlobTree(Tree):
    """The blobs below `https://<account>.blob.core.windows.net/<container>/<directory>` that may be exports.

    Credentials: a SAS token in the URL, else the variable AZURE_STORAGE_CONNECTION_STRING (of this account), else those
    that azure-identity finds.
    """

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        parts = [unquote(part) for part in url.path.split("/") if part]
        # An emulator has the account in the path: http://127.0.0.1:10000/devstoreaccount1/container/directory.
        own = [] if ".blob." in (url.hostname or "") else parts[:1]
        inside = parts[len(own) :]
        if not inside:
            raise UsageError(
                f"{url.netloc}{url.path} names no container", "https://<account>.blob.core.windows.net/<container>/<directory>"
            )
        self._account_url = "/".join([f"{url.scheme}://{url.netloc}", *own])
        self._container_name = inside[0]
        self._prefix = "/".join(inside[1:])
        self._sas = url.query
        # Never the SAS token.
        self.name = "/".join([self._account_url, *inside])
        self.is_file = self._prefix.lower().endswith(ENDINGS)
        self._opened: Any = None

    def entries(self) -> list[Entry]:
        prefix = self._prefix if self.is_file or not self._prefix else self._prefix + "/"
        found = self._listed(prefix)
        return [entry for entry in found if not self.is_file or entry.key == prefix]

    def around(self) -> list[Entry]:
        return self._listed(self._prefix.rpartition("/")[0])

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = directory / entry.key.rpartition("/")[2]
        with in_words(self.shown(entry)), target.open("wb") as out:
            self._container().download_blob(entry.key).readinto(out)
        return target

    def shown(self, entry: Entry) -> str:
        return f"{self._account_url}/{self._container_name}/{entry.key}"

    def _listed(self, prefix: str) -> list[Entry]:
        with in_words(self.name):
            return [
                Entry(blob.name, blob.size or 0, f"{blob.name}:{blob.etag}")
                for blob in self._container().list_blobs(name_starts_with=prefix or None)
                if blob.name.lower().endswith(ENDINGS)
            ]

    def _container(self) -> Any:
        if self._opened is None:
            from azure.storage.blob import ContainerClient

            connection = os.environ.get(CONNECTION, "")
            with in_words(self.name):
                if not self._sas and self._account() in connection:
                    self._opened = ContainerClient.from_connection_string(connection, self._container_name, **_RETRIES)
                elif self._sas:
                    self._opened = ContainerClient(self._account_url, self._container_name, self._sas, **_RETRIES)
                else:
                    who = login()
                    who.get_token(_SCOPE)  # the client would retry that, too, where there are no credentials
                    self._opened = ContainerClient(self._account_url, self._container_name, who, **_RETRIES)
        return self._opened

    def _account(self) -> str:
        url = urlsplit(self._account_url)
        return "AccountName=" + (url.path.strip("/") or (url.hostname or "").partition(".")[0]) + ";"
