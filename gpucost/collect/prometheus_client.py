"""Talks to one Prometheus: PrometheusConnect for the small questions, a streamed body for the samples."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

from gpucost.collect import prometheus_auth
from gpucost.collect.base import SourceGone
from gpucost.collect.prometheus_failures import Passing, broken_off, lost, not_json, refused
from gpucost.collect.prometheus_parse import LabelCache, MatrixReader, Truncated
from gpucost.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import requests
    from prometheus_api_client.prometheus_connect import PrometheusConnect

    from gpucost.config import PrometheusSource
    from gpucost.store.samples import Answer

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_CHUNK = 1 << 20
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
        self._session = prometheus_auth.session(source)
        # PrometheusConnect's exceptions hold no status and no headers: each thread's last response does.
        self._last = threading.local()
        self._session.hooks["response"] = [self._remember]
        self.cache = LabelCache()
        self.warnings: set[str] = set()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    @cached_property
    def connect(self) -> PrometheusConnect:
        """PrometheusConnect over the same session; made when it is first needed, since it brings pandas."""
        from prometheus_api_client.prometheus_connect import PrometheusConnect
        from urllib3.util.retry import Retry

        return PrometheusConnect(
            url=self._source.url,
            session=self._session,
            # Retries are ours: they must also cover a body that breaks off, and honor Retry-After within bounds.
            retry=Retry(total=0, redirect=0, read=False),
            timeout=round(self._source.timeout_seconds) or 1,
        )

    def close(self) -> None:
        """Ends the session and all pauses; requests under way break off at their next chunk and are not retried."""
        self._stop.set()
        self._session.close()

    def matrix(self, metric: str, query: str, at_ms: int) -> Answer:
        """Raw samples of a range selector at a moment. Raises TooMuch, SourceError, or SourceGone where nobody answers."""
        return self._retried(lambda: self._matrix_once(metric, query, at_ms))

    def get(self, path: str, params: Mapping[str, str]) -> Any:
        """The `data` that the server answers under /api/v1/`path`."""
        return self._retried(lambda: self._guarded(lambda: self._get_once(path, params), path))

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

    def _get_once(self, path: str, params: Mapping[str, str]) -> Any:
        response = self._session.get(
            f"{self._source.url}/api/v1/{path}", params=dict(params), timeout=self._timeout, allow_redirects=False
        )
        if response.status_code != 200:
            raise refused(self._source, response, path)
        return response.json()["data"]

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
            raise refused(self._source, error.response, path) from None
        except requests.exceptions.JSONDecodeError as error:
            raise not_json(self._source) from error
        except requests.exceptions.RequestException as error:
            raise lost(self._source, error) from None
        except PrometheusApiClientException as error:
            response: requests.Response | None = self._last.response
            raise refused(self._source, response, path) if response is not None else not_json(self._source) from error
        except (KeyError, TypeError, ValueError) as error:  # what PrometheusConnect meets in JSON that is not Prometheus'
            raise not_json(self._source) from error

    def _matrix_once(self, metric: str, query: str, at_ms: int) -> Answer:
        import requests

        reader = MatrixReader(metric, self.cache)
        try:
            with self._send({"query": query, "time": f"{at_ms / 1000:.3f}"}) as response:
                if response.status_code != 200:
                    raise refused(self._source, response, "query")
                if "html" in response.headers.get("Content-Type", ""):
                    raise not_json(self._source)
                for chunk in response.iter_content(_CHUNK):
                    if self._stop.is_set():
                        raise SourceGone("the run was ended")
                    reader.feed(chunk)
            answer = reader.finish()
        except Truncated as error:
            raise broken_off(self._source, error) from None
        except requests.exceptions.RequestException as error:
            raise lost(self._source, error) from None
        if reader.warnings:
            with self._lock:
                self.warnings.update(reader.warnings)
        return answer

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
