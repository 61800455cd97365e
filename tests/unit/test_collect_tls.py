"""Encrypted and compressed connections: a private CA, a client certificate, and gzip."""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpucost.collect.prometheus import client
from gpucost.collect.prometheus.client import PrometheusClient
from gpucost.config.model import PrometheusSource, Tls
from gpucost.errors import SourceError
from tests.loopback import serving
from tests.programs import require
from tests.unit.fake_server import QUICK, Fake, Handler, Question, Reply

EXPECTED = [float(i % 100) for i in range(20_000)]
POINTS = [[1_700_000_000 + 60 * i, str(i % 100)] for i in range(20_000)]
MATRIX = {"resultType": "matrix", "result": [{"metric": {"__name__": "m"}, "values": POINTS}]}
BODY = json.dumps({"status": "success", "data": MATRIX}, separators=(",", ":")).encode()


def answer(question: Question) -> Reply:
    """One series, compressed if the client accepts it."""
    is_zipped = "gzip" in question.handler.headers["Accept-Encoding"]
    return Reply(200, gzip.compress(BODY), {"Content-Encoding": "gzip"}) if is_zipped else Reply(200, BODY)


@pytest.fixture(scope="module")
def folder(module_path: Path) -> Path:
    """A CA (ca) with a server and a client certificate signed by it; `stranger` signed neither."""
    require("openssl", package="openssl")

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=module_path, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for name in ("ca", "stranger"):
        openssl(f"req -x509 {key} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem")
    (module_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(f"req -new {key} -subj /CN={name} -keyout {name}.key -out {name}.csr")
        openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        )
    return module_path


@pytest.fixture(scope="module")
def urls(folder: Path) -> Iterator[dict[str, str]]:
    """A server without and one with client certificates, and one without encryption."""
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2)]
    for context in contexts:
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
    contexts[1].verify_mode = ssl.CERT_REQUIRED
    # later versions refuse after the handshake, and may close before the client reads the reason
    contexts[1].maximum_version = ssl.TLSVersion.TLSv1_2
    contexts[1].load_verify_locations(folder / "ca.pem")
    handler = type("Bound", (Handler,), {"fakes": {"tls": Fake(trick=answer)}})
    with ExitStack() as stack:
        names = ("anybody", "known clients", "plain")
        yield {
            name: stack.enter_context(serving(handler, ctx))
            for name, ctx in zip(names, [*contexts, None], strict=True)
        }


def samples(url: str, tls: Tls | None = None) -> list[float]:
    client = PrometheusClient(PrometheusSource(url=f"{url}/tls", tls=tls or Tls()), QUICK)
    try:
        return [float(value) for value in client.matrix("m", "m[3600000ms]", POINTS[-1][0] * 1000).values]
    finally:
        client.close()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_configured_ca_is_trusted_and_client_certificate_is_sent(urls: dict[str, str], folder: Path) -> None:
    ca, client = folder / "ca.pem", {"cert_file": folder / "client.pem", "key_file": folder / "client.key"}
    for who, tls in (
        ("anybody", Tls(ca_file=ca)),
        ("known clients", Tls(ca_file=ca, **client)),
        ("anybody", Tls(insecure_skip_verify=True)),
    ):
        assert samples(urls[who], tls) == EXPECTED
    for who, tls, message, fix in (
        ("anybody", Tls(), "certificate is not trusted", "ca_file"),
        ("anybody", Tls(ca_file=folder / "stranger.pem"), "certificate is not trusted", "ca_file"),
        ("known clients", Tls(ca_file=ca), "requires a client certificate", "cert_file"),
    ):
        with pytest.raises(SourceError, match=message) as caught:
            samples(urls[who], tls)
        assert fix in str(caught.value.fix)


def test_missing_certificate_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"not found: .*none\.pem"):
        samples("https://127.0.0.1:1", Tls(ca_file=tmp_path / "none.pem"))


def test_remote_server_compresses(urls: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.http, "addresses_of", lambda _: [])
    assert samples(urls["plain"]) == EXPECTED
