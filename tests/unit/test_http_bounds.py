"""Each HTTP client against endless and slow responses and links to other servers."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from typing import Any, ClassVar

import pytest

from gpucost import http
from gpucost.collect.prices.azure import AzurePrices
from gpucost.collect.prices.base import public_list
from gpucost.collect.progress.mlflow import pages, server_of
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.slurm.live import Slurmrestd
from gpucost.config.model import Azure, Config, Mlflow, PrometheusSource, Slurm
from gpucost.errors import GpucostError
from tests.loopback import Quiet, serving

MIB = 1 << 20
ZEROS = gzip.compress(b" " * (8 * MIB))


class Server(Quiet):
    """Behave as named by the first part of the path; record requests to `/elsewhere` and the number of bytes sent."""

    elsewhere: ClassVar[list[str]] = []
    other: ClassVar[str] = ""
    sent: ClassVar[int] = 0

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server requires
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = self.path.split("?")[0].split("/")[1]
        with suppress(OSError):
            getattr(self, what, self.page)(self.path)

    do_POST = do_GET  # noqa: N815

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def endless(self, _: str) -> None:
        self.begin()
        self.flood()

    def flood(self) -> None:
        for _ in range(64):
            type(self).sent += self.wfile.write(b" " * MIB)

    def packed(self, _: str) -> None:
        self.begin(Content_Encoding="gzip")
        self.wfile.write(ZEROS)

    def slow(self, _: str) -> None:
        self.begin()
        for _ in range(100):
            self.wfile.write(b" ")
            time.sleep(0.05)

    def away(self, _: str) -> None:
        self.begin(302, Location=f"{self.other}/elsewhere")
        self.flood()

    def linked(self, _: str) -> None:
        """Send a list whose next page is on another server."""
        self.begin()
        self.wfile.write(json.dumps({"Items": [], "NextPageLink": f"{self.other}/elsewhere"}).encode())

    def moved(self, _: str) -> None:
        self.begin(302, Location="/list")

    def page(self, path: str) -> None:
        if "elsewhere" in path:
            self.elsewhere.append(path)
        self.begin()
        self.wfile.write(b"[1]")


def sent(url: str) -> Any:
    return http.send("POST", url, b"{}", {}, "the webhook")


def listed(url: str) -> Any:
    return public_list("here", "the list", "url", url).ask("GET", url)


def slurm(url: str) -> Any:
    return Slurmrestd(Slurm(slurmrestd=url))._get("slurm/v0.0.40/nodes")


def mlflow(url: str) -> Any:
    settings = Mlflow(url=url)
    return list(pages(server_of(settings), settings, "runs/search", {}))


def prometheus(url: str) -> PrometheusClient:
    source = PrometheusSource(url=url, max_response_mib=1, max_response_seconds=0.3, timeout_seconds=5)
    return PrometheusClient(source, Retries(attempts=1))


CLIENTS: dict[str, Callable[[str], Any]] = {
    "notify": sent,
    "price list": listed,
    "slurmrestd": slurm,
    "mlflow": mlflow,
    "prometheus value": lambda url: prometheus(url).value("up", 0),
    "prometheus answer": lambda url: prometheus(url).get("status/config", {}),
    "prometheus samples": lambda url: prometheus(url).matrix("up", "up[1h]", 0),
}


@pytest.fixture(scope="module")
def urls() -> Iterator[str]:
    with serving(Server) as url, serving(Server) as other:
        Server.other = other
        yield url


SECONDS = """
http._LONGEST_SECONDS collect.prices.base._LONGEST_SECONDS collect.slurm.live._SECONDS
collect.progress.mlflow._LONGEST_SECONDS"""
BYTES = """
collect.prices.base._JSON_BYTES collect.slurm.live.inputs.ANSWER
collect.progress.mlflow._LARGEST_BYTES"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.sleep", lambda _: None)
    monkeypatch.setattr("gpucost.http._ATTEMPTS", 1)
    for value, names in ((0.3, SECONDS), (MIB, BYTES)):
        for name in names.split():
            monkeypatch.setattr(f"gpucost.{name}", value)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("what", ["endless", "packed", "slow", "away"])
def test_response_is_bounded_and_redirects_to_other_servers_are_refused(
    urls: str, client: str, what: str
) -> None:
    Server.elsewhere.clear()
    Server.sent, began, error = 0, time.monotonic(), ""
    try:
        answer = CLIENTS[client](f"{urls}/{what}")
    except GpucostError as failure:
        error = failure.message
    assert time.monotonic() - began < 4
    assert not Server.elsewhere
    # socket buffers accept some bytes that the client never reads
    assert Server.sent < 16 * MIB
    if client == "notify":
        # the status comes before the body: the message has arrived
        assert not error
        assert answer.status == (302 if what == "away" else 200)
        assert len(answer.text) <= 200
    else:
        assert error
        assert ("answers with more than 1 MiB" in error) == (what in ("endless", "packed"))


def test_links_to_other_servers_are_refused(urls: str) -> None:
    Server.elsewhere.clear()
    config = Config(azure=Azure(retail_prices_url=f"{urls}/linked"))
    azure = AzurePrices(config, [], [], date(2026, 10, 1), lambda _: None)
    with pytest.raises(GpucostError, match="redirects to another server"):
        azure.fetch()
    assert not Server.elsewhere


def test_redirects_within_a_server_are_followed(urls: str) -> None:
    assert listed(f"{urls}/moved") == [1]
