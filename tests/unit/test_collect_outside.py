"""Servers that answer in part, without end, or in another language: nothing of it is taken for the truth, or for ever."""

from __future__ import annotations

import json
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
from gpucost.collect.prometheus.queries import Selector, among, one_of
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
    fake,
    fakes,
    query,
)

__all__ = ["fake", "fakes"]  # fixtures

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
    """Makes a client of a server that answers by a trick."""

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
    """Answers as ever, with more beside the data."""
    return lambda question: Reply(200, question.document(**more))


PARTIAL: list[dict[str, Any]] = [
    {"isPartial": True},
    {"warnings": [STORE_DOWN]},
    {"warnings": ["PromQL info: x", "No StoreAPIs matched for this query"]},
]


@pytest.mark.parametrize("ask", ASKS)
def test_a_partial_answer_is_none_unless_it_is_accepted(
    ask: Ask, open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    for more in PARTIAL:
        message = r"partial answer.*\(tried 3 times\)"
        with (
            open_client(adding(**more), QUICK) as client,
            pytest.raises(SourceError, match=message) as caught,
        ):
            ask(client)
        assert 'partial_response = "accept"' in str(caught.value.fix)
    with open_client(adding(warnings=[STORE_DOWN]), partial_response="accept") as client:
        assert getattr(ask(client), "is_partial", True) and client.warnings == {STORE_DOWN}
    # annotations of Prometheus 3
    more = {
        "warnings": ["PromQL warning: mixed floats and histograms"],
        "infos": ["PromQL info: might not be a counter"],
    }
    with open_client(adding(**more)) as client:
        assert not getattr(ask(client), "is_partial", False) and not client.warnings
    assert "might not be a counter" in caplog.text


@pytest.mark.parametrize("settings", [{}, {"partial_response": "accept"}])
def test_a_partial_list_of_names_is_none(settings: dict[str, Any], open_client: Open) -> None:
    for is_partial, names in ((True, None), (False, {"ml"})):
        with open_client(adding(isPartial=is_partial), **settings) as client:
            assert client.label_values("namespace", T0, T0) == names


@pytest.mark.slow
def test_windows_with_partial_answers_fail_and_are_collected_later(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: (
        question.about()
        and question.start <= T0 + 3 * MS_PER_HOUR
        and adding(warnings=[STORE_DOWN])(question)
    )
    result = collect(fake, tmp_path, max_samples=1000)
    assert result.failed_windows and "partial answer" in result.failed_windows[0].error
    assert blocks(tmp_path) and set(blocks(tmp_path)) < set(FULL)
    fake.trick = lambda _: None
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL


def test_servers_are_asked_not_to_answer_in_part(open_client: Open) -> None:
    paths: list[str] = []
    for settings in ({}, {"partial_response": "accept"}):
        with open_client(lambda question: paths.append(question.path), **settings) as client:
            for ask in ASKS:
                ask(client)
            client.label_values("namespace", T0, T0)
            client.matrix("m", f"m{{{one_of('pod', ['x' * 5000])}}}[60000ms]", T0)  # a form
    whole = [path for path in paths if "partial_response=false" in path and "deny_partial_response=1" in path]
    assert (
        len(paths) == 10 and whole == paths[:5] and all("max_source_resolution=0s" in path for path in paths)
    )


def test_parameters_that_a_server_refuses_are_left_out_and_samples_from_the_future_are_garbled(
    open_client: Open,
) -> None:
    refusal = Reply(
        400, {"error": {"message": 'Unknown name "partial_response": Cannot bind query parameter.'}}
    )
    with open_client(lambda question: "partial_response" in question.path and refusal, QUICK) as client:
        assert client.value("vector(1)", T0) == 60
    with (
        open_client(lambda question: Reply(200, question.document(at=question.at + MS_PER_HOUR))) as client,
        pytest.raises(SourceError, match="after the time that was asked for"),
    ):
        client.matrix("m", "m[60000ms]", T0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            f"expanding series: proxy Series(): rpc error: code = Aborted desc = {STORE_DOWN}",
            "partial answer",
        ),
        (
            "cannot fetch query results from vmstorage nodes: cannot perform search on vmstorage vm-1:8401",
            "partial answer",
        ),
        (
            "rpc error: code = ResourceExhausted desc = exceeded samples limit: limit 100 violated",
            "that much at once",
        ),
        ("query processing would load too many samples into memory in query execution", "that much at once"),
    ],
)
def test_422_of_a_missing_store_is_not_too_much(text: str, error: str, open_client: Open) -> None:
    reply = Reply(422, {"status": "error", "errorType": "execution", "error": text})
    with open_client(lambda _: reply) as client, pytest.raises(SourceError, match=error) as caught:
        client.matrix("m", "m[60000ms]", T0)
    assert isinstance(caught.value, TooMuch) is (error == "that much at once")


