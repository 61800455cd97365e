"""Shared code for cloud requests: logins, retries, and errors in plain words."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpucost.errors import ConfigError, GpucostError, SourceError
from gpucost.installation import with_extra
from gpucost.texts import excerpt

if TYPE_CHECKING:
    import boto3
    from azure.core.credentials import TokenCredential
    from google.auth.credentials import Credentials

    from gpucost.config.model import Aws


class NoCredentials(GpucostError):
    """No credentials were found for this cloud: it is skipped with one line."""


# Libraries for each cloud's APIs, an extra of the package.
_LIBRARIES = {"aws": "boto3", "gcp": "google.api_core", "azure": "azure.identity"}


def require(cloud: str, *others: str) -> None:
    """Raise NoCredentials if the libraries of `cloud` (aws, gcp, azure) or `others` are missing."""
    with suppress(ModuleNotFoundError):
        if all(find_spec(library) for library in (_LIBRARIES[cloud], *others)):
            return
    raise NoCredentials(f"{cloud}: its libraries are not installed", with_extra(cloud))


# Exception types; their meaning, with {} for the library's text; and the fix.
Failure = tuple[type[Exception] | tuple[type[Exception], ...], str, str]


def line(error: BaseException) -> str:
    """The first line of a library's message."""
    error = getattr(error, "cause", None) or error  # if all retries failed: the last error
    text = str(getattr(error, "message", None) or error).strip() or type(error).__name__
    return excerpt(text.splitlines()[0])


@contextmanager
def in_words(who: str, failures: Iterable[Failure]) -> Iterator[None]:
    """Turn a library's exception into SourceError, by the first match in `failures`.

    The message begins with `who`.
    """
    try:
        yield
    except Exception as error:
        for kinds, words, fix in failures:
            if isinstance(error, kinds):
                raise SourceError(f"{who}: {words.format(line(error))}", fix) from error
        raise


def is_loopback(url: str | None) -> bool:
    """Whether an endpoint is on this machine: an emulator without login."""
    url = url or ""
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


HALF = "an incomplete answer, or not an answer of AWS"
AWS_LOGIN = "aws sso login, or renew the credentials that AWS_PROFILE names"
# Reasons for AWS refusals, by error code: {0} is the operation, {1} the code.
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
        "{0} is throttled repeatedly ({1})",
        "wait a while, then {again}",
    ),
)


def aws_login(settings: Aws) -> boto3.Session:
    """A session with the credentials that boto3 finds.

    Raises NoCredentials, and ConfigError for a missing profile.
    """
    require("aws")
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=settings.profile)
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise ConfigError(
            f"aws: {error}", "list profiles with aws configure list-profiles; name one in [aws] profile"
        ) from None
    if credentials is None:
        raise NoCredentials("aws: no credentials found", "aws configure, aws sso login, or set AWS_PROFILE")
    return session


def aws_client(session: boto3.Session, settings: Aws, service: Any, region: str, attempts: int = 6) -> Any:
    """A client of a service; throttling and transient failures are retried with growing pauses."""
    from botocore.config import Config

    patience = Config(
        retries={"mode": "standard", "total_max_attempts": attempts}, connect_timeout=10, read_timeout=60
    )
    try:
        return session.client(
            service, region_name=region, endpoint_url=settings.endpoint_url, config=patience
        )
    except ValueError as error:
        raise ConfigError(f"aws: {error}", "correct [aws] endpoint_url and regions") from None


@contextmanager
def aws_in_words(who: str, again: str, permissions: str) -> Iterator[None]:
    """Turn boto3's failures into SourceError, ConfigError or NoCredentials.

    Messages begin with `who`; `again` is the command to repeat; `permissions` are the required permissions.
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
# gRPC reports a login that cannot be renewed as an unavailable server.
GRPC_NO_LOGIN = "metadata from plugin failed"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def google_login(endpoint: str | None, project: str | None) -> tuple[Credentials, str | None]:
    """The active credentials and the project for requests.

    Raises NoCredentials within seconds if there are none.
    """
    require("gcp")
    if is_loopback(endpoint):
        from google.auth.credentials import AnonymousCredentials

        return AnonymousCredentials(), project or "local"  # type: ignore[no-untyped-call]
    # Outside Google, the search for its metadata server would take ten seconds.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
    import google.auth

    who, project_of_login = google.auth.default(scopes=[_GOOGLE_SCOPE])
    return who, project or project_of_login


@contextmanager
def google_in_words(who: str, again: str, forbidden: tuple[str, str], other: str = "") -> Iterator[None]:
    """Turn exceptions of Google's libraries into SourceError or NoCredentials.

    Messages begin with `who`; `forbidden` is the forbidden action and its fix; `again` is the fix if access
    was not refused; `other` is put before failures of other kinds.
    """
    require("gcp")
    import requests
    from google.api_core import exceptions as its
    from google.auth import exceptions as auth

    failures: tuple[Failure, ...] = (
        # refused, without anything to renew
        (auth.InvalidOperation, "the credentials have expired or are refused", GOOGLE_LOGIN),
        (auth.GoogleAuthError, "the login has expired or is refused: {}", GOOGLE_LOGIN),
        (its.Unauthorized, "the credentials have expired or are refused: {}", GOOGLE_LOGIN),
        (its.Forbidden, f"{forbidden[0]}not allowed: {{}}", forbidden[1]),
        (its.NotFound, "not found: {}", "check the name"),
        (its.TooManyRequests, "throttled repeatedly: {}", f"wait a while, then {again}"),
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
            # a named file that cannot be used is worse than a missing login
            if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
                raise SourceError(
                    f"{who}: {line(error)}", "name a credentials file in GOOGLE_APPLICATION_CREDENTIALS"
                ) from None
            raise NoCredentials(f"{who}: no credentials found", GOOGLE_LOGIN) from None


AZURE_LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"


def azure_login() -> TokenCredential:
    """The credentials that azure-identity finds; whether any exist shows at the first request."""
    require("azure")
    from azure.identity import DefaultAzureCredential

    # Its errors list every way to log in, at length.
    logging.getLogger("azure").setLevel(logging.ERROR)
    return DefaultAzureCredential(exclude_interactive_browser_credential=True, process_timeout=4)


@contextmanager
def azure_in_words(who: str) -> Iterator[None]:
    """Turn exceptions of Azure's libraries into SourceError; messages begin with `who`."""
    require("azure")
    from azure.core import exceptions as its

    failures: tuple[Failure, ...] = (
        (its.ClientAuthenticationError, "the credentials have expired or are refused: {}", AZURE_LOGIN),
        (its.ResourceNotFoundError, "not found: {}", "check the name"),
        (its.AzureError, "{}", "try again later; no data was loaded"),
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
                    "grant the role Cost Management Reader, and for exports Storage Blob Data Reader",
                ) from error
            raise
