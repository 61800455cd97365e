"""HTTP servers on loopback, as tests make them: a handler, served by threads that keep nobody waiting."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """Says nothing of what it is asked."""

    def log_message(self, *_: object) -> None:
        pass


class _Patient(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Whoever asked is gone, or speaks something else: what tests are about."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server that answers by `handler`, encrypted where there is a `context`."""
    server = _Patient(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
