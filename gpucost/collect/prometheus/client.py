"""Client of one Prometheus: PrometheusConnect for single values, a streamed body for samples."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import requests

from gpucost import http
from gpucost.collect.base import SourceUnavailable, TooMuch
from gpucost.collect.prometheus.parse import Garbled, MatrixReader, remarks, whole_json
from gpucost.collect.prometheus.remote_read import (
    HEADERS,
    SAMPLE_BYTES,
    STREAMED,
    ChunkReader,
    NotOffered,
    external_labels,
)
from gpucost.config.secrets import from_variable, secret
from gpucost.errors import SourceError
from gpucost.periods import Span
from gpucost.records import frozen_dataclass
from gpucost.texts import conceal, excerpt

if TYPE_CHECKING:
    from prometheus_api_client.prometheus_connect import PrometheusConnect

    from gpucost.config.model import PrometheusSource
    from gpucost.store.metrics import ReadAnswer

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# Thanos and VictoriaMetrics parameters: return raw samples, and fail rather than answer partially. Other
# servers ignore unknown parameters.
RAW = {"max_source_resolution": "0s"}
WHOLE = {"partial_response": "false", "deny_partial_response": "1"}

# Limit of small answers; json.loads takes about ten times as much memory.
_SMALL_MIB = 32
# Limit of samples per answer, or four times max_samples if that is more. Larger answers are queried in parts.
_MOST_SAMPLES = 8_000_000
_LONGEST_URL = 4000
_LONGEST_RETRY_AFTER = 120.0
_CONNECT_SECONDS = 10.0


def session(source: PrometheusSource) -> requests.Session:
    """A session with the source's headers, credentials and TLS settings, read again for each session.

    Raises SourceError that names a missing file or variable, never its content.
    """
    limit = min(_SMALL_MIB, source.max_response_mib) << 20
    connection = http.session(source.url, source.max_response_seconds, limit, source.tls, "prometheus")
    connection.params = RAW | (WHOLE if source.partial_response == "refuse" else {})
    # Redirects are not followed: they lead to login pages, and would send our credentials to another host.
    connection.max_redirects = 0
    headers = connection.headers
    # Nearby servers: gzip costs them more than it saves.
    addresses = http.addresses_of(source.url)
    is_near = addresses and all(a.is_loopback or a.is_private or a.is_link_local for a in addresses)
    headers["Accept-Encoding"] = "identity" if is_near else "gzip"
    headers.update(source.headers)
    for header, variable in source.headers_env.items():
        headers[header] = from_variable("prometheus", f"headers_env.{header}", variable, SourceError)
    if source.tenant:
        headers["X-Scope-OrgID"] = source.tenant
    if token := secret(
        "prometheus", "bearer_token", source.bearer_token_file, source.bearer_token_env, SourceError
    ):
        headers["Authorization"] = f"Bearer {token}"
    if basic := source.basic_auth:
        password = secret(
            "prometheus", "basic_auth.password", basic.password_file, basic.password_env, SourceError
        )
        connection.auth = (basic.username, password or "")
        conceal(f"{basic.username}:{password}")  # as in the header
    return connection


@frozen_dataclass
class Retries:
    """Number and pacing of tries: exponential from `initial` to `longest` seconds, plus up to `jitter`."""

    attempts: int = 6
    initial: float = 0.5
    longest: float = 30.0
    jitter: float = 1.0


# Queries a path under /api/v1 and returns the answer's data. Raises SourceError.
Ask = Callable[[str, Mapping[str, str]], Any]


def status(ask: Ask, page: str, *keys: str) -> str | None:
    """The first of `keys` on the server's status page, verbatim. Many servers lack some of these pages."""
    try:
        fields = ask(f"status/{page}", {})
        return next((str(fields[key]) for key in keys if fields.get(key) and fields[key] != "0s"), None)
    except (SourceError, AttributeError):
        return None


