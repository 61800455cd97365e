"""Talks to one Prometheus: PrometheusConnect for the small questions, a streamed body for the samples."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import tenacity

from gpucost.collect.base import SourceGone
from gpucost.collect.prometheus.failures import (
    Passing,
    TooMuch,
    lost,
    not_json,
    one_line,
    partial,
    refused,
    too_large,
    unreadable,
)
from gpucost.collect.prometheus.parse import Garbled, LabelCache, MatrixReader, remarks, whole_json
from gpucost.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import requests
    from prometheus_api_client.prometheus_connect import PrometheusConnect

    from gpucost.config.model import PrometheusSource
    from gpucost.store.metrics import Answer

# Parameters of Thanos and VictoriaMetrics, for samples as they were scraped and for no answer rather than a part of one.
# Other servers heed no parameter that they don't know.
RAW = {"max_source_resolution": "0s"}
WHOLE = {"partial_response": "false", "deny_partial_response": "1"}


def session(source: PrometheusSource) -> requests.Session:
    """A session that carries the source's headers, credentials and TLS settings, all read anew.

    Raises SourceError that names a missing file or variable, never what is in it.
    """
    import requests

    from gpucost.http import TimedAdapter

    made = requests.Session()
    adapter = TimedAdapter(source.max_response_seconds)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    made.params = RAW | (WHOLE if source.partial_response == "refuse" else {})
    # No redirect is followed: it leads to a login page, and would hand our credentials to somebody else.
    made.max_redirects = 0
    # A proxy is of no use on the way to this machine itself.
    made.trust_env = not is_here(source.url)
    made.headers["Accept-Encoding"] = "identity" if is_near(source.url) else "gzip"
    made.headers["User-Agent"] = "gpucost"
    made.headers.update(source.headers)
    for header, variable in source.headers_env.items():
        made.headers[header] = _variable(variable, f"header {header}")
    if source.tenant:
        made.headers["X-Scope-OrgID"] = source.tenant
    if source.bearer_token_file is not None:
        made.headers["Authorization"] = f"Bearer {_file(source.bearer_token_file, 'bearer_token_file')}"
    elif source.bearer_token_env is not None:
        made.headers["Authorization"] = f"Bearer {_variable(source.bearer_token_env, 'bearer_token_env')}"
    basic = source.basic_auth
    if basic is not None:
        if basic.password_file is not None:
            password = _file(basic.password_file, "basic_auth.password_file")
        else:
            password = _variable(basic.password_env, "basic_auth.password_env") if basic.password_env else ""
        made.auth = (basic.username, password)
    else:
        made.auth = _keep  # else requests would take a password from ~/.netrc, and even put it in place of our header
    tls = source.tls
    made.verify = str(tls.ca_file) if tls.ca_file is not None else not tls.insecure_skip_verify
    for path in (tls.ca_file, tls.cert_file, tls.key_file):
        if path is not None and not path.is_file():
            raise SourceError(f"[prometheus.tls] names {path}, which is not there")
    if tls.cert_file is not None:
        made.cert = (str(tls.cert_file), str(tls.key_file)) if tls.key_file is not None else str(tls.cert_file)
    return made


def is_near(url: str) -> bool:
    """True where all addresses of the host are loopback or private: there gzip costs the server more than it saves."""
    addresses = _addresses(url)
    return bool(addresses) and all(a.is_loopback or a.is_private or a.is_link_local for a in addresses)


def is_here(url: str) -> bool:
    """True where all addresses of the host are loopback."""
    addresses = _addresses(url)
    return bool(addresses) and all(a.is_loopback for a in addresses)


def _addresses(url: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return []
    return [ipaddress.ip_address(str(address[4][0]).split("%")[0]) for address in found]


def _keep(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _file(path: Path, key: str) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceError(f"[prometheus] {key}: cannot read {path}: {error.strerror}") from error
    return _header_safe(secret, f"{key} ({path})")


def _variable(name: str, key: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise SourceError(f"[prometheus] {key}: the environment variable {name} is not set", fix=f"export {name}=…")
    return _header_safe(secret, f"{key} ({name})")


def _header_safe(secret: str, where: str) -> str:
    # requests would repeat the whole value in its error about it
    if "\n" in secret or "\r" in secret:
        raise SourceError(f"[prometheus] {where} holds more than one line")
    return secret


_T = TypeVar("_T")

_log = logging.getLogger(__name__)

# Of an answer to a small question; json.loads takes some ten times as much memory.
_SMALL_MIB = 32
# An answer with more than these, and than four times the samples that its question was sized for, is asked for in parts.
_MOST_SAMPLES = 8_000_000
_LONGEST_URL = 4000
_LONGEST_RETRY_AFTER = 120.0
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently: exponential from `initial` to `longest` seconds, plus up to `jitter`."""

    attempts: int = 6
    initial: float = 0.5
    longest: float = 30.0
    jitter: float = 1.0


