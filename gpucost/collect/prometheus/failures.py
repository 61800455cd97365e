"""What it means when a server fails to answer: ask for less, try again, or give up; and the setting that mends it."""

from __future__ import annotations

import email.utils
import json
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpucost.collect.base import SourceGone
from gpucost.errors import SourceError

if TYPE_CHECKING:
    import requests

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


class TooMuch(SourceError):
    """The server will not answer that much at once: ask for less."""


class Unauthorized(SourceGone):
    """The server wants credentials, or others than it was given."""


class Passing(SourceError):
    """Worth another try; `after` is how many seconds the server asked to wait, if it did. `down`: nothing answered at all."""

    def __init__(self, message: str, fix: str, *, after: float | None = None, down: bool = False) -> None:
        super().__init__(message, fix)
        self.after = after
        self.down = down


class Partial(Passing):
    """The server says that there is more than it answered."""


def lost(source: PrometheusSource, error: Exception) -> SourceError:
    """What a request that got no whole answer failed by."""
    import requests

    url = source.url
    if isinstance(error, requests.exceptions.SSLError):
        return _no_handshake(url, repr(_reason(error)).upper())
    if isinstance(error, requests.exceptions.Timeout):
        return too_slow(source)
    if isinstance(error, requests.exceptions.ConnectionError):
        reason = repr(_reason(error))
        if "NameResolutionError" in reason:
            return SourceGone(f"cannot resolve host {urlsplit(url).hostname}", fix="correct url in [prometheus] of gpucost.toml")
        if "ReadTimeoutError" in reason or "Read timed out" in reason:
            return too_slow(source)
        if "NewConnectionError" in reason:
            fix = "start it, or set url in [prometheus] of gpucost.toml; gpucost doctor checks it"
            return Passing(f"nothing answers at {url}", fix, down=True)
        return Passing(f"{url} closed the connection in the middle of an answer", _LATER)
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return Passing(f"{url} broke off in the middle of an answer", _LATER)
    return SourceError(f"{url} cannot be asked: {type(error).__name__}")


def too_slow(source: PrometheusSource) -> Passing:
    """What an answer means that was not whole in time."""
    return Passing(
        f"{source.url} did not answer within {source.timeout_seconds:g} s, or not in full in {source.max_response_seconds:g} s",
        "raise max_response_seconds or timeout_seconds, or lower max_samples, in [prometheus] of gpucost.toml",
    )


def unreadable(source: PrometheusSource, error: Exception) -> Passing:
    """What an answer means that ends too early, or can't be read."""
    return Passing(f"{source.url}: {one_line(str(error))}", _LATER)


def partial(source: PrometheusSource, warnings: list[str]) -> Partial:
    """What an answer means of which the server says that it is not all that there is."""
    return Partial(
        f"{source.url} gave a partial answer: {one_line('; '.join(warnings))}",
        'see which of its stores are down; with partial_response = "accept" in [prometheus] such answers are loaded, and marked',
    )


def too_large(source: PrometheusSource, mib: int) -> SourceError:
    """What a small question's answer means that is beyond all measure."""
    return SourceError(
        f"{source.url} answers with more than {mib} MiB", "set url in [prometheus] of gpucost.toml to the address of the HTTP API"
    )


def _reason(error: Exception) -> object:
    """What urllib3 met, without the URL that its message quotes: any word may stand in that."""
    return getattr(error.args[0], "reason", error) if error.args else error


def _no_handshake(url: str, said: str) -> SourceError:
    """`said` is OpenSSL's reason: its own verdict on the server's certificate, or an alert that the server sent."""
    if "CERTIFICATE_VERIFY_FAILED" in said:
        fix = "name its CA: [prometheus.tls] ca_file = …, in gpucost.toml"
        return SourceError(f"{url}: the server's certificate is not trusted", fix)
    if "WRONG_VERSION_NUMBER" in said or "RECORD_LAYER_FAILURE" in said:
        return SourceError(f"{url} does not speak TLS", "use http:// in url, in [prometheus] of gpucost.toml")
    if "ALERT" in said:
        fix = "set cert_file and key_file in [prometheus.tls] of gpucost.toml"
        return SourceGone(f"{url} wants a client certificate that it trusts", fix)
    if "EOF" in said:
        return Passing(f"{url} closed the encrypted connection", _LATER)
    return SourceError(
        f"{url}: no encrypted connection can be made", "set url in [prometheus] of gpucost.toml: http, or another port?"
    )


def not_json(source: PrometheusSource) -> SourceError:
    """What answered is something else than Prometheus' API."""
    return SourceError(
        f"{source.url} answers with something that is not Prometheus' JSON (a login page?)",
        fix="set url in [prometheus] of gpucost.toml to the address of the HTTP API, with its credentials",
    )


def refused(source: PrometheusSource, response: requests.Response, path: str) -> SourceError:
    """What an answer other than 200 means for the question under /api/v1/`path`."""
    url, status = source.url, response.status_code
    text = _error_text(response)
    said = f": {text}" if text else ""
    if status in (301, 302, 303, 307, 308):
        where = one_line(response.headers.get("Location", "elsewhere").split("?")[0])
        return SourceGone(
            f"{url} redirects to {where} (a login page?)",
            fix="set url in [prometheus] of gpucost.toml to the address of the HTTP API itself, with its credentials",
        )
    if status in (401, 403):
        return Unauthorized(
            f"{url} refuses the credentials (HTTP {status})",
            fix="set bearer_token_file, basic_auth, headers_env or tenant in [prometheus] of gpucost.toml",
        )
    if status == 404 or (status == 400 and "unsupported path" in text):  # VictoriaMetrics answers 400
        return SourceGone(
            f"{url}/api/v1/{path} is not there (HTTP {status})",
            fix="set the path of url in [prometheus]: none, …/prometheus, …/select/0/prometheus, …/api/prom",
        )
    too_much = any(phrase in text.lower() for phrase in _TOO_MUCH)
    if status in (400, 422) and not too_much and any(phrase in text.lower() for phrase in _STORE_DOWN):
        return partial(source, [text])
    if status in (413, 422) or too_much:
        return TooMuch(f"{url} will not answer that much at once (HTTP {status}){said}")
    if status in (408, 429) or status >= 500:
        after = _retry_after(response.headers.get("Retry-After"))
        return Passing(f"{url} answered HTTP {status}{said}", _LATER, after=after)
    return SourceError(f"{url} answered HTTP {status}{said}")


def _error_text(response: requests.Response) -> str:
    """The server's own words, one line, where it answers in JSON or plain text. Only the first kilobytes are read."""
    from gpucost.http import beginning

    body = beginning(response).decode("utf-8", "replace")
    if "html" in response.headers.get("Content-Type", "") or body.lstrip().startswith("<"):
        return ""
    if not body.lstrip().startswith("{"):
        return one_line(body)
    found = re.search(r'"(?:error|message)"\s*:\s*("(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*+)', body)  # the document may be longer
    try:
        return one_line(json.loads(found[1] + '"')) if found else ""
    except ValueError:
        return ""


def one_line(text: str) -> str:
    """At most 300 characters, none of which moves a terminal's cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:4000]).split())[:300]


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait: the header holds a number of seconds or an HTTP date (RFC 9110, 10.2.3)."""
    if not header:
        return None
    if re.fullmatch("[0-9]{1,9}", header.strip()):
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
