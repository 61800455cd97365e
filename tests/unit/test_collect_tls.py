"""Encrypted and compressed connections: a private authority, a client's certificate, and gzip."""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from gpucost.collect.prometheus import client
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.config.model import PrometheusSource, Tls
from gpucost.errors import SourceError
from tests.loopback import Quiet, serving
from tests.programs import require

QUICK = Retries(attempts=2, initial=0.01, longest=0.01, jitter=0.01)
POINTS = [[1_700_000_000 + 60 * i, str(i % 100)] for i in range(20_000)]


@dataclass
class Certificates:
    """An authority, and a server's and a client's certificate that it signed; `stranger` signed nothing."""

    folder: Path
    ca: Path = field(init=False)
    stranger: Path = field(init=False)

    def __post_init__(self) -> None:
        self.ca, self.stranger = self.folder / "ca.pem", self.folder / "stranger.pem"
        for name in ("ca", "stranger"):
            self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                          "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        for name in ("server", "client"):
            self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                          "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
            self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                          "-days", "2", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)


class Handler(Quiet, BaseHTTPRequestHandler):
    """One series, compressed where the client takes that."""

    def do_GET(self) -> None:
        result = [{"metric": {"__name__": "m"}, "values": POINTS}]
        body = json.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": result}}, separators=(",", ":")
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if "gzip" in self.headers["Accept-Encoding"]:
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    require("openssl", package="openssl")
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["anybody", "known clients"])
def secure(certificates: Certificates, request: pytest.FixtureRequest) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "server.pem", certificates.folder / "server.key")
    if request.param == "known clients":
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = (
            ssl.TLSVersion.TLSv1_2
        )  # later ones refuse after the handshake, and may be gone before they are heard
        context.load_verify_locations(certificates.ca)
    with serving(Handler, context) as url:
        yield url


def samples(url: str, tls: Tls | None = None) -> list[float]:
    client = PrometheusClient(PrometheusSource(url=url, tls=tls or Tls()), QUICK)
    try:
        return [float(value) for value in client.matrix("m", "m[1h]", POINTS[-1][0] * 1000).values]
    finally:
        client.close()


EXPECTED = [float(i % 100) for i in range(20_000)]


def test_a_private_authority_and_a_client_certificate(secure: str, certificates: Certificates) -> None:
    folder = certificates.folder
    tls = Tls(ca_file=certificates.ca, cert_file=folder / "client.pem", key_file=folder / "client.key")
    assert samples(secure, tls) == EXPECTED


@pytest.mark.parametrize("secure", ["anybody"], indirect=True)
def test_an_authority_that_is_not_trusted(secure: str, certificates: Certificates) -> None:
    for tls in (Tls(), Tls(ca_file=certificates.stranger)):
        with pytest.raises(SourceError, match="certificate is not trusted") as caught:
            samples(secure, tls)
        assert "ca_file" in str(caught.value.fix)
    assert samples(secure, Tls(ca_file=certificates.ca)) == EXPECTED


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("secure", ["anybody"], indirect=True)
def test_a_certificate_that_is_not_checked(secure: str) -> None:
    assert samples(secure, Tls(insecure_skip_verify=True)) == EXPECTED


@pytest.mark.parametrize("secure", ["known clients"], indirect=True)
def test_a_client_without_a_certificate_is_told(secure: str, certificates: Certificates) -> None:
    with pytest.raises(SourceError) as caught:
        samples(secure, Tls(ca_file=certificates.ca))
    assert "wants a client certificate" in caught.value.message and "cert_file" in str(caught.value.fix)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.pem, which is not there"):
        samples("https://127.0.0.1:1", Tls(ca_file=tmp_path / "none.pem"))


def test_a_distant_server_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "is_near", lambda _: False)
    with serving(Handler) as url:
        assert samples(url) == EXPECTED
