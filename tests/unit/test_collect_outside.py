"""Partial, endless and malformed answers: never accepted as complete, never waited for without limit."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.parse import TooMuch
from gpucost.collect.prometheus.queries import one_of
from gpucost.config.model import PrometheusSource
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR
from tests.unit.fake_server import (
    FULL,
    QUICK,
    T0,
    Fake,
    Question,
    Reply,
    Trick,
    blocks,
    collect,
    failure,
    query,
)

ONCE = Retries(attempts=1)
STORE_DOWN = (
    "receive series from Addr: 10.0.0.7:10901: rpc error: code = Unavailable desc = connection refused"
)
Ask = Callable[[PrometheusClient], Any]
ASKS: list[Ask] = [
    lambda client: client.matrix("m", "m[60000ms]", T0),
    lambda client: client.value("vector(1)", T0),
    lambda client: client.get("query", {"query": "1", "time": "1"}),
]


@pytest.fixture
def open_client(fake: Fake) -> Callable[..., Any]:
    """Make a client of a server with scripted answers."""

    @contextmanager
    def client(trick: Trick, retries: Retries = ONCE, **settings: Any) -> Iterator[PrometheusClient]:
        fake.trick = trick
        client = PrometheusClient(PrometheusSource(url=fake.url, **settings), retries)
        try:
            yield client
        finally:
            client.close()

    return client


Open = Callable[..., Any]


def adding(**more: Any) -> Trick:
    """The usual answer, with more fields next to the data."""
    return lambda question: Reply(200, question.document(**more))


PARTIAL: list[dict[str, Any]] = [
    {"isPartial": True},
    {"warnings": [STORE_DOWN]},
    {"warnings": ["PromQL info: x", "No StoreAPIs matched for this query"]},
]


@pytest.mark.parametrize("ask", ASKS)
def test_partial_answer_is_refused_unless_accepted(
    ask: Ask, open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    for more in PARTIAL:
        refused = pytest.raises(SourceError, match=r"partial answer.*\(tried 3 times\)")
        with open_client(adding(**more), QUICK) as client, refused as caught:
            ask(client)
        assert 'partial_response = "accept"' in str(caught.value.fix)
    with open_client(adding(warnings=[STORE_DOWN]), partial_response="accept") as client:
        assert getattr(ask(client), "is_partial", True) and client.warnings == {STORE_DOWN}
    # annotations of Prometheus 3
    notes = {"warnings": ["PromQL warning: mixed"], "infos": ["PromQL info: might not be a counter"]}
    with open_client(adding(**notes)) as client:
        assert not getattr(ask(client), "is_partial", False) and not client.warnings
    assert "might not be a counter" in caplog.text


@pytest.mark.parametrize("settings", [{}, {"partial_response": "accept"}])
def test_partial_list_of_names_is_ignored(settings: dict[str, Any], open_client: Open) -> None:
    for is_partial, names in ((True, None), (False, {"ml"})):
        with open_client(adding(isPartial=is_partial), **settings) as client:
            assert client.label_values("namespace", T0, T0) == names


def test_partial_answers_are_denied_in_every_request(open_client: Open) -> None:
    paths: list[str] = []
    for settings in ({}, {"partial_response": "accept"}):
        with open_client(lambda question: paths.append(question.path), **settings) as client:
            for ask in ASKS:
                ask(client)
            client.label_values("namespace", T0, T0)
            client.matrix("m", f"m{{{one_of('pod', ['x' * 5000])}}}[60000ms]", T0)  # long enough for a form
    denied = ["partial_response=false" in path and "deny_partial_response=1" in path for path in paths]
    assert denied == [True] * 5 + [False] * 5
    assert all("max_source_resolution=0s" in path for path in paths)


def test_refused_parameters_are_left_out_and_samples_from_the_future_are_garbled(open_client: Open) -> None:
    refusal = Reply(
        400, b'{"error": {"message": "Unknown name \\"partial_response\\": Cannot bind query parameter."}}'
    )
    with open_client(lambda question: "partial_response" in question.path and refusal, QUICK) as client:
        assert client.value("vector(1)", T0) == 60
    late = open_client(lambda question: Reply(200, question.document(at=question.at + MS_PER_HOUR)))
    with late as client, pytest.raises(SourceError, match="later than the requested time"):
        ASKS[0](client)


MISSING = "cannot fetch query results from vmstorage nodes: cannot perform search on vmstorage vm-1:8401"


@pytest.mark.parametrize(
    ("text", "is_too_much"),
    [
        (f"expanding series: proxy Series(): rpc error: code = Aborted desc = {STORE_DOWN}", False),
        (MISSING, False),
        ("rpc error: code = ResourceExhausted desc = exceeded samples limit: limit 100 violated", True),
        ("query processing would load too many samples into memory in query execution", True),
    ],
)
def test_422_of_a_missing_store_is_a_partial_answer(text: str, is_too_much: bool, open_client: Open) -> None:
    refused = pytest.raises(
        SourceError, match="the answer is too large for" if is_too_much else "partial answer"
    )
    with open_client(lambda _: failure(422, text)) as client, refused as caught:
        ASKS[0](client)
    assert isinstance(caught.value, TooMuch) is is_too_much


@cache
def bomb() -> bytes:
    """400 MiB of spaces, which gzip compresses to a thousandth."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(400)) + packer.flush()


