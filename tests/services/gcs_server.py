"""A server of Cloud Storage's XML API on loopback: moto's S3, whose requests that API shares, behind Google's kind of login.

Emulators of Cloud Storage speak its JSON API; of the XML API, which obstore uses, they have at most the half that reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

SIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)


@contextmanager
def gcs_server() -> Iterator[str]:
    """The server's base URL. Buckets are made by boto3, under the same URL."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    s3 = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        if environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer "):
            environ["HTTP_AUTHORIZATION"] = SIGNED
            # obstore writes more characters as numbers than S3's clients, and moto reads the address as it was sent
            environ["RAW_URI"] = f"{quote(environ['PATH_INFO'].encode('latin-1'))}?{environ['QUERY_STRING']}"
            environ["REQUEST_URI"] = environ["RAW_URI"]
        return s3(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