class PrometheusClient:
    """Answers of one server, retried where that can help. Safe to use from several threads."""

    def __init__(self, source: PrometheusSource, retries: Retries | None = None) -> None:
        self._source = source
        self._retries = retries or Retries()
        self._session = session(source)
        # PrometheusConnect's exceptions hold no status and no headers: each thread's last response does.
        self._last = threading.local()
        self._session.hooks["response"] = [self._take]
        self.cache = LabelCache()
        self.warnings: set[str] = set()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    @cached_property
    def connect(self) -> PrometheusConnect:
        """PrometheusConnect over the same session; made when it is first needed, since it brings pandas."""
        from prometheus_api_client.prometheus_connect import PrometheusConnect

        adapter = self._session.get_adapter(self._source.url)
        timeout = round(self._source.timeout_seconds) or 1
        made = PrometheusConnect(url=self._source.url, session=self._session, timeout=timeout)
        # It would try again by itself. Tries are ours: they must also cover a body that breaks off, and bound Retry-After.
        self._session.mount(self._source.url, adapter)
        return made

    def close(self) -> None:
        """Ends the session and all pauses; requests under way break off at their next chunk and are not retried."""
        self._stop.set()
        self._session.close()

    def matrix(self, metric: str, query: str, at_ms: int) -> Answer:
        """Raw samples of a range selector at a moment. Raises TooMuch, SourceError, or SourceGone where nobody answers."""
        return self._retried(lambda: self._matrix_once(metric, query, at_ms))

    def get(self, path: str, params: Mapping[str, str]) -> Any:
        """The `data` that the server answers under /api/v1/`path`. Raises SourceError."""
        return self._retried(lambda: self._guarded(lambda: self._get_once(path, params), path))

    def value(self, query: str, at_ms: int) -> float | None:
        """The one value that a query gives at a moment; None where it gives none. Raises TooMuch, SourceError or SourceGone."""
        return self._retried(lambda: self._value_once(query, at_ms))

    def label_values(self, label: str, from_ms: int, to_ms: int, series: list[str] | None = None) -> set[str] | None:
        """A label's values around a period, of some series or of all; None where the server does not tell, or not all of them."""
        params: dict[str, Any] = {"start": f"{from_ms / 1000:.3f}", "end": f"{to_ms / 1000:.3f}"}
        if series:
            params["match[]"] = series
        try:
            return self._retried(lambda: self._label_values_once(label, params))
        except SourceError:  # not every server has this endpoint; one that is gone will say so to the next question
            return None

    def _take(self, response: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
        """Reads the whole of a small answer, within its limits, before anybody looks at it."""
        from gpucost import http

        self._last.response, self._last.is_partial = response, False
        if stream:
            return
        mib = min(_SMALL_MIB, self._source.max_response_mib)
        try:
            body = http.hold(response, mib << 20)
        except http.TooLarge:
            raise too_large(self._source, mib) from None
        if response.status_code == 200:
            self._heed(response, body)

    def _heed(self, response: requests.Response, body: bytes) -> None:
        """What a small answer says of itself. Raises Passing where it can't be read, or is partial."""
        if "html" in response.headers.get("Content-Type", "") or body.lstrip().startswith(b"<"):
            raise not_json(self._source)
        try:
            document = whole_json(body)
            if not isinstance(document, dict) or not {"status", "data"} & document.keys():
                raise not_json(self._source)
            if document.get("status") != "success":
                raise Garbled(f"the answer is none: {document.get('error') or document.get('status')}")
            warnings, self._last.is_partial = remarks(document)
        except Garbled as error:
            raise unreadable(self._source, error) from None
        self._weigh(warnings, is_partial=self._last.is_partial)

    def _weigh(self, warnings: list[str], *, is_partial: bool) -> None:
        """Raises Partial, unless the settings accept such an answer; what else a server warns of is logged."""
        if is_partial and self._source.partial_response == "refuse":
            raise partial(self._source, warnings)
        lines = [one_line(text) for text in warnings]
        for line in lines:
            _log.warning("%s: %s", self._source.url, line)
        if is_partial:
            with self._lock:
                self.warnings.update(lines)

    def _value_once(self, query: str, at_ms: int) -> float | None:
        result = self._guarded(lambda: self.connect.custom_query(query, params={"time": f"{at_ms / 1000:.3f}"}))
        try:
            return float(result[0]["value"][1]) if result else None
        except (KeyError, IndexError, TypeError, ValueError):
            raise unreadable(self._source, Garbled("the answer holds a sample that is no number")) from None

    def _label_values_once(self, label: str, params: dict[str, Any]) -> set[str] | None:
        values = self._guarded(lambda: self.connect.get_label_values(label, params=params)) or []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise unreadable(self._source, Garbled("the answer is no list of names"))
        return None if self._last.is_partial else set(values)

    def _get_once(self, path: str, params: Mapping[str, str]) -> Any:
        response = self._session.get(
            f"{self._source.url}/api/v1/{path}", params=dict(params), timeout=self._timeout, allow_redirects=False
        )
        if response.status_code != 200:
            raise self._refused(response, path)
        return response.json()["data"]

    def _refused(self, response: requests.Response, path: str) -> SourceError:
        error = refused(self._source, response, path)
        if response.status_code == 400 and any(name in error.message for name in WHOLE | RAW):
            self._session.params = {}  # Google's server refuses parameters that it doesn't know
            return Passing(error.message, str(error.fix), after=0.0)
        return error

    @property
    def _timeout(self) -> tuple[float, float]:
        return min(_CONNECT_SECONDS, self._source.timeout_seconds), self._source.timeout_seconds

    def _guarded(self, call: Callable[[], Any], path: str = "query") -> Any:
        """Calls PrometheusConnect or the session and turns their failures into ours."""
        import requests
        from prometheus_api_client.exceptions import PrometheusApiClientException

        self._last.response = None
        try:
            return call()
        except requests.exceptions.TooManyRedirects as error:
            if error.response is None:
                raise lost(self._source, error) from None
            raise self._refused(error.response, path) from None
        except requests.exceptions.JSONDecodeError as error:
            raise not_json(self._source) from error
        except requests.exceptions.RequestException as error:
            raise lost(self._source, error) from None
        except PrometheusApiClientException as error:
            response: requests.Response | None = self._last.response
            raise self._refused(response, path) if response is not None else not_json(self._source) from error
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(self._source, Garbled("the answer holds something else than was asked for")) from error

    def _matrix_once(self, metric: str, query: str, at_ms: int) -> Answer:
        import requests

        from gpucost import http

        mib = self._source.max_response_mib
        reader = MatrixReader(metric, self.cache, max(_MOST_SAMPLES, 4 * self._source.max_samples))
        try:
            with self._send({"query": query, "time": f"{at_ms / 1000:.3f}"}) as response:
                if response.status_code != 200:
                    raise self._refused(response, "query")
                if "html" in response.headers.get("Content-Type", ""):
                    raise not_json(self._source)
                for chunk in http.chunks(response, mib << 20):
                    if self._stop.is_set():
                        raise SourceGone("the run was ended")
                    reader.feed(chunk)
            answer = reader.finish()
            if len(answer.ts_ms) and answer.ts_ms.max() > at_ms:
                raise Garbled("the answer holds a sample from after the time that was asked for")
        except http.TooLarge:
            raise TooMuch(f"{self._source.url} answers with more than {mib} MiB") from None
        except Garbled as error:
            raise unreadable(self._source, error) from None
        except requests.exceptions.RequestException as error:
            raise lost(self._source, error) from None
        except ValueError as error:  # what requests meets in a Location that is none, though it follows no redirect
            raise unreadable(self._source, Garbled("the answer is no HTTP")) from error
        self._weigh(reader.warnings, is_partial=reader.is_partial)
        return replace(answer, is_partial=True) if reader.is_partial else answer

    def _send(self, form: dict[str, str]) -> requests.Response:
        url = f"{self._source.url}/api/v1/query"
        timeout = self._timeout
        if len(form["query"]) < _LONGEST_URL:
            return self._session.get(url, params=form, timeout=timeout, stream=True, allow_redirects=False)
        return self._session.post(url, data=form, timeout=timeout, stream=True, allow_redirects=False)

    def _retried(self, call: Callable[[], _T]) -> _T:
        limit = self._retries
        backoff = tenacity.wait_exponential(limit.initial, limit.longest) + tenacity.wait_random(0, limit.jitter)

        def pause(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.after if isinstance(error, Passing) else None
            return backoff(state) if asked is None else min(asked, _LONGEST_RETRY_AFTER)

        patiently = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Passing),
            stop=tenacity.stop_after_attempt(limit.attempts) | tenacity.stop_when_event_set(self._stop),
            wait=pause,
            sleep=tenacity.sleep_using_event(self._stop),  # so that closing ends it
            before_sleep=_tell,
            reraise=True,
        )
        try:
            answer: _T = patiently(self._unless_ended, call)
            return answer
        except Passing as error:
            if error.down:
                raise SourceGone(error.message, error.fix) from None
            raise SourceError(f"{error.message} (tried {limit.attempts} times)", error.fix) from None

    def _unless_ended(self, call: Callable[[], _T]) -> _T:
        if self._stop.is_set():
            raise SourceGone("the run was ended")
        return call()


def _tell(state: tenacity.RetryCallState) -> None:
    """Why a question is asked again, and when: shown under -v."""
    error = state.outcome.exception() if state.outcome else None
    _log.warning("%s: trying again in %.1f s", error, state.upcoming_sleep)
