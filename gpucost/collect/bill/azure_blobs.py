"""Exports in Azure Blob Storage: the URL of a container or of a directory in it, as Cost Management delivers them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gpucost.collect.base import require
from gpucost.collect.bill.opening import ENDINGS, Entry, Tree
from gpucost.errors import SourceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from azure.core.credentials import TokenCredential

LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"


def login() -> TokenCredential:
    """The credentials that azure-identity finds; whether there are any shows when a token is asked for."""
    require("azure")
    from azure.identity import DefaultAzureCredential

    # Its refusals list every way to log in, at length.
    logging.getLogger("azure").setLevel(logging.ERROR)
    return DefaultAzureCredential(exclude_interactive_browser_credential=True, process_timeout=4)


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turns what Azure's libraries raise into SourceError; `what` was being asked."""
    require("azure")
    from azure.core import exceptions as its

    try:
        yield
    except its.ClientAuthenticationError as error:
        if error.status_code is None:
            raise SourceError(f"{what}: no credentials found", LOGIN) from None
        raise SourceError(f"{what}: the credentials have expired or are refused: {line(error)}", LOGIN) from None
    except its.ResourceNotFoundError as error:
        raise SourceError(f"{what}: not there: {line(error)}", "check the name; see docs/billing-azure.md") from None
    except its.HttpResponseError as error:
        if error.status_code == 403:
            raise SourceError(
                f"{what}: not allowed: {line(error)}", "see docs/billing-azure.md for the roles that are needed"
            ) from None
        raise SourceError(f"{what}: {line(error)}", "try again later; nothing of it was loaded") from None
    except its.AzureError as error:
        raise SourceError(f"{what}: {line(error)}", "try again later; nothing of it was loaded") from None


def line(error: Exception) -> str:
    """The first line of what a library says."""
    return (str(getattr(error, "message", None) or error).strip().splitlines() or [type(error).__name__])[0][:300]


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
        return [entry for entry in self._listed(prefix) if not self.is_file or entry.key == prefix]

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
