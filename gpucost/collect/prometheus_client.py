"""Talks to one Prometheus: PrometheusConnect for the small questions, a streamed body for the samples."""

from __future__ import annotations

import email.utils
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import stamina

from gpucost.collect import prometheus_auth
from gpucost.collect.base import SourceGone
from gpucost.collect.prometheus_parse import LabelCache, MatrixReader, Truncated
from gpucost.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    from gpucost.config import PrometheusSource
    from gpucost.store.samples import Answer

_T = TypeVar("_T")

_CHUNK = 1 << 20
_LONGEST_URL = 4000
_LONGEST_RETRY_AFTER = 120.0
_CONNECT_SECONDS = 10.0
_TOO_MUCH = (
    "too many samples", "exceeds the limit", "exceeded the limit", "sample limit", "chunks limit", "series limit", "bytes limit",
    "maxsamplesperquery", "max-samples", "maxuniquetimeseries", "too large", "query time range exceeds", "max-query-length",
    "query timed out", "-search.max",
)  # fmt: skip


class TooMuch(SourceError):
    """The server will not answer that much at once: ask for less."""


class _Retry(SourceError):
    """Worth another try; `after` is how many seconds the server asked to wait, if it did. `down`: nothing answered at all."""

    def __init__(self, message: str, *, after: float | None = None, down: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.down = down


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
        from prometheus_api_client.prometheus_connect import PrometheusConnect
        from urllib3.util.retry import Retry

        self._source = source
        self._retries = retries or Retries()
        self._session = prometheus_auth.session(source)
        # PrometheusConnect's exceptions hold no status and no headers: each thread's last response does.
        self._last = threading.local()
        self._session.hooks["response"] = [self._remember]
        # Retries are ours: they must also cover a body that breaks off, and honor Retry-After within bounds.
        self.connect = PrometheusConnect(
            url=source.url,
            session=self._session,
            retry=Retry(total=0, redirect=0, read=False),
            timeout=round(source.timeout_seconds) or 1,
        )
        self.cache = LabelCache()
        self.warnings: set[str] = set()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends the session; requests under way break off at their next chunk and are not retried."""
        self._stop.set()
        self._session.close()

    def matrix(self, metric: str, query: str, at_ms: int) -> Answer:
        """Raw samples of a range selector at a moment. Raises TooMuch, SourceError, or SourceGone where nobody answers."""
        return self._retried(lambda: self._matrix_once(metric, query, at_ms))

    def value(self, query: str, at_ms: int) -> float | None:
        """The one value that a query gives at a moment; None where it gives none."""
        rows = self._retried(lambda: self._small(query, at_ms))
        return float(rows[0]["value"][1]) if rows else None

    def label_values(self, label: str, from_ms: int, to_ms: int, series: list[str] | None = None) -> set[str] | None:
        """A label's values around a period, of some series or of all; None where the server does not tell."""
        params: dict[str, Any] = {"start": f"{from_ms / 1000:.3f}", "end": f"{to_ms / 1000:.3f}"}
        if series:
            params["match[]"] = series
        try:
            return set(self._retried(lambda: self._guarded(lambda: self.connect.get_label_values(label, params=params))))
        except SourceError:  # not every server has this endpoint; one that is gone will say so to the next question
            return None

    def _remember(self, response: requests.Response, *_: object, **__: object) -> None:
        self._last.response = response

    def _small(self, query: str, at_ms: int) -> list[dict[str, Any]]:
        result = self._guarded(lambda: self.connect.custom_query(query, params={"time": f"{at_ms / 1000:.3f}"}))
        if not isinstance(result, list):
            raise SourceError(f"{self._source.url} does not answer like a Prometheus")
        return result

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Calls PrometheusConnect and turns its failures, which know no status, into ours."""
        import requests
        from prometheus_api_client.exceptions import PrometheusApiClientException

        self._last.response = None
        try:
            return call()
        except requests.exceptions.TooManyRedirects as error:
            raise self._refused(error.response) if error.response is not None else self._lost(error) from None
        except requests.exceptions.JSONDecodeError as error:
            raise self._not_json() from error
        except requests.exceptions.RequestException as error:
            raise self._lost(error) from None
        except PrometheusApiClientException as error:
            response: requests.Response | None = self._last.response
            raise self._refused(response) if response is not None else self._not_json() from error
        except (KeyError, TypeError, ValueError) as error:  # what PrometheusConnect meets in JSON that is not Prometheus'
            raise self._not_json() from error

    def _matrix_once(self, metric: str, query: str, at_ms: int) -> Answer:
        import requests

        reader = MatrixReader(metric, self.cache)
        try:
            with self._send({"query": query, "time": f"{at_ms / 1000:.3f}"}) as response:
                if response.status_code != 200:
                    raise self._refused(response)
                if "html" in response.headers.get("Content-Type", ""):
                    raise self._not_json()
                for chunk in response.iter_content(_CHUNK):
                    if self._stop.is_set():
                        raise SourceGone("the run was ended")
                    reader.feed(chunk)
            answer = reader.finish()
        except Truncated as error:
            raise _Retry(f"{self._source.url}: {error}") from None
        except requests.exceptions.RequestException as error:
            raise self._lost(error) from None
        if reader.warnings:
            with self._lock:
                self.warnings.update(reader.warnings)
        return answer

    def _send(self, form: dict[str, str]) -> requests.Response:
        url = f"{self._source.url}/api/v1/query"
        timeout = (min(_CONNECT_SECONDS, self._source.timeout_seconds), self._source.timeout_seconds)
        if len(form["query"]) < _LONGEST_URL:
            return self._session.get(url, params=form, timeout=timeout, stream=True, allow_redirects=False)
        return self._session.post(url, data=form, timeout=timeout, stream=True, allow_redirects=False)

    def _retried(self, call: Callable[[], _T]) -> _T:
        limit = self._retries
        try:
            for attempt in stamina.retry_context(
                on=self._backoff,
                attempts=limit.attempts,
                timeout=None,
                wait_initial=limit.initial,
                wait_max=limit.longest,
                wait_jitter=limit.jitter,
            ):
                with attempt:
                    return call()
        except _Retry as error:
            if error.down:
                raise SourceGone(error.message, error.fix) from None
            raise SourceError(f"{error.message} (tried {limit.attempts} times)", error.fix) from None
        raise AssertionError("unreachable")

    def _backoff(self, error: Exception) -> bool | float:
        if not isinstance(error, _Retry) or self._stop.is_set():
            return False
        return True if error.after is None else min(error.after, _LONGEST_RETRY_AFTER)

    def _lost(self, error: Exception) -> SourceError:
        import requests

        url = self._source.url
        if isinstance(error, requests.exceptions.SSLError):
            return SourceError(
                f"{url}: the server's certificate is not trusted",
                fix="name its CA: [prometheus.tls] ca_file = …, in gpucost.toml",
            )
        if isinstance(error, requests.exceptions.Timeout):
            return _Retry(f"{url} did not answer within {self._source.timeout_seconds:g} s")
        if isinstance(error, requests.exceptions.ConnectionError):
            refused = isinstance(error.args[0] if error.args else None, Exception) and "NewConnectionError" in repr(error)
            if refused:
                lost = _Retry(f"nothing answers at {url}", down=True)
                lost.fix = "start it, or set url in [prometheus] of gpucost.toml; gpucost doctor checks it"
                return lost
            return _Retry(f"{url} closed the connection in the middle of an answer")
        if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
            return _Retry(f"{url} broke off in the middle of an answer")
        return SourceError(f"{url} cannot be asked: {type(error).__name__}")

    def _not_json(self) -> SourceError:
        return SourceError(
            f"{self._source.url} answers with something that is not Prometheus' JSON (a login page?)",
            fix="set url in [prometheus] of gpucost.toml to the address of the HTTP API, with its credentials",
        )

    def _refused(self, response: requests.Response) -> SourceError:
        url, status = self._source.url, response.status_code
        text = _error_text(response)
        said = f": {text}" if text else ""
        if status in (301, 302, 303, 307, 308):
            return SourceGone(
                f"{url} redirects to {response.headers.get('Location', 'elsewhere').split('?')[0]} (a login page?)",
                fix="set url in [prometheus] of gpucost.toml to the address of the HTTP API itself, with its credentials",
            )
        if status in (401, 403):
            return SourceGone(
                f"{url} refuses the credentials (HTTP {status})",
                fix="set bearer_token_file, basic_auth, headers_env or tenant in [prometheus] of gpucost.toml",
            )
        if status == 404:
            return SourceGone(
                f"{url}/api/v1/query is not there (HTTP 404)",
                fix="add the path prefix to url in [prometheus]: …/prometheus, …/select/0/prometheus, …/api/prom",
            )
        if status in (413, 422) or any(phrase in text.lower() for phrase in _TOO_MUCH):
            return TooMuch(f"{url} will not answer that much at once (HTTP {status}){said}")
        if status in (408, 429) or status >= 500:
            return _Retry(f"{url} answered HTTP {status}{said}", after=_retry_after(response.headers.get("Retry-After")))
        return SourceError(f"{url} answered HTTP {status}{said}")


def _error_text(response: requests.Response) -> str:
    """The server's own words, one line, where it answers in JSON or plain text."""
    import requests

    try:
        body = response.content[:4000].decode("utf-8", "replace")
    except requests.exceptions.RequestException:
        return ""
    if "html" in response.headers.get("Content-Type", "") or body.lstrip().startswith("<"):
        return ""
    try:
        document = response.json()
        text = str(document.get("error") or "") if isinstance(document, dict) else ""
    except ValueError:
        text = body
    return " ".join(text.split())[:300]


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait: the header holds a number of seconds or an HTTP date (RFC 9110, 10.2.3)."""
    if not header:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
