"""What collectors that ask AWS share: the login, patience, and what can go wrong in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpucost.collect.base import NoCredentials, require
from gpucost.errors import ConfigError, SourceError

if TYPE_CHECKING:
    import boto3

    from gpucost.config.model import Aws

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_REFUSED = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_FORBIDDEN = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_LOGIN = "aws sso login, or renew the credentials that AWS_PROFILE names"
_ACCOUNT = "check the credentials, the clock, and whether the account has this region enabled"


def logged_in(settings: Aws) -> boto3.Session:
    """A session with the credentials that boto3 finds. Raises NoCredentials, and ConfigError for a profile that is not there."""
    require("aws")
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=settings.profile)
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise ConfigError(f"aws: {error}", "aws configure list-profiles shows the profiles; [aws] profile names one") from None
    if credentials is None:
        raise NoCredentials("aws: no credentials found", "aws configure, aws sso login, or set AWS_PROFILE")
    return session


def client(session: boto3.Session, settings: Aws, service: Any, region: str) -> Any:
    """A client of a service. Throttling and passing failures are tried again, with growing pauses."""
    from botocore.config import Config

    patience = Config(retries={"mode": "standard", "total_max_attempts": 6}, connect_timeout=10, read_timeout=60)
    try:
        return session.client(service, region_name=region, endpoint_url=settings.endpoint_url, config=patience)
    except ValueError as error:
        raise ConfigError(f"aws: {error}", "[aws] endpoint_url and regions name where AWS is asked") from None


@contextmanager
def in_words(who: str, again: str, permissions: str) -> Iterator[None]:
    """Turns boto3's failures into SourceError, ConfigError or NoCredentials.

    `who` is named first in each message; `again` is the command that asks once more; `permissions` are what it needs.
    """
    require("aws")
    from botocore import exceptions as its
    from botocore.parsers import ResponseParserError

    try:
        yield
    except its.NoCredentialsError:
        raise NoCredentials(f"{who}: no credentials found", _LOGIN) from None
    except (its.CredentialRetrievalError, its.PartialCredentialsError) as error:
        raise SourceError(f"{who}: the credentials cannot be used: {error}", _LOGIN) from None
    except (its.SSOError, its.TokenRetrievalError) as error:
        raise SourceError(f"{who}: the login has expired: {error}", _LOGIN) from None
    except its.ClientError as error:
        raise _refused(who, error.response, error.operation_name, again, permissions) from None
    except (its.EndpointConnectionError, its.ConnectTimeoutError, its.ProxyConnectionError) as error:
        raise SourceError(
            f"{who}: cannot be reached: {error}", f"check the network, [aws] endpoint_url and regions, then {again}"
        ) from None
    except ResponseParserError as error:
        raise half(who, again) from error
    except (its.HTTPClientError, its.IncompleteReadError) as error:
        raise SourceError(f"{who}: the connection broke off: {error}", again) from error
    except its.BotoCoreError as error:
        raise SourceError(f"{who}: {error}", again) from error


def half(who: str, again: str, operation: str | None = None) -> SourceError:
    """The error for an answer that breaks off, or is none of AWS."""
    of = f" of {operation}" if operation else ""
    return SourceError(f"{who}: half an answer{of}, cut off or no answer of AWS at all", again)


def _refused(who: str, answer: Mapping[str, Any], operation: str, again: str, permissions: str) -> SourceError:
    code, message = str(answer["Error"].get("Code", "")), str(answer["Error"].get("Message", ""))
    if code in _EXPIRED:
        return SourceError(f"{who}: the credentials have expired ({operation}: {code})", _LOGIN)
    if code in _REFUSED:
        return SourceError(f"{who}: the credentials are refused ({operation}: {code})", _ACCOUNT)
    if code in _FORBIDDEN:
        return SourceError(f"{who}: {operation} is not allowed ({code})", f"allow {permissions}")
    if code == "OptInRequired":
        return SourceError(
            f"{who}: the account has not enabled this region ({code})", "enable it, or leave it out of [aws] regions"
        )
    if "Throttl" in code or code in ("RequestLimitExceeded", "TooManyRequestsException", "SlowDown"):
        return SourceError(f"{who}: {operation} is throttled, again and again ({code})", f"wait a while, then {again}")
    return SourceError(f"{who}: {operation} failed: {code} {message}".rstrip(), again)
