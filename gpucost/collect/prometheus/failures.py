"""What it means when a server fails to answer: ask for less, try again, or give up; and the setting that mends it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from gpucost.collect.base import SourceUnavailable
from gpucost.errors import SourceError
from gpucost.http import TransientError, beginning, one_line, retry_after

if TYPE_CHECKING:
    from gpucost.config.model import PrometheusSource

_TOO_MUCH = (
    "too many samples", "exceeds the limit", "exceeded the limit", "sample limit", "chunks limit", "series limit", "bytes limit",
    "resourceexhausted", "maxsamplesperquery", "max-samples", "maxuniquetimeseries", "too large", "query time range exceeds",
    "max-query-length", "query timed out", "-search.max",
)  # fmt: skip

# How stores behind Thanos and VictoriaMetrics are said to be missing, in answers with HTTP 422 too.
_STORE_DOWN = (
    "rpc error", "receive series", "fetch series", "vmstorage", "connection refused", "no such host", "i/o timeout",
    "deadline exceeded", "connection reset", "unavailable", "no storeapis",
)  # fmt: skip

_LATER = "collect again later: what was loaded is kept; if it stays so, the server's log says why"
_API = "set url in [prometheus] of gpucost.toml to the address of the HTTP API"


class TooMuch(SourceError):
    """The server will not answer that much at once: ask for less."""


class Unauthorized(SourceUnavailable):
    """The server wants credentials, or others than it was given."""


class Down(TransientError):
    """Nothing answered at all."""


def lost(source: PrometheusSource, error: Exception) -> SourceError | TransientError:
    """What a request that got no whole answer failed by."""
    url = source.url
    # what urllib3 met, without the URL that its message quotes: any word may stand in that
    reason = repr(getattr(error.args[0], "reason", error) if error.args else error)
    if isinstance(error, requests.exceptions.SSLError):
        return _no_handshake(url, reason.upper())
    is_connection = isinstance(error, requests.ConnectionError)
    if is_connection and "NameResolutionError" in reason:
        return SourceUnavailable(f"cannot resolve host {urlsplit(url).hostname}", "correct url in [prometheus] of gpucost.toml")
    if isinstance(error, requests.Timeout) or (is_connection and ("ReadTimeoutError" in reason or "Read timed out" in reason)):
        return TransientError(
            f"{url} did not answer within {source.timeout_seconds:g} s, or not in full in {source.max_response_seconds:g} s",
            fix="raise max_response_seconds or timeout_seconds, or lower max_samples, in [prometheus] of gpucost.toml",
        )
    if is_connection and "NewConnectionError" in reason:
        fix = "start it, or set url in [prometheus] of gpucost.toml; gpucost doctor checks it"
        return Down(f"nothing answers at {url}", fix=fix)
    if is_connection:
        return TransientError(f"{url} closed the connection in the middle of an answer", fix=_LATER)
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return TransientError(f"{url} broke off in the middle of an answer", fix=_LATER)
    return SourceError(f"{url} cannot be asked: {type(error).__name__}")


def _no_handshake(url: str, reason: str) -> SourceError | TransientError:
    """`reason` is OpenSSL's: its own verdict on the server's certificate, or an alert that the server sent."""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        fix = "name its CA: [prometheus.tls] ca_file = …, in gpucost.toml"
        return SourceError(f"{url}: the server's certificate is not trusted", fix)
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return SourceError(f"{url} does not speak TLS", "use http:// in url, in [prometheus] of gpucost.toml")
    if "ALERT" in reason:
        fix = "set cert_file and key_file in [prometheus.tls] of gpucost.toml"
        return SourceUnavailable(f"{url} wants a client certificate that it trusts", fix)
    if "EOF" in reason:
        return TransientError(f"{url} closed the encrypted connection", fix=_LATER)
    return SourceError(
        f"{url}: no encrypted connection can be made", "set url in [prometheus] of gpucost.toml: http, or another port?"
    )


def unreadable(source: PrometheusSource, error: Exception) -> TransientError:
    """What an answer means that ends too early, or can't be read."""
    return TransientError(f"{source.url}: {one_line(str(error))}", fix=_LATER)


def partial(source: PrometheusSource, warnings: list[str]) -> TransientError:
    """What an answer means of which the server says that it is not all that there is."""
    fix = 'see which of its stores are down; with partial_response = "accept" in [prometheus] such answers are loaded, and marked'
    return TransientError(f"{source.url} gave a partial answer: {one_line('; '.join(warnings))}", fix=fix)


def too_large(source: PrometheusSource, mib: int) -> SourceError:
    """What a small question's answer means that is beyond all measure."""
    return SourceError(f"{source.url} answers with more than {mib} MiB", _API)


def not_json(source: PrometheusSource) -> SourceError:
    """What answered is something else than Prometheus' API."""
    message = f"{source.url} answers with something that is not Prometheus' JSON (a login page?)"
    return SourceError(message, f"{_API}, with its credentials")


def refused(source: PrometheusSource, response: requests.Response, path: str) -> SourceError | TransientError:
    """What an answer other than 200 means for the question under /api/v1/`path`."""
    url, status = source.url, response.status_code
    text = _error_text(response)
    answered = f"{url} answered HTTP {status}" + (f": {text}" if text else "")
    if status in (301, 302, 303, 307, 308):
        where = one_line(response.headers.get("Location", "elsewhere").split("?")[0])
        return SourceUnavailable(f"{url} redirects to {where} (a login page?)", f"{_API} itself, with its credentials")
    if status in (401, 403):
        fix = "set bearer_token_file, basic_auth, headers_env or tenant in [prometheus] of gpucost.toml"
        return Unauthorized(f"{url} refuses the credentials (HTTP {status})", fix)
    if status == 404 or (status == 400 and "unsupported path" in text):  # VictoriaMetrics answers 400
        fix = "set the path of url in [prometheus]: none, …/prometheus, …/select/0/prometheus, …/api/prom"
        return SourceUnavailable(f"{url}/api/v1/{path} is not there (HTTP {status})", fix)
    too_much = any(phrase in text.lower() for phrase in _TOO_MUCH)
    if status in (400, 422) and not too_much and any(phrase in text.lower() for phrase in _STORE_DOWN):
        return partial(source, [text])
    if status in (413, 422) or too_much:
        return TooMuch(f"{url} will not answer that much at once (HTTP {status})" + (f": {text}" if text else ""))
    if status in (408, 429) or status >= 500:
        return TransientError(answered, retry_after(response.headers), _LATER)
    return SourceError(answered)


def _error_text(response: requests.Response) -> str:
    """The server's own words, one line, where it answers in JSON or plain text. Only the first kilobytes are read."""
    body = beginning(response).decode("utf-8", "replace").lstrip()
    if "html" in response.headers.get("Content-Type", "") or body.startswith("<"):
        return ""
    if not body.startswith("{"):
        return one_line(body)
    match = re.search(r'"(?:error|message)"\s*:\s*("(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*+)', body)  # the document may be longer
    try:
        return one_line(json.loads(match[1] + '"')) if match else ""
    except ValueError:
        return ""
