"""Sends something over HTTP to a server that the user names: with retries, and without telling its URL, which may be a secret."""

from __future__ import annotations

import http.client
import io
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import tenacity
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    import socket

    import requests
    from urllib3 import PoolManager

_log = logging.getLogger(__name__)

_PAUSES_SECONDS = (0.5, 2.0, 5.0)
_TIMEOUT_SECONDS = (5.0, 15.0)  # to connect, to answer
_LONGEST_PAUSE_SECONDS = 30.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One message. `what` says who it goes to, in errors; `repeatable` that taking it twice does no harm."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]
    what: str
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """What the server said: status, the beginning of the text on one line, and its host."""

    status: int
    text: str
    host: str


class _Passing(GpucostError):
    """A failure that may be over in a moment."""

    after: float | None = None


def send(request: Request) -> Response:
    """Send `request`, again where the server cannot be reached or asks for patience. No redirect is followed.

    A message that may have arrived is sent again only where it is `repeatable`. Raises GpucostError where no answer came at all.
    """
    import requests
    import tenacity

    host = urlsplit(request.url).netloc.rpartition("@")[2]

    def once() -> Response:
        try:
            with requests.Session() as session:
                session.auth = _keep  # else requests would take a password from ~/.netrc
                answer = session.request(
                    request.method,
                    request.url,
                    data=request.body,
                    headers={"User-Agent": "gpucost", **request.headers},
                    timeout=_TIMEOUT_SECONDS,
                    allow_redirects=False,
                )
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ReadTimeout) as error:
            raise _timed_out(request, host, error) from None
        except requests.exceptions.SSLError:
            raise GpucostError(f"{request.what} at {host} has no certificate that can be trusted", _CHECK) from None
        except requests.exceptions.ConnectionError as error:
            raise _unreachable(request, host, error) from None
        except (requests.exceptions.RequestException, ValueError):
            # their words would show the URL
            raise GpucostError(f"the address of {request.what} cannot be used", _CHECK) from None
        if answer.status_code in _PASSING:
            passing = _Passing(f"{request.what} at {host} answered {answer.status_code}: {_first_words(answer.text)}", _CHECK)
            passing.after = _retry_after(answer.headers.get("Retry-After"))
            raise passing
        return Response(answer.status_code, _first_words(answer.text), host)

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.after if isinstance(error, _Passing) else None
        usual = _PAUSES_SECONDS[min(state.attempt_number, len(_PAUSES_SECONDS)) - 1]
        return usual if asked is None else min(asked, _LONGEST_PAUSE_SECONDS)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Passing),
        stop=tenacity.stop_after_attempt(len(_PAUSES_SECONDS) + 1),
        wait=pause,
        before_sleep=_tell,
        reraise=True,
    )
    try:
        return retrying(once)
    except _Passing as error:
        raise GpucostError(f"{error.message} (tried {len(_PAUSES_SECONDS) + 1} times)", error.fix) from None


_CHECK = "check the address, and that this machine may reach it"


def _timed_out(request: Request, host: str, error: Exception) -> GpucostError:
    import requests

    if isinstance(error, requests.exceptions.ConnectTimeout):
        return _Passing(f"{request.what} at {host} cannot be reached: timed out", _CHECK)
    if request.repeatable:
        return _Passing(f"{request.what} at {host} did not answer in time", _CHECK)
    return GpucostError(
        f"{request.what} at {host} did not answer in time; the message may have arrived",
        "look there before you send it again",
    )


def _unreachable(request: Request, host: str, error: requests.exceptions.ConnectionError) -> GpucostError:
    from urllib3.exceptions import NewConnectionError, ProtocolError

    cause = error.args[0] if error.args else None
    reason = getattr(cause, "reason", cause)
    if isinstance(reason, ProtocolError) and not request.repeatable:
        return GpucostError(
            f"{request.what} at {host} broke off; the message may have arrived", "look there before you send it again"
        )
    why = "nothing answers there" if isinstance(reason, NewConnectionError) else "the connection failed"
    return _Passing(f"{request.what} at {host} cannot be reached: {why}", _CHECK)


def _keep(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _first_words(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:1000]).split())[:_MOST_TEXT]


def _retry_after(value: str | None) -> float | None:
    return float(value) if value and value.strip().isdigit() else None


