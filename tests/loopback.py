"""HTTP servers on loopback for tests: a handler, served by daemon threads."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """Do not log requests."""

    def log_message(self, *_: object) -> None:
        pass

    def received(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def respond(
        self, status: int, body: Any, headers: Mapping[str, str] | None = None, *, missing: int = 0
    ) -> None:
        """Send bytes unchanged, anything else as JSON; the connection ends `missing` bytes before the declared length."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(content) + missing)}
        for name, value in {**usual, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.close_connection or missing > 0


class _Patient(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect or use another protocol: tests check those cases."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the URL of a server that answers by `handler`, encrypted if there is a `context`."""
    server = _Patient(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