def test_server_without_range_queries_is_queried_for_samples(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: "query_range" in question.path and failure(404, "no such thing")
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL
    counts = [query for query in fake.queries if query.startswith("count_over_time(kube")]
    assert sum("_over_time(" in query for query in counts) <= 3


@pytest.mark.ci
@pytest.mark.parametrize("ask", ASKS[:2])
def test_gzip_bomb_takes_no_memory(ask: Ask, open_client: Open) -> None:
    with open_client(lambda _: Reply(200, bomb(), {"Content-Encoding": "gzip"})) as client:
        client.connect  # noqa: B018 (brings pandas)
        tracemalloc.start()
        try:
            with pytest.raises(SourceError, match=r"more than 32 MiB") as caught:
                ask(client)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()
    assert isinstance(caught.value, TooMuch) is (ask is ASKS[0])


@pytest.mark.parametrize("ask", ASKS[:2])
@pytest.mark.parametrize("status", [None, "200 OK", "500 Broken"])
def test_slow_drip_ends_in_time(ask: Ask, status: str | None, open_client: Open) -> None:
    """Of an endless head, of a body, and of an error body."""

    def drip(question: Question) -> bool:
        question.handler.close_connection = True
        if status:
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
            question.handler.wfile.write(head.encode())
        for byte in (b"X" if status else b"HTTP/1.1 200 OK\r\nA: b") * 1000:
            question.handler.wfile.write(bytes([byte]))
            time.sleep(0.02)
        return True

    began = time.monotonic()
    refused = pytest.raises(SourceError, match=r"complete one in 0\.2 s|HTTP 500")
    with open_client(drip, max_response_seconds=0.2) as client, refused:
        ask(client)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    "beginning", [b'{"status":"error","error":"disk \\u001b[31mon fire","more":"', b"disk on fire "]
)
def test_only_the_beginning_of_an_error_is_read(ask: Ask, beginning: bytes, open_client: Open) -> None:
    mib = 0

    def endless(question: Question) -> bool:
        nonlocal mib
        question.handler.send(Reply(500, beginning, {"Content-Length": str(1 << 40)}))
        question.handler.close_connection = True
        for _ in range(200):
            question.handler.wfile.write(b"x" * (1 << 20))
            mib += 1
        return True

    with open_client(endless) as client, pytest.raises(SourceError, match="HTTP 500: disk") as caught:
        ask(client)
    assert mib < 100 and len(caught.value.message) < 400 and "\x1b" not in caught.value.message


GARBLED = [
    b'{"status":"success","data":', b'{"status":"success","data":"\xff"}', b'{"status":"suc\x00cess","data":[]}',
    b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}',
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"\xc3"},"values":[[1,"1"]]}]}}',
    b'{"status":"error","error":"no"}', b'{"status":"success","data":' + b"[" * 100_000, b'{"status":"success","data":5}',
    b"{", b"",
]  # fmt: skip


@pytest.mark.parametrize("ask", ASKS[:2])
@pytest.mark.parametrize("body", GARBLED)
def test_garbled_answer_is_retried_and_then_named(ask: Ask, body: bytes, open_client: Open) -> None:
    with open_client(lambda _: Reply(200, body), QUICK) as client:
        with pytest.raises(SourceError, match=r"(the answer .*|middle of an answer) \(tried 3 times\)"):
            ask(client)
        assert client.label_values("x", T0, T0) is None


def test_repeated_and_unordered_series_count_once(fakes: Callable[[], Fake], tmp_path: Path) -> None:
    def shuffle(question: Question) -> Reply | None:
        if not question.is_range:
            return None
        answer = question.document()
        (series,) = answer["data"]["result"]
        mixed = np.random.default_rng(1).permutation(series["values"]).tolist()
        mixed = [[float(moment), value] for moment, value in mixed]
        answer["data"]["result"] = [series, {**series, "values": mixed}, series]
        return Reply(200, answer)

    stores = []
    tricks: list[Trick] = [lambda _: None, shuffle]
    for trick in tricks:
        server, folder = fakes(), tmp_path / str(len(stores))
        folder.mkdir()
        server.trick = trick
        assert collect(server, folder, name="server").ok
        rows = "SELECT * EXCLUDE (series_id) FROM {} ORDER BY ALL"
        stores.append([query(folder, rows.format(table)) for table in ("blocks", "states")])
    assert stores[0] == stores[1] and blocks(folder) == FULL
