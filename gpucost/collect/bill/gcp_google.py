"""What BigQuery and Cloud Storage share: who asks, where, and their failures in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpucost.collect.base import require
from gpucost.errors import SourceError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

LOGIN = "gcloud auth application-default login"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def is_loopback(url: str | None) -> bool:
    """Whether an endpoint lies on this machine: an emulator, which asks nobody who is there."""
    host = urlsplit(url or "").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def login(endpoint: str | None, project: str | None) -> tuple[Credentials, str | None]:
    """The credentials in force and the project that is asked from. Raises SourceError within seconds where there are none."""
    require("gcp")
    if is_loopback(endpoint):
        from google.auth.credentials import AnonymousCredentials

        return AnonymousCredentials(), project or "local"  # type: ignore[no-untyped-call]
    # On a machine outside Google, the search for its metadata server would take ten seconds.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
    import google.auth

    with in_words("Google Cloud"):
        who, own = google.auth.default(scopes=[_SCOPE])
    return who, project or own


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turns what Google's libraries raise into SourceError; `what` was being asked."""
    require("gcp")
    import requests
    from google.api_core import exceptions as its
    from google.auth import exceptions as auth

    try:
        yield
    except auth.InvalidOperation:
        # Refused, and nothing to renew.
        raise SourceError(f"{what}: the credentials have expired or are refused", LOGIN) from None
    except auth.DefaultCredentialsError as error:
        if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            raise SourceError(
                f"{what}: {_line(error)}", "GOOGLE_APPLICATION_CREDENTIALS should name a credentials file"
            ) from None
        raise SourceError(f"{what}: no credentials found", LOGIN) from None
    except auth.GoogleAuthError as error:
        raise SourceError(f"{what}: the login has expired or is refused: {_line(error)}", LOGIN) from None
    except its.Unauthorized as error:
        raise SourceError(f"{what}: the credentials have expired or are refused: {_line(error)}", LOGIN) from None
    except its.Forbidden as error:
        raise SourceError(
            f"{what}: not allowed: {_line(error)}", "see docs/billing-gcp.md for the roles that are needed"
        ) from None
    except its.NotFound as error:
        raise SourceError(f"{what}: not there: {_line(error)}", "check the name; see docs/billing-gcp.md") from None
    except its.TooManyRequests as error:
        raise SourceError(f"{what}: throttled, again and again: {_line(error)}", "try again later") from None
    except (its.GoogleAPIError, requests.RequestException) as error:
        raise SourceError(f"{what}: {_line(error)}", "try again later; nothing of it was loaded") from None


def _line(error: Exception) -> str:
    error = getattr(error, "cause", None) or error  # of retries that came to nothing, what the last one failed with
    return " ".join(str(getattr(error, "message", None) or error).split())[:300]