@cache
def bomb() -> bytes:
    """400 MiB of spaces, of which gzip makes a thousandth."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(400)) + packer.flush()


def in_one(question: Question) -> Reply:
    return Reply(200, bomb(), {"Content-Encoding": "gzip"})


def in_chunks(question: Question) -> bool:
    handler = question.handler
    handler.send_response(200)
    for header in ("Content-Type: application/json", "Content-Encoding: gzip", "Transfer-Encoding: chunked"):
        handler.send_header(*header.split(": "))
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(bomb()), bomb()))
    return True


@pytest.mark.parametrize(
    "status", [404, *(pytest.param(one, marks=pytest.mark.slow) for one in (400, 403, 405, 422, 501))]
)
def test_a_server_that_answers_for_samples_alone_is_asked_for_them(
    status: int, fake: Fake, tmp_path: Path
) -> None:
    fake.trick = lambda question: (
        Reply(status, {"error": "no such thing"}) if "query_range" in question.path else None
    )
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL
    assert (
        sum("_over_time(" in query and query.startswith("count_over_time(kube") for query in fake.queries)
        <= 3
    )


@pytest.mark.parametrize(
    ("trick", "ask"),
    [
        (in_chunks, ASKS[0]),
        (in_one, ASKS[1]),
        *(pytest.param(in_one, ask, marks=pytest.mark.slow) for ask in ASKS[::2]),
    ],
)
def test_a_bomb_of_gzip_takes_no_memory(trick: Trick, ask: Ask, open_client: Open) -> None:
    with open_client(trick) as client:
        client.connect  # noqa: B018 (brings pandas)
        tracemalloc.start()
        try:
            with pytest.raises(SourceError, match=r"more than 32 MiB") as caught:
                ask(client)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()
    assert isinstance(caught.value, TooMuch) is (ask is ASKS[0])


@pytest.mark.slow
def test_an_answer_over_the_limit_is_asked_for_in_parts(fake: Fake, tmp_path: Path) -> None:
    def wide(question: Question) -> Reply | None:
        if not question.about():
            return None
        answer = question.document()
        series = answer["data"]["result"][0]
        hours = (question.at - question.start) // MS_PER_HOUR + 1
        more = [
            {**series, "metric": series["metric"] | {"more": "x" * 100_000 + str(n)}}
            for n in range(4 * hours)
        ]
        answer["data"]["result"] += more
        return Reply(200, answer)

    fake.trick = wide
    assert collect(fake, tmp_path, max_response_mib=2).ok
    assert sorted(set(blocks(tmp_path))) == FULL


@pytest.mark.parametrize("ask", ASKS[:2])
@pytest.mark.parametrize("where", ["head", "body", "error"])
def test_a_slow_drip_ends_in_time(ask: Ask, where: str, open_client: Open) -> None:
    def drip(question: Question) -> bool:
        handler = question.handler
        status = "500 Broken" if where == "error" else "200 OK"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode()
        )
        if where != "head":
            handler.wfile.write(head)
        handler.close_connection = True
        for byte in (b"X" if where != "head" else head * 100) * 1000:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.02)
        return True

    began = time.monotonic()
    with (
        open_client(drip, max_response_seconds=0.2) as client,
        pytest.raises(SourceError, match=r"in full in 0\.2 s|HTTP 500"),
    ):
        ask(client)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    "beginning", [b'{"status":"error","error":"disk \\u001b[31mon fire","more":"', b"disk on fire "]
)
def test_of_an_error_only_the_beginning_is_read(ask: Ask, beginning: bytes, open_client: Open) -> None:
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
def test_a_garbled_answer_is_asked_for_again_and_then_named(ask: Ask, body: bytes, open_client: Open) -> None:
    with open_client(lambda _: Reply(200, body), QUICK) as client:
        with pytest.raises(SourceError, match=r"(the answer .*|middle of an answer) \(tried 3 times\)"):
            ask(client)
        assert client.label_values("x", T0, T0) is None


@pytest.mark.slow
def test_one_garbled_window_does_not_keep_the_others(fake: Fake, tmp_path: Path) -> None:
    def garble(question: Question) -> Reply | None:
        if not (question.about() and question.start <= T0 + 3 * MS_PER_HOUR <= question.at):
            return None
        text = json.dumps(question.document(), separators=(",", ":")).encode()
        return Reply(200, text.replace(b'"50"', b'"5\xb0"', 1))

    fake.trick = garble
    (failed,) = collect(fake, tmp_path, max_samples=1000).failed_windows
    assert "no number" in failed.error and failed.command
    assert set(blocks(tmp_path)) < set(FULL) and len(blocks(tmp_path)) >= 4


def test_series_that_come_twice_and_in_disorder_count_once(fakes: Callable[[], Fake], tmp_path: Path) -> None:
    def shuffle(question: Question) -> Reply | None:
        if not question.is_range:
            return None
        answer = question.document()
        (series,) = answer["data"]["result"]
        order = np.random.default_rng(1).permutation(len(series["values"])).tolist()
        answer["data"]["result"] = [
            series,
            {**series, "values": [series["values"][place] for place in order]},
            series,
        ]
        return Reply(200, answer)

    stores = []
    tricks: list[Trick] = [lambda _: None, shuffle]
    for number, trick in enumerate(tricks):
        server, folder = fakes(), tmp_path / str(number)
        folder.mkdir()
        server.trick = trick
        assert collect(server, folder, name="server").ok
        tables = (
            "FROM blocks SELECT * EXCLUDE (series_id) ORDER BY ALL",
            "FROM states SELECT * EXCLUDE (series_id) ORDER BY ALL",
        )
        stores.append([query(folder, rows) for rows in tables])
    assert stores[0] == stores[1] and blocks(folder) == FULL


@pytest.mark.slow
def test_labels_with_any_character_are_stored(fake: Fake, tmp_path: Path) -> None:
    pods = ["é☃", "a\x00b", "a\nb", 'a"b\\', "\u2028", "\x7f\x1b[0m"]

    def strange(question: Question) -> Reply | None:
        if not question.is_range:
            return None
        answer = question.document()
        (series,) = answer["data"]["result"]
        answer["data"]["result"] = [{**series, "metric": series["metric"] | {"pod": pod}} for pod in pods]
        return Reply(200, answer)

    fake.trick = strange
    assert collect(fake, tmp_path, 1).ok
    assert set(query(tmp_path, "SELECT labels['pod'] FROM series")) == {(pod,) for pod in pods}


def test_values_are_quoted_in_matchers() -> None:
    assert one_of("a", ["x.y", 'q"b\\', "n\nl"]) == 'a=~"x\\\\.y|q\\"b\\\\\\\\|n\\\\\\nl"'
    assert among(Selector("m"), "a", ["\u2028"]).text("m") == 'm{a=~"\u2028"}'
