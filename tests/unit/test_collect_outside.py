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
from gpucost.collect.prometheus.failures import TooMuch
from gpucost.collect.prometheus.queries import Selector, among, one_of
from gpucost.config.model import PrometheusSource
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.loopback import serving
from tests.unit.test_collect_http import FULL, QUICK, T0, Fake, Handler, Trick, blocks, collect

ONCE = Retries(attempts=1)
STORE_DOWN = "receive series from Addr: 10.0.0.7:10901: rpc error: code = Unavailable desc = connection refused"
SMALL: dict[str, Any] = {"vector": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "60"]}]}, "names": ["a", "b"]}
Ask = Callable[[PrometheusClient], Any]
ASKS: list[Ask] = [
    lambda client: client.matrix("m", "m[60000ms]", T0),
    lambda client: client.value("vector(1)", T0),
    lambda client: client.get("query", {"query": "1", "time": "1"}),
]


@contextmanager
def tricking(trick: Trick | None = None) -> Iterator[Fake]:
    class Bound(Handler):
        fake = Fake(trick=trick)

        def _serve(self, form: str) -> None:
            if "/label/" in self.path and self.fake.trick is not None:
                self.fake.queries.append(self.path)
                if self.fake.trick(self, self.path, 0, 0):
                    return
            super()._serve(form)

    with serving(Bound) as Bound.fake.url:
        yield Bound.fake


@contextmanager
def client_of(trick: Trick, retries: Retries = ONCE, **settings: Any) -> Iterator[PrometheusClient]:
    with tricking(trick) as fake:
        client = PrometheusClient(PrometheusSource(url=fake.url, **settings), retries)
        try:
            yield client
        finally:
            client.close()


def document(handler: Handler, query: str, start: int, at: int, **more: Any) -> dict[str, Any]:
    """What the server answers whatever it is asked."""
    if "ms]" in query:
        return handler.answer(query, start, at) | more
    return {"status": "success", "data": SMALL["names" if "/label/" in query else "vector"], **more}


