"""What everything that asks a cloud shares: the login, patience, and what can go wrong in words."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpucost.errors import ConfigError, GpucostError, SourceError
from gpucost.http import excerpt

if TYPE_CHECKING:
    import boto3
    from azure.core.credentials import TokenCredential
    from google.auth.credentials import Credentials

    from gpucost.config.model import Aws


class NoCredentials(GpucostError):
    """No credentials were found for this cloud: it is skipped in one line."""


# What a cloud's APIs are asked with: an extra of the package.
_LIBRARIES = {"aws": "boto3", "gcp": "google.api_core", "azure": "azure.identity"}


def require(cloud: str, *others: str) -> None:
    """Raise NoCredentials if the libraries that ask `cloud` (aws, gcp, azure) are not installed, or one of `others`."""
    with suppress(ModuleNotFoundError):
        if all(find_spec(library) for library in (_LIBRARIES[cloud], *others)):
            return
    raise NoCredentials(f"{cloud}: its libraries are not installed", f"pip install 'gpucost[{cloud}]'")


# A kind of exceptions, or several; what they mean, {} being the library's own words; and what helps.
Failure = tuple[type[Exception] | tuple[type[Exception], ...], str, str]


def line(error: BaseException) -> str:
    """The first line of what a library says."""
    error = (
        getattr(error, "cause", None) or error
    )  # of retries that came to nothing, what the last one failed with
    text = str(getattr(error, "message", None) or error).strip() or type(error).__name__
    return excerpt(text.splitlines()[0])


@contextmanager
def in_words(who: str, failures: Iterable[Failure]) -> Iterator[None]:
    """Turns what a library raises into SourceError, by the first of `failures` that fits; `who` is named first."""
    try:
        yield
    except Exception as error:
        for kinds, words, fix in failures:
            if isinstance(error, kinds):
                raise SourceError(f"{who}: {words.format(line(error))}", fix) from error
        raise


def is_loopback(url: str | None) -> bool:
    """Whether an endpoint lies on this machine: an emulator, which asks nobody who is there."""
    url = url or ""
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


HALF = "half an answer, cut off or no answer of AWS at all"
AWS_LOGIN = "aws sso login, or renew the credentials that AWS_PROFILE names"
# What AWS refuses for, by the codes of its errors: {0} is the operation, {1} the code.
_AWS_REFUSALS = (
    (
        "ExpiredToken ExpiredTokenException RequestExpired TokenRefreshRequired",
        "the credentials have expired ({0}: {1})",
        AWS_LOGIN,
    ),
    (
        "AuthFailure IncompleteSignature InvalidAccessKeyId InvalidClientTokenId InvalidSignatureException "
        "SignatureDoesNotMatch UnrecognizedClientException",
        "the credentials are refused ({0}: {1})",
        "check the credentials, the clock, and whether the account has this region enabled",
    ),
    (
        "AccessDenied AccessDeniedException UnauthorizedOperation",
        "{0} is not allowed ({1})",
        "allow {permissions}",
    ),
    (
        "OptInRequired",
        "the account has not enabled this region ({1})",
        "enable it, or leave it out of [aws] regions",
    ),
    (
        "Throttling RequestLimitExceeded TooManyRequestsException SlowDown",
        "{0} is throttled, again and again ({1})",
        "wait a while, then {again}",
    ),
)


def aws_login(settings: Aws) -> boto3.Session:
    """A session with the credentials that boto3 finds. Raises NoCredentials, and ConfigError for a profile that is not there."""
    require("aws")
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=settings.profile)
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise ConfigError(
            f"aws: {error}", "aws configure list-profiles shows the profiles; [aws] profile names one"
        ) from None
    if credentials is None:
        raise NoCredentials("aws: no credentials found", "aws configure, aws sso login, or set AWS_PROFILE")
    return session


def aws_client(session: boto3.Session, settings: Aws, service: Any, region: str, attempts: int = 6) -> Any:
    """A client of a service. Throttling and passing failures are tried again, with growing pauses."""
    from botocore.config import Config

    patience = Config(
        retries={"mode": "standard", "total_max_attempts": attempts}, connect_timeout=10, read_timeout=60
    )
    try:
        return session.client(
            service, region_name=region, endpoint_url=settings.endpoint_url, config=patience
        )
    except ValueError as error:
        raise ConfigError(f"aws: {error}", "[aws] endpoint_url and regions name where AWS is asked") from None


@contextmanager
def aws_in_words(who: str, again: str, permissions: str) -> Iterator[None]:
    """Turns boto3's failures into SourceError, ConfigError or NoCredentials.

    `who` is named first in each message; `again` is the command that asks once more; `permissions` are what it needs.
    """
    require("aws")
    from botocore import exceptions as its
    from botocore.parsers import ResponseParserError

    network = f"check the network, [aws] endpoint_url and regions, then {again}"
    failures: tuple[Failure, ...] = (
        (
            (its.CredentialRetrievalError, its.PartialCredentialsError),
            "the credentials cannot be used: {}",
            AWS_LOGIN,
        ),
        ((its.SSOError, its.TokenRetrievalError), "the login has expired: {}", AWS_LOGIN),
        (
            (its.EndpointConnectionError, its.ConnectTimeoutError, its.ProxyConnectionError),
            "cannot be reached: {}",
            network,
        ),
        (ResponseParserError, HALF, again),
        ((its.HTTPClientError, its.IncompleteReadError), "the connection broke off: {}", again),
        (its.BotoCoreError, "{}", again),
    )
    with in_words(who, failures):
        try:
            yield
        except its.NoCredentialsError:
            raise NoCredentials(f"{who}: no credentials found", AWS_LOGIN) from None
        except its.ClientError as error:
            code, text = (str(error.response["Error"].get(key, "")) for key in ("Code", "Message"))
            kind = "Throttling" if "Throttl" in code else code
            words, fix = f"{error.operation_name} failed: {code} {text}".rstrip(), again
            for codes, meaning, remedy in _AWS_REFUSALS:
                if kind in codes.split():
                    words, fix = meaning.format(error.operation_name, code), remedy
            raise SourceError(f"{who}: {words}", fix.format(again=again, permissions=permissions)) from None


GOOGLE_LOGIN = "gcloud auth application-default login"
# How a login that cannot be renewed shows in gRPC: as a server that is not there.
GRPC_NO_LOGIN = "metadata from plugin failed"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def google_login(endpoint: str | None, project: str | None) -> tuple[Credentials, str | None]:
    """The credentials in force and the project that is asked from. Raises NoCredentials within seconds where there are none."""
    require("gcp")
    if is_loopback(endpoint):
        from google.auth.credentials import AnonymousCredentials

        return AnonymousCredentials(), project or "local"  # type: ignore[no-untyped-call]
    # On a machine outside Google, the search for its metadata server would take ten seconds.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
    import google.auth

    who, own = google.auth.default(scopes=[_GOOGLE_SCOPE])
    return who, project or own


@contextmanager
def google_in_words(who: str, again: str, forbidden: tuple[str, str], other: str = "") -> Iterator[None]:
    """Turns what Google's libraries raise into SourceError or NoCredentials.

    `who` is named first; `forbidden` is what may not be done, and what allows it; `again` is what helps where nobody refused;
    `other` words stand before failures of no kind in particular.
    """
    require("gcp")
    import requests
    from google.api_core import exceptions as its
    from google.auth import exceptions as auth

    failures: tuple[Failure, ...] = (
        # refused, and nothing to renew
        (auth.InvalidOperation, "the credentials have expired or are refused", GOOGLE_LOGIN),
        (auth.GoogleAuthError, "the login has expired or is refused: {}", GOOGLE_LOGIN),
        (its.Unauthorized, "the credentials have expired or are refused: {}", GOOGLE_LOGIN),
        (its.Forbidden, f"{forbidden[0]}not allowed: {{}}", forbidden[1]),
        (its.NotFound, "not there: {}", "check the name; see docs/billing-gcp.md"),
        (its.TooManyRequests, "throttled, again and again: {}", f"wait a while, then {again}"),
        (its.ServiceUnavailable, "cannot be reached: {}", again),
        (its.RetryError, "no answer in time: {}", again),
        ((its.GoogleAPIError, requests.RequestException), f"{other}{{}}", again),
    )
    with in_words(who, failures):
        try:
            yield
        except its.ServiceUnavailable as error:
            if GRPC_NO_LOGIN in str(error):
                raise SourceError(f"{who}: the login has expired: {line(error)}", GOOGLE_LOGIN) from None
            raise
        except auth.DefaultCredentialsError as error:
            if isinstance(error, auth.InvalidOperation):
                raise
            # a file that is named but cannot be used is more than nobody being logged in
            if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
                raise SourceError(
                    f"{who}: {line(error)}", "GOOGLE_APPLICATION_CREDENTIALS names a credentials file"
                ) from None
            raise NoCredentials(f"{who}: no credentials found", GOOGLE_LOGIN) from None


AZURE_LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"


def azure_login() -> TokenCredential:
    """The credentials that azure-identity finds; whether there are any shows when a token is asked for."""
    require("azure")
    from azure.identity import DefaultAzureCredential

    # Its refusals list every way to log in, at length.
    logging.getLogger("azure").setLevel(logging.ERROR)
    return DefaultAzureCredential(exclude_interactive_browser_credential=True, process_timeout=4)


@contextmanager
def azure_in_words(who: str) -> Iterator[None]:
    """Turns what Azure's libraries raise into SourceError; `who` was being asked."""
    require("azure")
    from azure.core import exceptions as its

    failures: tuple[Failure, ...] = (
        (its.ClientAuthenticationError, "the credentials have expired or are refused: {}", AZURE_LOGIN),
        (its.ResourceNotFoundError, "not there: {}", "check the name; see docs/billing-azure.md"),
        (its.AzureError, "{}", "try again later; nothing of it was loaded"),
    )
    with in_words(who, failures):
        try:
            yield
        except its.HttpResponseError as error:
            if isinstance(error, its.ClientAuthenticationError) and error.status_code is None:
                raise SourceError(f"{who}: no credentials found", AZURE_LOGIN) from error
            if error.status_code == 403:
                raise SourceError(
                    f"{who}: not allowed: {line(error)}",
                    "see docs/billing-azure.md for the roles that are needed",
                ) from error
            raise
