"""Talks to one MLflow tracking server over its REST API: pages, credentials from the environment, retries."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tenacity

from gpucost.collect.prometheus_auth import is_here
from gpucost.collect.prometheus_parse import Garbled, whole_json
from gpucost.errors import SourceError

if TYPE_CHECKING:
    import requests

    from gpucost.config import Mlflow

_log = logging.getLogger(__name__)

_PAGE = 1000
_LONGEST_SECONDS = 600.0
_LARGEST_MIB = 64
_ATTEMPTS = 5
_LONGEST_RETRY_AFTER = 60.0
_LOGIN = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
_ADDRESS = "set url in [mlflow] of gpucost.toml to what stands before /api/2.0"


class _Passing(SourceError):
    """Worth another try, after as many seconds as the server asked for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message, "collect again later: what was loaded is kept")
        self.after = after


class MlflowClient:
    """Answers of one server. Raises SourceError, in words, where it gives none; `pause` is the first pause before another try."""

    def __init__(self, settings: Mlflow, pause: float = 0.5) -> None:
        import requests

        self._settings = settings
        from gpucost.collect.limits import TimedAdapter

        self._session = requests.Session()
        self._session.mount("http://", TimedAdapter(_LONGEST_SECONDS))
        self._session.mount("https://", TimedAdapter(_LONGEST_SECONDS))
        self._session.trust_env = not is_here(settings.url or "")
        self._session.headers["User-Agent"] = "gpucost"
        self._session.auth = self._log_in  # else requests would take a password from ~/.netrc
        tls = settings.tls
        self._session.verify = str(tls.ca_file) if tls.ca_file is not None else not tls.insecure_skip_verify
        for path in (tls.ca_file, tls.cert_file, tls.key_file):
            if path is not None and not path.is_file():
                raise SourceError(f"[mlflow.tls] names {path}, which is not there")
        if tls.cert_file is not None:
            self._session.cert = (str(tls.cert_file), str(tls.key_file)) if tls.key_file is not None else str(tls.cert_file)
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Passing),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=_waiter(tenacity.wait_exponential(pause, 20 * pause)),
            before_sleep=_tell,
            reraise=True,
        )

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def experiments(self) -> Iterator[dict[str, Any]]:
        """All experiments that are not deleted."""
        yield from self._pages("POST", "experiments/search", "experiments", {})

    def runs(self, experiment_id: str, before_ms: int) -> Iterator[dict[str, Any]]:
        """Runs of an experiment that began before a moment and are not deleted."""
        asked = {
            "experiment_ids": [experiment_id],
            "filter": f"attributes.start_time < {before_ms}",
            "run_view_type": "ACTIVE_ONLY",
        }
        yield from self._pages("POST", "runs/search", "runs", asked)

    def history(self, run_id: str, metric: str) -> Iterator[dict[str, Any]]:
        """All logged values of a run's metric: `value`, `timestamp` in milliseconds, `step`."""
        yield from self._pages("GET", "metrics/get-history", "metrics", {"run_id": run_id, "metric_key": metric})

    def _pages(self, method: str, path: str, key: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = {**asked, "max_results": _PAGE, **({"page_token": token} if token else {})}
            answer: dict[str, Any] = self._retrying(self._once, method, path, page)
            yield from answer.get(key) or []
            before, token = token, str(answer.get("next_page_token") or "")
            if not token or token == before:
                return

    def _once(self, method: str, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        import requests

        from gpucost.collect import limits

        url = f"{self._settings.url}/api/2.0/mlflow/{path}"
        sent = {"params": asked} if method == "GET" else {"json": asked}
        timeout = (min(10.0, self._settings.timeout_seconds), self._settings.timeout_seconds)
        try:
            response = self._session.request(method, url, timeout=timeout, allow_redirects=False, stream=True, **sent)  # type: ignore[arg-type]
            body = limits.hold(response, _LARGEST_MIB << 20)
            if response.status_code != 200:
                raise self._refused(response, path)
            answer = whole_json(body)
        except requests.exceptions.SSLError:
            raise SourceError(
                f"{self._settings.url}: no encrypted connection that is trusted", "name its CA: [mlflow.tls] ca_file = …"
            ) from None
        except requests.exceptions.Timeout:
            raise _Passing(f"{self._settings.url} did not answer within {self._settings.timeout_seconds:g} s") from None
        except limits.TooLarge:
            raise SourceError(f"{self._settings.url} answers with more than {_LARGEST_MIB} MiB", _ADDRESS) from None
        except Garbled:
            raise self.not_mlflow() from None
        except requests.exceptions.ConnectionError:
            raise _Passing(f"nothing answers at {self._settings.url}") from None
        except requests.exceptions.RequestException as error:
            raise SourceError(f"{self._settings.url} cannot be asked: {type(error).__name__}", _ADDRESS) from None
        if not isinstance(answer, dict):
            raise self.not_mlflow()
        return answer

    def not_mlflow(self) -> SourceError:
        """What an answer means that MLflow does not give."""
        return SourceError(f"{self._settings.url} answers with something that is not MLflow's JSON", _ADDRESS)

    def _refused(self, response: requests.Response, path: str) -> SourceError:
        url, status = self._settings.url, response.status_code
        if status in (401, 403):
            return SourceError(f"{url} refuses the credentials (HTTP {status})", _LOGIN)
        if status == 429 or status >= 500 or status == 408:
            after = response.headers.get("Retry-After", "")
            return _Passing(f"{url} answered HTTP {status}", float(after) if after.isdigit() else None)
        if status == 404 and not _said(response):
            return SourceError(f"{url}/api/2.0/mlflow/{path} is not there (HTTP 404)", _ADDRESS)
        if status in (301, 302, 303, 307, 308):
            return SourceError(f"{url} redirects elsewhere (a login page?)", _ADDRESS)
        return SourceError(f"{url} answered HTTP {status}: {_said(response)}")

    @staticmethod
    def _log_in(request: requests.PreparedRequest) -> requests.PreparedRequest:
        from requests.auth import HTTPBasicAuth

        token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
        if user:
            prepared: requests.PreparedRequest = HTTPBasicAuth(user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))(request)
            return prepared
        if token:
            request.headers["Authorization"] = f"Bearer {token.strip()}"
        return request


def _said(response: requests.Response) -> str:
    try:
        document = response.json()
    except ValueError:
        return ""
    return " ".join(str(document.get("message") or "").split())[:300] if isinstance(document, dict) else ""


def _waiter(backoff: Any) -> Any:
    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _Passing) and error.after is not None:
            return min(error.after, _LONGEST_RETRY_AFTER)
        return float(backoff(state))

    return pause


def _tell(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    _log.warning("%s: trying again in %.1f s", error, state.upcoming_sleep)
