"""The HTTP client: answers bounded in size and time, one retry policy, messages to secret URLs."""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import requests
import tenacity
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.exceptions import InvalidHeader, NewConnectionError, ProtocolError
from urllib3.util import Retry

from gpucost import inputs
from gpucost.errors import GpucostError, SourceError
from gpucost.records import frozen_dataclass
from gpucost.texts import conceal, excerpt

if TYPE_CHECKING:
    from gpucost.config.model import Tls

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# Throttling, and server errors that may pass.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class TransientError(GpucostError):
    """A failure that may pass; `wait` is the pause that the server requests, in seconds."""

    def __init__(self, message: str, wait: float | None = None, fix: str | None = None) -> None:
        super().__init__(message, fix)
        self.wait = wait


def retry(
    ask: Callable[[], _T],
    *,
    attempts: int,
    longest_wait: float,
    initial: float = 0.5,
    longest: float = 30.0,
    jitter: float = 0.0,
    stop: threading.Event | None = None,
) -> _T:
    """Call `ask` up to `attempts` times while it raises TransientError; return its answer.

    Raises the last TransientError. Pauses double from `initial` to `longest` seconds, plus up to `jitter`,
    unless the server requests another pause; none exceeds `longest_wait`. `stop` ends a pause and all further
    attempts. Each retry is logged (shown by -v).
    """
    growth = tenacity.wait_exponential(initial, longest) + tenacity.wait_random(0, jitter)
    last = tenacity.stop_after_attempt(attempts)

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        wanted = error.wait if isinstance(error, TransientError) else None
        return min(growth(state) if wanted is None else wanted, longest_wait)

    def log(state: tenacity.RetryCallState) -> None:
        _log.warning(
            "%s: trying again in %.1f s", state.outcome and state.outcome.exception(), state.upcoming_sleep
        )

    answer: _T = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        stop=last if stop is None else last | tenacity.stop_when_event_set(stop),
        wait=pause,
        sleep=tenacity.nap.sleep if stop is None else tenacity.sleep_using_event(stop),
        before_sleep=log,
        reraise=True,
    )(ask)
    return answer


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The longest wait in seconds of any `…Retry-After` header, a number or date; or None."""
    waits = []
    for name, text in headers.items():
        if name.lower().endswith("retry-after"):
            with suppress(InvalidHeader, ValueError, OverflowError):
                waits.append(float(Retry().parse_retry_after(text)))
    return max(waits, default=None)


@frozen_dataclass
class Response:
    """The server's answer: status, start of the text on one line, and host."""

    status: int
    text: str
    host: str


_TRIES = 4
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = (5.0, 15.0)  # to connect, to answer
_LONGEST_SECONDS = 30.0
_CHECK = "check the address and that this machine can reach it"