def _tell(state: tenacity.RetryCallState) -> None:
    """Why it is sent again: shown under -v."""
    error = state.outcome.exception() if state.outcome else None
    _log.warning("%s: trying again in %.1f s", error, state.upcoming_sleep)


# Throttled, or a server that may be well again in a moment.
PASSING = (429, 500, 502, 503, 504)

_T = TypeVar("_T")


class Passing(Exception):
    """A refusal that may pass; `wait` is what the server asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def asked_again(ask: Callable[[], _T], *, attempts: int, longest_wait: float) -> _T:
    """What `ask` answers, which is called up to `attempts` times while it raises Passing. Raises the last Passing."""

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.wait if isinstance(error, Passing) else None
        return min(asked if asked is not None else 0.5 * 2 ** (state.attempt_number - 1), longest_wait)

    answer: _T = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts), wait=pause, retry=tenacity.retry_if_exception_type(Passing), reraise=True
    )(ask)
    return answer


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The longest wait, in seconds, that any header named `…Retry-After` asks for; None where none says a number."""
    waits = [float(text) for name, text in headers.items() if name.lower().endswith("retry-after") and text.strip().isdigit()]
    return max(waits, default=None)


# What is read of an answer that says no more than why there is none.
ERROR_BYTES = 8192
_CHUNK = 1 << 20


class TooLarge(Exception):
    """The answer is longer than its limit; its connection is closed."""


class TimedAdapter(HTTPAdapter):
    """Ends an answer that is not whole after `seconds`. The timeouts of requests count from one byte to the next."""

    def __init__(self, seconds: float) -> None:
        self._pools = {"http": _http_pool(seconds), "https": _https_pool(seconds)}
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Makes the pools of connections, timed ones."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> PoolManager:
        """The same on the way through a proxy."""
        manager: PoolManager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager


def chunks(response: requests.Response, limit: int) -> Iterator[bytes]:
    """The body, decompressed, in pieces of up to a MiB. Raises TooLarge past `limit` bytes."""
    size = 0
    for chunk in response.iter_content(_CHUNK):
        size += len(chunk)
        if size > limit:
            response.close()
            raise TooLarge
        yield chunk


def hold(response: requests.Response, limit: int) -> bytes:
    """The whole body, kept in `response` for those who ask it; of an error only its beginning. Raises TooLarge."""
    body = b"".join(chunks(response, limit)) if response.status_code == 200 else beginning(response)
    response._content, response._content_consumed = body, True  # type: ignore[attr-defined]
    response.encoding = "utf-8"
    return body


def beginning(response: requests.Response, limit: int = ERROR_BYTES) -> bytes:
    """The first bytes of a body, or what of them arrives; the rest is not read."""
    import requests

    body = bytearray()
    try:
        for chunk in response.iter_content(limit):
            body += chunk
            if len(body) >= limit:
                break
    except requests.exceptions.RequestException:
        pass
    response.close()
    return bytes(body[:limit])


class _TimedSocket(io.RawIOBase):
    """What http.client reads from: a socket whose every wait ends with the whole answer's time."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._file = sock.makefile("rb", buffering=0)
        self._sock = sock
        self._wait = sock.gettimeout()
        self._end = time.monotonic() + seconds

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(self, 1 << 16)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(left if self._wait is None else min(self._wait, left))
        return self._file.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            if self._sock.fileno() >= 0:
                self._sock.settimeout(self._wait)  # the next request sends with it
            self._file.close()
        super().close()


class _TimedConnection(HTTPConnection):
    seconds: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.response_class = lambda sock, *a, **k: http.client.HTTPResponse(_TimedSocket(sock, self.seconds), *a, **k)  # type: ignore


class _TimedTlsConnection(_TimedConnection, HTTPSConnection):
    pass


def _http_pool(seconds: float) -> type[HTTPConnectionPool]:
    connection = type("TimedConnection", (_TimedConnection,), {"seconds": seconds})
    return type("TimedPool", (HTTPConnectionPool,), {"ConnectionCls": connection})


def _https_pool(seconds: float) -> type[HTTPSConnectionPool]:
    connection = type("TimedTlsConnection", (_TimedTlsConnection,), {"seconds": seconds})
    return type("TimedTlsPool", (HTTPSConnectionPool,), {"ConnectionCls": connection})