def warning(**more: Any) -> Trick:
    def warn(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send(200, document(handler, query, start, at, **more))
        return True

    return warn


def raw(body: bytes, **headers: str) -> Trick:
    def reply(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return reply


PARTIAL: list[dict[str, Any]] = [
    {"isPartial": True},
    {"warnings": [STORE_DOWN]},
    {"warnings": ["PromQL info: x", "No StoreAPIs matched for this query"]},
]


@pytest.mark.parametrize("more", PARTIAL)
@pytest.mark.parametrize("ask", ASKS)
def test_a_partial_answer_is_none(ask: Ask, more: dict[str, Any]) -> None:
    with (
        client_of(warning(**more), QUICK) as client,
        pytest.raises(SourceError, match=r"partial answer.*\(tried 3 times\)") as caught,
    ):
        ask(client)
    assert 'partial_response = "accept"' in str(caught.value.fix)


@pytest.mark.parametrize("settings", [{}, {"partial_response": "accept"}])
def test_a_partial_list_of_names_is_none(settings: dict[str, Any]) -> None:
    with client_of(warning(isPartial=True), **settings) as client:
        assert client.label_values("__name__", T0, T0) is None
    with client_of(warning(isPartial=False), **settings) as client:
        assert client.label_values("__name__", T0, T0) == {"a", "b"}


@pytest.mark.parametrize("ask", ASKS)
def test_a_partial_answer_that_is_accepted_is_marked(ask: Ask) -> None:
    with client_of(warning(warnings=[STORE_DOWN]), partial_response="accept") as client:
        answer = ask(client)
        assert client.warnings == {STORE_DOWN}
    assert getattr(answer, "is_partial", True)


@pytest.mark.parametrize("ask", ASKS)
def test_annotations_of_prometheus_3_are_no_failure(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    more = {"warnings": ["PromQL warning: mixed floats and histograms"], "infos": ["PromQL info: might not be a counter"]}
    with client_of(warning(**more)) as client:
        assert not getattr(ask(client), "is_partial", False) and not client.warnings
    assert "might not be a counter" in caplog.text


def test_windows_with_partial_answers_fail_and_are_collected_later(tmp_path: Path) -> None:
    partial = True

    def shaky(handler: Handler, query: str, start: int, at: int) -> bool:
        if not partial or "DCGM" not in query or "ms]" not in query or start > T0 + 3 * MS_PER_HOUR:
            return False
        handler.send(200, handler.answer(query, start, at) | {"warnings": [STORE_DOWN]})
        return True

    with tricking(shaky) as fake:
        result = collect(fake, tmp_path, max_samples=1000)
        assert result.failed_windows and "partial answer" in result.failed_windows[0].error
        assert blocks(tmp_path) and set(blocks(tmp_path)) < set(FULL)
        partial = False
        assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL


def test_servers_are_asked_not_to_answer_in_part() -> None:
    paths: list[str] = []

    def note(handler: Handler, query: str, start: int, at: int) -> bool:
        paths.append(handler.path)
        return warning()(handler, query, start, at)

    for settings in ({}, {"partial_response": "accept"}):
        with client_of(note, **settings) as client:
            for ask in ASKS:
                ask(client)
            client.label_values("namespace", T0, T0)
            client.matrix("m", f"m{{{one_of('pod', ['x' * 5000])}}}[60000ms]", T0)  # a form
    whole = [path for path in paths if "partial_response=false" in path and "deny_partial_response=1" in path]
    assert len(paths) == 10 and whole == paths[:5] and all("max_source_resolution=0s" in path for path in paths)


def test_a_server_that_refuses_unknown_parameters_is_asked_without_them() -> None:
    def strict(handler: Handler, query: str, start: int, at: int) -> bool:
        if "partial_response" in handler.path:
            handler.send(400, {"error": {"message": 'Unknown name "partial_response": Cannot bind query parameter.'}})
            return True
        return warning()(handler, query, start, at)

    with client_of(strict, QUICK) as client:
        assert client.value("vector(1)", T0) == 60


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"expanding series: proxy Series(): rpc error: code = Aborted desc = {STORE_DOWN}", "partial answer"),
        ("cannot fetch query results from vmstorage nodes: cannot perform search on vmstorage vm-1:8401", "partial answer"),
        ("rpc error: code = ResourceExhausted desc = exceeded samples limit: limit 100 violated", "that much at once"),
        ("query processing would load too many samples into memory in query execution", "that much at once"),
    ],
)
def test_422_of_a_missing_store_is_not_too_much(text: str, error: str) -> None:
    def refuse(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send(422, {"status": "error", "errorType": "execution", "error": text})
        return True

    with client_of(refuse) as client, pytest.raises(SourceError, match=error) as caught:
        client.matrix("m", "m[60000ms]", T0)
    assert isinstance(caught.value, TooMuch) is (error == "that much at once")


@cache
def bomb() -> bytes:
    """400 MiB of spaces, of which gzip makes a thousandth."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(400)) + packer.flush()


@pytest.mark.parametrize("ask", ASKS)
def test_a_bomb_of_gzip_takes_no_memory(ask: Ask) -> None:
    with client_of(raw(bomb(), Content_Encoding="gzip")) as client:
        client.connect  # noqa: B018 (brings pandas)
        tracemalloc.start()
        try:
            with pytest.raises(SourceError, match=r"more than 32 MiB"):
                ask(client)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()


def test_a_bomb_in_chunks_takes_no_memory() -> None:
    def chunked(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(bomb()), bomb()))
        return True

    with client_of(chunked) as client:
        tracemalloc.start()
        try:
            with pytest.raises(TooMuch):
                client.matrix("m", "m[60000ms]", T0)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()


def test_an_answer_over_the_limit_is_asked_for_in_parts(tmp_path: Path) -> None:
    padding = "x" * 100_000

    def wide(handler: Handler, query: str, start: int, at: int) -> bool:
        if "DCGM" not in query or "ms]" not in query:
            return False
        answer = handler.answer(query, start, at)
        series = answer["data"]["result"][0]
        hours = (at - start) // MS_PER_HOUR + 1
        more = [series["metric"] | {"more": padding + str(n)} for n in range(4 * hours)]
        answer["data"]["result"] += [{**series, "metric": labels} for labels in more]
        handler.send(200, answer)
        return True

    with tricking(wide) as fake:
        assert collect(fake, tmp_path, max_response_mib=2).ok
    assert sorted(set(blocks(tmp_path))) == FULL


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("where", ["head", "body", "error"])
def test_a_slow_drip_ends_in_time(ask: Ask, where: str) -> None:
    def drip(handler: Handler, query: str, start: int, at: int) -> bool:
        status = "500 Broken" if where == "error" else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode()
        if where != "head":
            handler.wfile.write(head)
        handler.close_connection = True
        for byte in (b"X" if where != "head" else head * 100) * 1000:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.05)
        return True

    began = time.monotonic()
    with client_of(drip, max_response_seconds=1) as client, pytest.raises(SourceError, match=r"in full in 1 s|HTTP 500"):
        ask(client)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("says", [b'{"status":"error","error":"disk \x1b[31mon fire","more":"', b"disk on fire "])
def test_of_an_error_only_the_beginning_is_read(ask: Ask, says: bytes) -> None:
    sent = 0

    def endless(handler: Handler, query: str, start: int, at: int) -> bool:
        nonlocal sent
        handler.send_response(500)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(says.replace(b"\x1b[31m", b"\\u001b[31m"))
        for _ in range(200):
            handler.wfile.write(b"x" * (1 << 20))
            sent += 1
        return True

    with client_of(endless) as client, pytest.raises(SourceError, match="HTTP 500: disk") as caught:
        ask(client)
    assert sent < 100 and len(caught.value.message) < 400 and "\x1b" not in caught.value.message


GARBLED = [
    b'{"status":"success","data":',
    b'{"status":"success","data":"\xff"}',
    b'{"status":"suc\x00cess","data":[]}',
    b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}',
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"\xc3"},"values":[[1,"1"]]}]}}',
    b'{"status":"error","error":"no"}',
    b'{"status":"success","data":' + b"[" * 100_000,
    b'{"status":"success","data":5}',
    b"{",
    b"",
]


@pytest.mark.parametrize("ask", ASKS[:2])
@pytest.mark.parametrize("body", GARBLED)
def test_a_garbled_answer_is_asked_for_again_and_then_named(ask: Ask, body: bytes) -> None:
    with client_of(raw(body), QUICK) as client:
        with pytest.raises(SourceError, match=r"(the answer .*|middle of an answer) \(tried 3 times\)"):
            ask(client)
        assert client.label_values("x", T0, T0) is None


def test_one_garbled_window_does_not_keep_the_others(tmp_path: Path) -> None:
    def garble(handler: Handler, query: str, start: int, at: int) -> bool:
        if "DCGM" not in query or "ms]" not in query or not start <= T0 + 3 * MS_PER_HOUR <= at:
            return False
        text = json.dumps(handler.answer(query, start, at), separators=(",", ":")).encode()
        return raw(text.replace(b'"50"', b'"5\xb0"', 1))(handler, query, start, at)

    with tricking(garble) as fake:
        result = collect(fake, tmp_path, max_samples=1000)
    (failed,) = result.failed_windows
    assert "no number" in failed.error and failed.command
    assert set(blocks(tmp_path)) < set(FULL) and len(blocks(tmp_path)) >= 4


def test_samples_from_the_future_are_garbled() -> None:
    def early(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send(200, handler.answer(query, start, at + 3_600_000))
        return True

    with client_of(early) as client, pytest.raises(SourceError, match="after the time that was asked for"):
        client.matrix("m", "m[60000ms]", T0)


def test_series_that_come_twice_and_in_disorder_count_once(tmp_path: Path) -> None:
    def shuffle(handler: Handler, query: str, start: int, at: int) -> bool:
        if "ms]" not in query:
            return False
        answer = handler.answer(query, start, at)
        (series,) = answer["data"]["result"]
        order = np.random.default_rng(1).permutation(len(series["values"])).tolist()
        shuffled = {**series, "values": [series["values"][place] for place in order]}
        answer["data"]["result"] = [series, shuffled, series]
        handler.send(200, answer)
        return True

    stores = []
    for trick in (None, shuffle):
        folder = tmp_path / str(trick is None)
        folder.mkdir()
        with tricking(trick) as fake:
            assert collect(fake, folder, name="server").ok
        store = Store(folder / "s.duckdb")
        tables = (
            "SELECT * EXCLUDE (series_id) FROM blocks ORDER BY ALL",
            "SELECT * EXCLUDE (series_id) FROM states ORDER BY ALL",
        )
        stores.append([store.query(text)[1] for text in tables])
    assert stores[0] == stores[1] and blocks(folder) == FULL


@pytest.mark.parametrize("name", ["é☃", "a\x00b", "a\nb", 'a"b\\', "\u2028", "\x7f\x1b[0m"])
def test_labels_with_any_character_are_stored(tmp_path: Path, name: str) -> None:
    def strange(handler: Handler, query: str, start: int, at: int) -> bool:
        if "ms]" not in query:
            return False
        answer = handler.answer(query, start, at)
        answer["data"]["result"][0]["metric"]["pod"] = name
        handler.send(200, answer)
        return True

    with tricking(strange) as fake:
        assert collect(fake, tmp_path, 1).ok
    assert set(Store(tmp_path / "s.duckdb").query("SELECT labels['pod'] FROM series")[1]) == {(name,)}


def test_values_are_quoted_in_matchers() -> None:
    assert one_of("a", ["x.y", 'q"b\\', "n\nl"]) == 'a=~"x\\\\.y|q\\"b\\\\\\\\|n\\\\\\nl"'
    assert among(Selector("m"), "a", ["\u2028"]).text("m") == 'm{a=~"\u2028"}'