def send(
    method: str, url: str, body: bytes, headers: Mapping[str, str], what: str, *, repeatable: bool = False
) -> Response:
    """Send a message; retry if the server cannot be reached or is busy. Follows no redirect.

    `what` names the server in errors. A message that may have arrived is sent again only if a duplicate does
    no harm (`repeatable`). Raises GpucostError if no answer came.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    server = f"{what} at {host}"

    def once() -> Response:
        try:
            with session(url, _LONGEST_SECONDS) as connection:
                answer = connection.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=_TIMEOUT_SECONDS,
                    allow_redirects=False,
                    stream=True,
                )
                text = excerpt(beginning(answer).decode("utf-8", "replace"), 200)
        except (requests.RequestException, ValueError) as error:
            raise undelivered(server, error, repeatable=repeatable) from None
        if answer.status_code in PASSING:
            raise TransientError(
                f"{server} answered {answer.status_code}: {text}", retry_after(answer.headers)
            )
        return Response(answer.status_code, text, host)

    try:
        return retry(once, attempts=_TRIES, initial=_FIRST_PAUSE_SECONDS, longest_wait=30.0)
    except TransientError as error:
        raise GpucostError(f"{error} (tried {_TRIES} times)", _CHECK) from None


# Exceptions of requests for an answer that is cut off.
CUT_OFF = (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError)


def undelivered(server: str, error: Exception, *, repeatable: bool = True) -> SourceError | TransientError:
    """The error for a request without an answer; TransientError if it may be sent again.

    The exception's own text would show the URL.
    """
    cause = error.args[0] if error.args else None
    reason = getattr(cause, "reason", cause)
    if isinstance(error, requests.ConnectTimeout):
        return TransientError(f"{server} cannot be reached: timed out")
    if isinstance(error, requests.exceptions.SSLError):
        return SourceError(f"{server} has an untrusted certificate", _CHECK)
    if isinstance(error, requests.ReadTimeout):
        failure = how = "did not answer in time"
    elif isinstance(error, (requests.ConnectionError, *CUT_OFF)):
        why = "no server answers there" if isinstance(reason, NewConnectionError) else "the connection failed"
        failure, how = f"cannot be reached: {why}", "broke off"
        if not isinstance(reason, ProtocolError):
            return TransientError(f"{server} {failure}")
    else:
        return SourceError(f"the address of {server} cannot be used", _CHECK)
    if repeatable:
        return TransientError(f"{server} {failure}")
    return SourceError(
        f"{server} {how}; the message may have arrived", "check there before you send it again"
    )


class Session(requests.Session):
    """The client of one server, with answers limited in time and size and no redirects to other servers.

    Only the start of an error's body is kept.
    """

    def __init__(self, url: str, seconds: float, limit: int) -> None:
        super().__init__()
        self._url, self._limit = url, limit
        self.max_redirects = 3
        self.hooks["response"] = [self._hold]
        for scheme in ("http://", "https://"):
            self.mount(scheme, TimedAdapter(seconds))

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request or follow a redirect. Raises SourceError if it goes to another server."""
        here = requests.Request("GET", self._url).prepare().url
        # the rule by which requests itself withholds a login
        if self.should_strip_auth(here, request.url):  # type: ignore[no-untyped-call]
            raise SourceError(
                f"an answer of {urlsplit(self._url).hostname} redirects to another server", _CHECK
            )
        return super().send(request, **options)

    def _hold(self, response: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
        # requests reads the whole body of a redirect, even if it does not follow it
        if response.is_redirect or not stream:
            is_whole = response.status_code == 200
            body = b"".join(chunks(response, self._limit)) if is_whole else beginning(response)
            response._content, response._content_consumed = body, True  # type: ignore[attr-defined]
            response.encoding = "utf-8"


def session(
    url: str, seconds: float, limit: int = 1 << 20, tls: Tls | None = None, section: str = ""
) -> Session:
    """A session for one server, with limits for each answer and TLS settings of [`section`.tls].

    Answers end after `seconds` and `limit` bytes; streamed answers are read with `chunks`. Raises SourceError
    for a missing certificate file.
    """
    for password in re.findall(":([^/@]+)@", url):
        conceal(password)
    connection = Session(url, seconds, limit)
    # No proxy for this machine itself.
    addresses = addresses_of(url)
    connection.trust_env = not (addresses and all(address.is_loopback for address in addresses))
    connection.headers["User-Agent"] = "gpucost"
    # otherwise requests would read a password from ~/.netrc and even replace a header with it
    connection.auth = lambda request: request
    if tls is None:
        return connection
    connection.verify = str(tls.ca_file) if tls.ca_file is not None else not tls.insecure_skip_verify
    for path in (tls.ca_file, tls.cert_file, tls.key_file):
        if path is not None and not path.is_file():
            raise SourceError(f"file not found: {path}, named in [{section}.tls]")
    if tls.cert_file is not None:
        cert, key = str(tls.cert_file), tls.key_file
        connection.cert = cert if key is None else (cert, str(key))
    return connection


@dataclass
class JsonServer:
    """A server that answers in JSON.

    `name` is for messages; `login`, `address` and `later` are the fixes for a refused login, other refusals,
    and an unreachable server.
    """

    name: str
    session: Session
    login: str
    address: str
    later: str
    seconds: float = 60.0

    def ask(
        self,
        method: str,
        url: str,
        *,
        number: Callable[[str], Any] = float,
        is_whole: Callable[[Any], bool] = lambda _: True,
        **query: Any,
    ) -> Any:
        """The answer to a request, tried up to five times. Raises SourceError.

        `number` parses decimals. `is_whole` checks that the answer is complete; it may raise ValueError,
        LookupError or TypeError.
        """

        def once() -> Any:
            timeout = (min(10.0, self.seconds), self.seconds)
            try:
                response = self.session.request(method, url, timeout=timeout, **query)
            except SourceError as error:  # too large, or a redirect to another server
                raise SourceError(f"{self.name}: {error.message}", self.address) from None
            except (requests.RequestException, ValueError) as error:
                raise undelivered(self.name, error) from None
            if response.status_code != 200:
                raise refused(self.name, response, self.login, self.address)
            try:
                answer = inputs.parse_json(response.content, number)
                if is_whole(answer):
                    return answer
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                raise TransientError(
                    f"{self.name} did not answer with the expected JSON: {excerpt(str(error), 100)}"
                ) from None
            raise TransientError(f"{self.name} gave an incomplete answer")

        try:
            return retry(once, attempts=_ATTEMPTS, longest_wait=120.0)
        except TransientError as error:
            raise SourceError(error.message, self.later) from None


def addresses_of(url: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses of a URL's host; empty if it has none."""
    try:
        entries = socket.getaddrinfo(urlsplit(url).hostname, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return []
    return [ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in entries]


def refused(server: str, response: requests.Response, login: str, fix: str) -> SourceError | TransientError:
    """The error for an answer other than 200; `login` is the fix for missing credentials."""
    status, text = response.status_code, reason(response)
    words = f": {text}" if text else ""
    if status in PASSING or status >= 500:
        return TransientError(f"{server} answered HTTP {status}{words}", retry_after(response.headers))
    if status in (401, 403):
        return SourceError(f"{server} refuses access (HTTP {status}){words}", login)
    return SourceError(f"{server} answered HTTP {status}{words}", fix)


def reason(response: requests.Response) -> str:
    """The server's error text on one line, from JSON or plain text.

    Only the first kilobytes are read.
    """
    body = beginning(response).decode("utf-8", "replace").lstrip()
    if "html" in response.headers.get("Content-Type", "") or body.startswith("<"):
        return ""
    if not body.startswith("{"):
        return excerpt(body)
    # the document may be longer
    match = re.search(
        r'(?i)"(?:error|message|description)"\s*:\s*("(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*+)', body
    )
    try:
        return excerpt(json.loads(match[1] + '"')) if match else ""
    except ValueError:
        return ""


# Bytes to read of an error answer.
ERROR_BYTES = 8192
_CHUNK = 1 << 20


class TooLarge(SourceError):
    """The answer is longer than its limit; its connection is closed."""


def chunks(response: requests.Response, limit: int) -> Iterator[bytes]:
    """The body, decompressed, in pieces of up to a MiB. Raises TooLarge past `limit` bytes."""
    size = 0
    for chunk in response.iter_content(_CHUNK):
        size += len(chunk)
        if size > limit:
            response.close()
            server = urlsplit(response.url)
            raise TooLarge(
                f"{server.scheme}://{server.netloc.rpartition('@')[2]} answers with more than {limit >> 20} MiB",
                _CHECK,
            )
        yield chunk


def beginning(response: requests.Response) -> bytes:
    """The first bytes of a body, as far as they arrive; the rest is not read."""
    body = bytearray()
    try:
        for chunk in response.iter_content(ERROR_BYTES):
            body += chunk
            if len(body) >= ERROR_BYTES:
                break
    except requests.RequestException:
        pass
    response.close()
    return bytes(body[:ERROR_BYTES])


class TimedAdapter(HTTPAdapter):
    """An adapter that ends incomplete answers after `seconds`.

    The timeouts of requests count only from one byte to the next.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pools: dict[str, Any] = {
            "http": partial(self._pool, HTTPConnectionPool),
            "https": partial(self._pool, HTTPSConnectionPool),
        }
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Create connection pools with a time limit."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> PoolManager:
        """Create connection pools with a time limit for a proxy."""
        manager: PoolManager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager

    def _pool(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        pool = kind(*args, **kwargs)
        pool.ConnectionCls = partial(self._connection, kind.ConnectionCls)
        return pool

    def _connection(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        connection = kind(*args, **kwargs)
        connection.response_class = self._response
        return connection

    def _response(self, sock: Any, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        timed: Any = _TimedSocket(sock, self._seconds)
        return http.client.HTTPResponse(timed, *args, **kwargs)


class _TimedSocket(io.RawIOBase):
    """A socket for http.client whose waits end at the time limit of the whole answer."""

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
                self._sock.settimeout(self._wait)  # the next request is sent with this timeout
            self._file.close()
        super().close()
