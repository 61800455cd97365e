"""A small HTTP server with scripted answers in place of Prometheus, and collects from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest

from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus.client import Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.config.model import Config, PrometheusSource
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.store.connection import Store
from tests.loopback import Quiet, serving

T0 = 471_936 * MS_PER_HOUR  # the third of a month: runs since its beginning are short
QUICK = Retries(attempts=3, initial=0.01, longest=0.05, jitter=0.01)
NAMES = ["kube_node_info", "DCGM_FI_DEV_GPU_UTIL", "kube_pod_container_resource_requests"]


@dataclass(frozen=True)
class Reply:
    """An HTTP reply; the connection ends before the last `cut` bytes of the body."""

    status: int = 200
    body: dict[str, Any] | str | bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


def failure(status: int, error: str, **headers: str) -> Reply:
    """A Prometheus error."""
    return Reply(status, {"status": "error", "error": error}, headers)


@dataclass(frozen=True)
class Question:
    """A request: a query from `start` to `at`, or for the values of a label (`label/…`)."""

    handler: Handler
    path: str
    query: str
    start: int
    at: int
    form: dict[str, str] = field(default_factory=dict)

    def nodes(self, first: int, last: int) -> Reply | None:
        """The number of nodes at the steps of a query for it, on a server with nodes from `first` to `last`."""
        if self.query != "count(kube_node_info)" or "step" not in self.form:
            return None
        start, end, step = (round(float(self.form[name]) * 1000) for name in ("start", "end", "step"))
        values = [[at / 1000, "1"] for at in range(start, end + 1, step) if first <= at <= last]
        result = [{"metric": {}, "values": values}] if values else []
        return Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": result}})

    @property
    def is_range(self) -> bool:
        return "ms]" in self.query

    @property
    def is_of_gpus(self) -> bool:
        return self.is_range and "DCGM" in self.query

    @property
    def holds_third_hour(self) -> bool:
        """Whether the query is for GPU samples and includes the start of the third hour."""
        return self.is_of_gpus and self.start <= T0 + 3 * MS_PER_HOUR <= self.at

    def document(self, start: int | None = None, at: int | None = None, **more: Any) -> dict[str, Any]:
        """The usual answer: one series with a sample each minute, one value, or names."""
        data: Any = {"resultType": "vector", "result": [{"metric": {}, "value": [self.at / 1000, "60"]}]}
        if self.query.startswith("label/"):
            data = ["ml"] if self.query == "label/namespace" else NAMES
        elif self.is_range:
            start, at = start or self.start, at or self.at
            name = re.split(r"[{[]", self.query)[0]
            labels = {"__name__": name, "node": "n1", "UUID": "GPU-1", "namespace": "ml", "job": "j"}
            values = [[t / 1000, "50"] for t in range(-(-start // 60_000) * 60_000, at + 1, 60_000)]
            data = {"resultType": "matrix", "result": [{"metric": labels, "values": values}]}
        return {"status": "success", "data": data, **more}


Trick = Callable[[Question], Reply | bool | None]


@dataclass
class Fake:
    """One server with scripted answers.

    Its `trick` may answer a request itself (True), return another reply, or keep the usual one.
    """

    url: str = ""
    read: Callable[[bytes], Reply] = lambda _: Reply(404)  # to requests for remote read
    trick: Trick = lambda _: None
    queries: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class Handler(Quiet, BaseHTTPRequestHandler):
    """Serve all fakes, each under its own path."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fakes: ClassVar[dict[str, Fake]] = {}

    def do_GET(self) -> None:
        self._serve(urlsplit(self.path).query)

    def do_POST(self) -> None:
        if self.path.partition("?")[0].endswith("/api/v1/read"):
            self.send(self.fakes[self.path.split("/")[1]].read(self.received()))
            return
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _serve(self, form: str) -> None:
        fields = {key: values[0] for key, values in parse_qs(form).items()}
        fake = self.fakes[self.path.split("/")[1]]
        fake.headers.append(dict(self.headers))
        if label := re.search("/(label/[^/]+)/", self.path):
            query, at = label[1], 0
        else:
            query, at = fields.get("query", ""), round(float(fields.get("time", 0)) * 1000)
            fake.queries.append(query)
        length = re.fullmatch(r".*\[(\d+)ms\]", query)
        question = Question(self, self.path, query, at - int(length[1]) if length else at, at, fields)
        reply = fake.trick(question) or Reply(200, question.document())
        if isinstance(reply, Reply):
            self.send(reply)

    def send(self, reply: Reply) -> None:
        body = json.dumps(reply.body, separators=(",", ":")) if isinstance(reply.body, dict) else reply.body
        text = body.encode() if isinstance(body, str) else body
        self.send_response(reply.status)
        usual = {"Content-Type": "text/html" if isinstance(reply.body, str) else "application/json"}
        for name, value in {**usual, **reply.headers}.items():
            self.send_header(name, value)
        if reply.cut:
            self.send_header("Connection", "close")
            self.close_connection = True
        elif "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) - reply.cut])


@pytest.fixture(scope="module")
def fakes() -> Iterator[Callable[[], Fake]]:
    """Make fakes on one server."""
    with serving(Handler) as url:

        def new() -> Fake:
            fake = Fake(f"{url}/{len(Handler.fakes)}")
            Handler.fakes[str(len(Handler.fakes))] = fake
            return fake

        yield new


@pytest.fixture
def fake(fakes: Callable[[], Fake]) -> Fake:
    return fakes()


EIGHT_HOURS = Period(from_ms(T0), from_ms(T0 + 8 * MS_PER_HOUR))


def collect(
    fake: Fake,
    folder: Path,
    hours: int | None = 8,
    *,
    now: datetime | None = None,
    tz: ZoneInfo | None = None,
    **settings: Any,
) -> CollectResult:
    """Collect the first hours, or the hours due at `now` (None)."""
    period = None if hours is None else Period(from_ms(T0), from_ms(T0 + hours * MS_PER_HOUR))
    source, store = PrometheusSource(url=fake.url, **settings), Store(folder / "s.duckdb")
    config = Config(store=store.path, timezone=tz.key if tz else "UTC")
    return collect_prometheus(config, source, store, period, now=now, retries=QUICK)


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    return Store(folder / "s.duckdb").query(sql)[1]


def blocks(folder: Path) -> list[tuple[Any, ...]]:
    return query(folder, "SELECT hour - 471936, samples FROM blocks ORDER BY hour")


FULL = [(hour, 60) for hour in range(8)]
NOTHING = Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": []}})
