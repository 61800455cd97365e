"""Who asks Azure, and Azure's failures in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpucost.errors import SourceError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"


def login() -> TokenCredential:
    """The credentials that azure-identity finds; whether there are any shows when a token is asked for."""
    from azure.identity import DefaultAzureCredential

    # Its refusals list every way to log in, at length.
    logging.getLogger("azure").setLevel(logging.ERROR)
    return DefaultAzureCredential(exclude_interactive_browser_credential=True, process_timeout=4)


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turns what Azure's libraries raise into SourceError; `what` was being asked."""
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
