"""Limits on what a server may send: seconds for one whole answer, and bytes after decompression."""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    import socket

    import requests
    from urllib3 import PoolManager

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