class PrometheusClient:
    """Queries to one server, retried if that can help. Thread-safe."""

    def __init__(self, source: PrometheusSource, retries: Retries | None = None) -> None:
        self._source = source
        self._retries = retries or Retries()
        self._session = session(source)
        # PrometheusConnect's exceptions have no status or headers: keep each thread's last response.
        self._last = threading.local()
        self._session.hooks["response"].append(self._take)
        self._timeout = min(_CONNECT_SECONDS, source.timeout_seconds), source.timeout_seconds
        self.warnings: set[str] = set()
        self._stop = threading.Event()

    @cached_property
    def connect(self) -> PrometheusConnect:
        """PrometheusConnect over the same session; created on first use, because it imports pandas."""
        from prometheus_api_client.prometheus_connect import PrometheusConnect

        adapter = self._session.get_adapter(self._source.url)
        timeout = round(self._source.timeout_seconds) or 1
        connect = PrometheusConnect(url=self._source.url, session=self._session, timeout=timeout)
        # Disable its retries. Ours also cover a body that breaks off, and limit Retry-After.
        self._session.mount(self._source.url, adapter)
        return connect

    def close(self) -> None:
        """Close the session and end all pauses; running requests stop at their next chunk without a retry."""
        self._stop.set()
        self._session.close()

    def matrix(self, metric: str, query: str, at_ms: int) -> ReadAnswer:
        """Raw samples of a range selector at a moment. Raises TooMuch, SourceError or SourceUnavailable."""
        return self._series("query", metric, {"query": query, "time": f"{at_ms / 1000:.3f}"}, at_ms)

    def by_step(self, metric: str, query: str, span: Span, step_ms: int) -> ReadAnswer:
        """The values of a query every `step_ms` from the first moment of `span` to its last. Raises as
        `matrix` does.
        """
        start, end = span
        moments = {"start": f"{start / 1000:.3f}", "end": f"{end / 1000:.3f}", "step": f"{step_ms // 1000}"}
        # VictoriaMetrics shifts the steps of cacheable answers.
        return self._series("query_range", metric, {"query": query, **moments, "nocache": "1"}, end + 1)

    def _series(self, path: str, metric: str, form: dict[str, str], at_ms: int) -> ReadAnswer:
        def read() -> ReadAnswer:
            reader = MatrixReader(metric, self._most_samples)
            with self._send(path, form, stream=True) as response:
                if "html" in response.headers.get("Content-Type", ""):
                    raise not_json(self._source)
                for piece in self._pieces(response, self._source.max_response_mib << 20):
                    reader.feed(piece)
            answer = reader.finish()
            if (answer.ts_ms > at_ms).any():
                raise Garbled("the answer contains a sample later than the requested time")
            self._weigh(reader.warnings, is_partial=answer.is_partial)
            return answer

        return self._retried(read, path)

    def read_chunks(
        self,
        metric: str,
        request: bytes,
        span: Span,
        external: frozenset[tuple[str, str]],
        *,
        is_state: bool,
        **limits: int,
    ) -> ReadAnswer:
        """The samples of a metric in [from, to), by remote read; without the samples of a state that change nothing.

        `external`: the labels that the server adds; `limits`: fields of Retries. Raises NotOffered, TooMuch,
        SourceError or SourceUnavailable.
        """
        reader = ChunkReader(self._source, metric, span, self._most_samples, is_state, external)
        limit = min(self._source.max_response_mib << 20, SAMPLE_BYTES * self._most_samples)

        def read() -> ReadAnswer:
            with self._send("read", request, stream=True) as response:
                headers = response.headers
                # Otherwise a proxy could cut an answer at the end of a frame.
                has_end = "Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", "")
                if not headers.get("Content-Type", "").startswith(STREAMED) or not has_end:
                    raise NotOffered(f"{self._source.url} does not stream chunks")
                return reader.answer(b"".join(self._pieces(response, limit)))

        return self._retried(read, "read", **limits)

    def external_labels(self) -> dict[str, str] | None:
        """The labels that Prometheus adds to remote read; None if its settings cannot be read."""
        try:
            return external_labels(self.get("status/config", {})["yaml"])
        except SourceError:
            # Servers without this page add no labels.
            return {} if self._last.response.status_code == 404 else None
        except (KeyError, TypeError, ValueError):
            return None

    def is_partial(self, span: Span) -> bool:
        """Whether the server marks an answer for this time as partial. Raises SourceError if that is refused."""
        times = {"start": f"{span[0] / 1000:.3f}", "end": f"{(span[1] - 1) / 1000:.3f}"}
        self.get("label/__name__/values", times | {"match[]": ["kube_node_info"]})
        return bool(self._last.is_partial)

    @property
    def _most_samples(self) -> int:
        return max(_MOST_SAMPLES, 4 * self._source.max_samples)

    def _pieces(self, response: requests.Response, limit: int) -> Iterator[bytes]:
        """The body in pieces. Raises TooMuch past `limit` bytes, and SourceUnavailable if the run was stopped."""
        try:
            for piece in http.chunks(response, limit):
                if self._stop.is_set():
                    raise SourceUnavailable("the run was stopped")
                yield piece
        except http.TooLarge as error:
            raise TooMuch(error.message) from None

    def get(self, path: str, params: Mapping[str, Any]) -> Any:
        """The `data` of the answer under /api/v1/`path`. Raises SourceError."""

        return self._retried(lambda: self._send(path, params).json()["data"], path)

    def value(self, query: str, at_ms: int) -> float | None:
        """The value of a query at a moment, or None. Raises TooMuch, SourceError or SourceUnavailable."""

        def read() -> float | None:
            try:
                result = self.connect.custom_query(query, params={"time": f"{at_ms / 1000:.3f}"})
            except (KeyError, TypeError):
                raise Garbled(_OTHER) from None
            try:
                return float(result[0]["value"][1]) if result else None
            except (LookupError, TypeError, ValueError):
                raise Garbled("the answer contains a sample that is not a number") from None

        return self._retried(read)

    def label_values(
        self, label: str, from_ms: int, to_ms: int, series: Sequence[str] = ()
    ) -> set[str] | None:
        """A label's values in a period, of some series or all; None if the answer is missing or partial."""
        times = {"start": f"{from_ms / 1000:.3f}", "end": f"{to_ms / 1000:.3f}"}
        try:
            values = self.get(f"label/{label}/values", times | ({"match[]": series} if series else {})) or []
        # Not every server has this endpoint; a server that is down fails at the next query.
        except SourceError:
            return None
        is_whole = isinstance(values, list) and all(isinstance(value, str) for value in values)
        return set(values) if is_whole and not self._last.is_partial else None

    def _take(self, response: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
        """Check a small answer before PrometheusConnect reads it."""
        self._last.response, self._last.is_partial = response, False
        if stream or response.status_code != 200:
            return
        body, document = response.content, None
        if "html" not in response.headers.get("Content-Type", "") and not body.lstrip().startswith(b"<"):
            document = whole_json(body)
        if not isinstance(document, dict) or not {"status", "data"} & document.keys():
            raise not_json(self._source)
        if document.get("status") != "success" or "data" not in document:
            raise Garbled(f"the answer is an error: {document.get('error') or document.get('status')}")
        warnings, self._last.is_partial = remarks(document)
        self._weigh(warnings, is_partial=self._last.is_partial)

    def _weigh(self, warnings: list[str], *, is_partial: bool) -> None:
        """Log the server's warnings. Raises TransientError for a partial answer, unless the settings accept
        it.
        """
        if is_partial and self._source.partial_response == "refuse":
            raise partial_answer(self._source, warnings)
        lines = [excerpt(text) for text in warnings]
        for line in lines:
            _log.warning("%s: %s", self._source.url, line)
        if is_partial:
            self.warnings.update(lines)

    def _refused(self, response: requests.Response, path: str) -> SourceError | http.TransientError:
        error = refused(self._source, response, path)
        if response.status_code == 400 and any(name in error.message for name in WHOLE | RAW):
            self._session.params = {}  # Google's server refuses unknown parameters.
            return http.TransientError(error.message, 0.0, error.fix)
        return error

    def _send(self, path: str, form: Mapping[str, Any] | bytes, *, stream: bool = False) -> requests.Response:
        url = f"{self._source.url}/api/v1/{path}"
        options: dict[str, Any] = {"timeout": self._timeout, "stream": stream, "allow_redirects": False}
        if isinstance(form, bytes):
            response = self._session.post(url, data=form, headers=HEADERS, **options)
        elif len(form.get("query", "")) < _LONGEST_URL:
            response = self._session.get(url, params=form, **options)
        else:
            response = self._session.post(url, data=form, **options)
        if response.status_code != 200:
            raise self._refused(response, path)
        return response

    def _retried(self, read: Callable[[], _T], path: str = "query", **limits: int) -> _T:
        """The answer of `read`; `limits` replace fields of this client's Retries."""
        guarded, limits = partial(self._guarded, read, path), asdict(self._retries) | limits
        try:
            # Closing the client ends a pause.
            return http.retry(guarded, longest_wait=_LONGEST_RETRY_AFTER, stop=self._stop, **limits)
        except Down as error:
            raise SourceUnavailable(error.message, error.fix) from None
        except http.TransientError as error:
            raise SourceError(f"{error.message} (tried {limits['attempts']} times)", error.fix) from None

    def _guarded(self, read: Callable[[], _T], path: str) -> _T:
        """Translate errors of requests, PrometheusConnect and the parser."""
        from prometheus_api_client.exceptions import PrometheusApiClientException

        if self._stop.is_set():
            raise SourceUnavailable("the run was stopped")
        try:
            return read()
        except Garbled as error:
            raise unreadable(self._source, str(error)) from None
        except (requests.TooManyRedirects, PrometheusApiClientException) as error:
            raise self._refused(self._last.response, path) from error
        except requests.RequestException as error:
            raise lost(self._source, error) from None
        except ValueError as error:  # an invalid Location header, although redirects are not followed
            raise unreadable(self._source, _OTHER) from error


# Meaning of a failed answer: query less, try again or give up; and the setting that fixes it.

_TOO_MUCH = re.compile(
    r"too many samples|exceed(s|ed) the limit|(sample|chunks|series|bytes) limit|resourceexhausted|maxsamplesperquery|max-samples"
    r"|maxuniquetimeseries|too large|query time range exceeds|max-query-length|query timed out|-search\.max",
    re.IGNORECASE,
)

# Messages of Thanos and VictoriaMetrics about missing stores, also in answers with HTTP 422.
_STORE_DOWN = re.compile(
    "rpc error|receive series|fetch series|vmstorage|connection refused|no such host|i/o timeout|deadline exceeded"
    "|connection reset|unavailable|no storeapis",
    re.IGNORECASE,
)

_OTHER = "the answer does not match the query"
_LATER = "collect again later: loaded data is kept; if the error persists, read the server's log"
_API = "set url in [prometheus] of gpucost.toml to the address of the HTTP API"


class Unauthorized(SourceUnavailable):
    """The server requires credentials, or rejects the given ones."""


class Down(http.TransientError):
    """The server cannot be reached."""


def lost(source: PrometheusSource, error: Exception) -> SourceError | http.TransientError:
    """The error of a request without a complete answer."""
    url = source.url
    # urllib3's error without the URL in its message, which can contain any word.
    reason = repr(getattr(error.args[0], "reason", error) if error.args else error)
    if isinstance(error, requests.exceptions.SSLError):
        return _no_handshake(url, reason.upper())
    is_connection = isinstance(error, requests.ConnectionError)
    if is_connection and "NameResolutionError" in reason:
        return SourceUnavailable(
            f"cannot resolve host {urlsplit(url).hostname}", "correct url in [prometheus] of gpucost.toml"
        )
    if isinstance(error, requests.Timeout) or (
        is_connection and ("ReadTimeoutError" in reason or "Read timed out" in reason)
    ):
        return http.TransientError(
            f"{url} gave no answer in {source.timeout_seconds:g} s, or no complete one in {source.max_response_seconds:g} s",
            fix="raise max_response_seconds or timeout_seconds, or lower max_samples, in [prometheus] of gpucost.toml",
        )
    if is_connection and "NewConnectionError" in reason:
        fix = "start the server, or set url in [prometheus] of gpucost.toml; check with gpucost doctor"
        return Down(f"cannot connect to {url}", fix=fix)
    if is_connection:
        return http.TransientError(f"{url} closed the connection in the middle of an answer", fix=_LATER)
    if isinstance(error, http.CUT_OFF):
        return http.TransientError(f"{url} broke off in the middle of an answer", fix=_LATER)
    return SourceError(f"cannot query {url}: {type(error).__name__}")


def _no_handshake(url: str, reason: str) -> SourceError | http.TransientError:
    """`reason` is OpenSSL's: its verdict on the server's certificate, or an alert from the server."""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        fix = "set its CA certificate as ca_file in [prometheus.tls] of gpucost.toml"
        return SourceError(f"{url}: the server's certificate is not trusted", fix)
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return SourceError(f"{url} does not speak TLS", "use http:// in url, in [prometheus] of gpucost.toml")
    if "ALERT" in reason:
        fix = "set cert_file and key_file in [prometheus.tls] of gpucost.toml"
        return SourceUnavailable(f"{url} requires a client certificate that it trusts", fix)
    if "EOF" in reason:
        return http.TransientError(f"{url} closed the encrypted connection", fix=_LATER)
    return SourceError(
        f"{url}: TLS handshake failed", "check the scheme and port of url in [prometheus] of gpucost.toml"
    )


def unreadable(source: PrometheusSource, why: str) -> http.TransientError:
    """The error of a truncated or unreadable answer."""
    return http.TransientError(f"{source.url}: {excerpt(why)}", fix=_LATER)


def partial_answer(source: PrometheusSource, warnings: list[str]) -> http.TransientError:
    """The error of an answer that the server marks as partial."""
    fix = (
        'check its stores, or set partial_response = "accept" in [prometheus] to load partial answers, marked'
    )
    return http.TransientError(f"{source.url} gave a partial answer: {excerpt('; '.join(warnings))}", fix=fix)


def not_json(source: PrometheusSource) -> SourceError:
    """The error of an answer that is not from Prometheus' API."""
    message = f"{source.url} does not answer with Prometheus' JSON (a login page?)"
    return SourceError(message, f"{_API}, with its credentials")


def refused(
    source: PrometheusSource, response: requests.Response, path: str
) -> SourceError | http.TransientError:
    """The error of an answer other than HTTP 200 to a query under /api/v1/`path`."""
    url, status = source.url, response.status_code
    text = http.reason(response)
    words = f": {text}" if text else ""
    if status in (301, 302, 303, 307, 308):
        where = excerpt(response.headers.get("Location", "elsewhere").split("?")[0])
        return SourceUnavailable(
            f"{url} redirects to {where} (a login page?)", f"{_API} itself, with its credentials"
        )
    if status in (401, 403):
        fix = "set bearer_token_file, basic_auth, headers_env or tenant in [prometheus] of gpucost.toml"
        return Unauthorized(f"{url} rejects the credentials (HTTP {status})", fix)
    if status == 404 or (status == 400 and "unsupported path" in text):  # VictoriaMetrics answers 400
        fix = "correct the path of url in [prometheus]: none, …/prometheus, …/select/0/prometheus, …/api/prom"
        return SourceUnavailable(f"{url}/api/v1/{path} not found (HTTP {status})", fix)
    too_much = _TOO_MUCH.search(text)
    if status in (400, 422) and not too_much and _STORE_DOWN.search(text):
        return partial_answer(source, [text])
    if status in (413, 422) or too_much:
        return TooMuch(f"the answer is too large for {url} (HTTP {status}){words}")
    answered = f"{url} answered HTTP {status}{words}"
    if status in (408, 429) or status >= 500:
        return http.TransientError(answered, http.retry_after(response.headers), _LATER)
    return SourceError(answered)
