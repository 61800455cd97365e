"""The session with a server: credentials from files and environment, TLS, and what bytes to ask for."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpucost.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    import requests

    from gpucost.config import PrometheusSource

# Parameters of Thanos and VictoriaMetrics, for samples as they were scraped and for no answer rather than a part of one.
# Other servers heed no parameter that they don't know.
RAW = {"max_source_resolution": "0s"}
WHOLE = {"partial_response": "false", "deny_partial_response": "1"}


def session(source: PrometheusSource) -> requests.Session:
    """A session that carries the source's headers, credentials and TLS settings, all read anew.

    Raises SourceError that names a missing file or variable, never what is in it.
    """
    import requests

    from gpucost.collect.limits import TimedAdapter

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
