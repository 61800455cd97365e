"""A proxy in front of a Prometheus that fails like servers and gateways, by a plan drawn from a seed.

The plan contains only faults that a client can notice. A silently missing sample looks like a sample that never existed. The
only such fault that heals, a server with late samples, is a second Prometheus with fewer samples (see worlds.py).
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.loopback import Quiet, serving

Series = list[dict[str, Any]]

JSON = "application/json"
ALWAYS = 99
#: Duration of a drip in seconds unless the client ends it.
LONGEST_DRIP = 30.0
#: Inflated size of a bomb of about a megabyte.
BOMB_MIB = 1200

PARTIAL_WARNINGS = (
    "rpc error: code = Unavailable desc = connection error: desc = transport: error while dialing",
    "1 of 3 store gateways did not answer, the answer is partial",
    "receive series from Addr: thanos-store-1:10901: context deadline exceeded",
)
PROMQL_NOTES = (
    'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "kube_node_info" (1:1)',
    'PromQL warning: encountered a mix of histograms and floats for metric name "kube_node_info" (1:1)',
)
BLANKS = ("2147483632", "2147483635", "4294967295", "9.223372036854776e+18", "140737488355328", "NaN")


@dataclass(frozen=True)
class Plan:
    """Assigns faults to queries by seed and query alone, independent of the order of threads.

    `always`: every query meets a fault at each attempt. `only`: just queries that contain this text meet faults.
    """

    seed: int
    kinds: tuple[str, ...]
    rate: float = 1.0
    always: bool = False
    only: str = ""

    def fault(self, question: str, attempt: int) -> tuple[str, Random] | None:
        """Return the fault of a query at an attempt (from 0), and the random generator for its details."""
        dice = Random(f"{self.seed} {question}")
        rare = dice.random()
        kind = dice.choice(self.kinds)
        attempts = dice.choice((1, 1, 2, ALWAYS))
        if self.only not in question:
            return None
        if not self.always and (
            rare >= min(self.rate, RAREST.get(kind, 1.0)) or (attempt >= attempts and kind not in UNFELT)
        ):
            return None
        return kind, dice


@dataclass
class Proxy:
    """The server's state: its upstream and its plan of faults, if any."""

    url: str = ""
    upstream: str = ""
    plan: Plan | None = None
    met: Counter[str] = field(default_factory=Counter)
    _attempts: Counter[str] = field(default_factory=Counter)
    _answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, upstream: str, plan: Plan | None = None) -> None:
        """Query `upstream` and fail by `plan` from now on."""
        with self._lock:
            self.upstream, self.plan = upstream, plan
            self.met, self._attempts = Counter(), Counter()

    def fault(self, question: str) -> tuple[str, Random] | None:
        """Return the fault of the next attempt of this query."""
        with self._lock:
            attempt = self._attempts[question]
            self._attempts[question] += 1
            fault = self.plan.fault(question, attempt) if self.plan else None
            if fault:
                self.met[fault[0]] += 1
        return fault

    def answer(self, path: str, form: str) -> tuple[int, bytes]:
        """Return upstream's answer, cached, since runs repeat the same windows."""
        url = f"{self.upstream}{path}?{form}"
        if url not in self._answers:
            try:
                with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
                    self._answers[url] = response.status, response.read()
            except urllib.error.HTTPError as error:
                self._answers[url] = error.code, error.read()
        return self._answers[url]


class Handler(Quiet):
    """Answer one query, or fail."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: ClassVar[Proxy]

    def do_GET(self) -> None:  # noqa: N802
        self._serve(urlsplit(self.path).query)

    def do_POST(self) -> None:  # noqa: N802
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _serve(self, form: str) -> None:
        path = urlsplit(self.path).path
        form = urlencode(sorted(parse_qsl(form)))
        fault = self.proxy.fault(f"{path}?{form}")
        status, body = self.proxy.answer(path, form)
        try:
            if fault is None or status != 200:
                self.send(status, body)
            else:
                FAULTS[fault[0]](self, body, fault[1])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client closed the connection

    def send(self, status: int, body: bytes, content_type: str = JSON, **headers: str) -> None:
        """Send a whole answer."""
        self.head(status, content_type, **headers, **{"Content-Length": str(len(body))})
        self.wfile.write(body)

    def head(self, status: int, content_type: str = JSON, **headers: str) -> None:
        """Send the beginning of an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def proxy() -> Iterator[Proxy]:
    """Yield a proxy on a free loopback port."""
    state = Proxy()
    with serving(type("Bound", (Handler,), {"proxy": state})) as state.url:
        yield state


# Refusals and lost connections


def _busy(handler: Handler, body: bytes, dice: Random) -> None:
    after = dice.choice((None, "0", "0", "Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-1", "²"))
    headers = {} if after is None else {"Retry-After": after}
    handler.send(429, b'{"status":"error","errorType":"too_many_requests","error":"slow down"}', **headers)


def _broken(handler: Handler, body: bytes, dice: Random) -> None:
    status = dice.choice((500, 502, 503, 504))
    text = dice.choice(
        (b'{"status":"error","error":"disk on fire"}', b"upstream connect error", b"", b"\xff\xfe\x00", b"[]")
    )
    handler.send(status, text, dice.choice((JSON, "text/plain", "text/html")))


def _closed(handler: Handler, body: bytes, dice: Random) -> None:
    handler.close_connection = True


def _redirect(handler: Handler, body: bytes, dice: Random) -> None:
    handler.send(dice.choice((301, 302, 307)), b"", Location="https://login.example/?state=secret")


def _cut(handler: Handler, body: bytes, dice: Random) -> None:
    part = body[: dice.randrange(len(body))]
    handler.close_connection = True
    if dice.random() < 0.3:  # the sender regards the body as complete
        handler.send(200, part)
    elif dice.random() < 0.5:
        handler.head(200, **{"Content-Length": str(len(body))})
        handler.wfile.write(part)
    else:
        handler.head(200, **{"Transfer-Encoding": "chunked"})
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if part else b"")


def _drip(handler: Handler, body: bytes, dice: Random) -> None:
    """Send an endless series of short pauses."""
    handler.close_connection = True
    handler.head(200, **{"Content-Length": str(len(body))})
    end = time.monotonic() + LONGEST_DRIP
    for at in range(len(body)):
        if time.monotonic() > end:
            return
        handler.wfile.write(body[at : at + 1])
        time.sleep(0.05)


# Other content instead of the answer


def _login(handler: Handler, body: bytes, dice: Random) -> None:
    page = b"<!DOCTYPE html><html><title>Sign in</title><form method=post action=/login></form></html>"
    handler.send(200, page, dice.choice(("text/html; charset=utf-8", JSON, "text/plain")))


_SHAPES = """
[]
null
"ok"
7
{}
{"status": "success"}
{"status": "error"}
{"status": "success", "data": "x"}
{"status": "success", "data": {"resultType": "streams", "result": [{"stream": {}, "values": [["1", "line"]]}]}}
{"status": "success", "data": {"resultType": "matrix", "result": [null]}}
{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": null, "values": [[1, "1"]]}]}}
{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": [[1]]}]}}
{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": [["x", "y"]]}]}}
{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": {"1": "1"}}]}}
{"status": "success", "data": {"resultType": "matrix", "result": {"metric": {}}}}
{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}}
{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": []}]}}
{"status": "success", "data": [{"a": "b"}, 3]}
""".strip().splitlines()


def _other_json(handler: Handler, body: bytes, dice: Random) -> None:
    document = json.loads(dice.choice(_SHAPES))
    separators = dice.choice([(",", ":"), (", ", ": ")])
    handler.send(200, json.dumps(document, separators=separators).encode())


def _garbled(handler: Handler, body: bytes, dice: Random) -> None:
    """Replace one byte by a control character, which is invalid in JSON."""
    at = dice.randrange(len(body))
    handler.send(200, body[:at] + dice.choice((b"\x00", b"\x01", b"\x1f")) + body[at + 1 :])


def _bad_utf8(handler: Handler, body: bytes, dice: Random) -> None:
    at = dice.randrange(len(body))
    handler.send(200, body[:at] + dice.choice((b"\xff", b"\xc3", b"\x80")) + body[at + 1 :])


def _bomb(handler: Handler, body: bytes, dice: Random) -> None:
    """Send a body of a megabyte that inflates to more than a gigabyte."""
    head, filling = dice.choice((
        (b'{"status":"success","data":{"resultType":"matrix","result":[', b" " * 1024),
        (b"", b" " * 1024),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"', b"b" * 1024),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"]', b',[1,"1"]' * 128),
        (b'{"status":"success","data":[""', b',""' * 512),
    ))  # fmt: skip
    handler.close_connection = True
    handler.head(200, **{"Content-Encoding": "gzip", "Connection": "close"})
    packer = zlib.compressobj(9, wbits=-15)
    handler.wfile.write(
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    )
    packer = zlib.compressobj(9, wbits=-15)
    mib = packer.compress(filling * 1024) + packer.flush(zlib.Z_FULL_FLUSH)  # self-contained: it can repeat
    for _ in range(BOMB_MIB):
        handler.wfile.write(mib)


# Changed answers


def _partial(handler: Handler, body: bytes, dice: Random) -> None:
    """Drop part of the answer and mark it as partial, like VictoriaMetrics, or like Thanos and Mimir."""
    document = json.loads(body)
    data = document["data"]
    rows = data if isinstance(data, list) else data["result"]
    kept = [row for row in rows if dice.random() < 0.5]
    for row in kept:
        if isinstance(row, dict) and "values" in row:
            row["values"] = row["values"][: max(1, int(len(row["values"]) * dice.random()))]
    document["data"] = kept if isinstance(data, list) else {**data, "result": kept}
    if dice.random() < 0.5:
        document = {"status": "success", "isPartial": True, **document}
    else:
        document["warnings"] = [
            dice.choice(PARTIAL_WARNINGS),
            *(PROMQL_NOTES[:1] if dice.random() < 0.3 else []),
        ]
    handler.send(200, _text(document))


def _promql_notes(handler: Handler, body: bytes, dice: Random) -> None:
    document = json.loads(body)
    if dice.random() < 0.5:
        document["infos"] = [PROMQL_NOTES[0]]
    document["warnings"] = [dice.choice(PROMQL_NOTES)]
    handler.send(200, _text(document))


def _duplicated(handler: Handler, body: bytes, dice: Random) -> None:
    def twice(series: Series) -> Series:
        again = [one for one in series if dice.random() < 0.5]
        for one in series:
            if dice.random() < 0.2:
                one["values"] = sorted([*one["values"], *dice.choices(one["values"], k=3)])
        return [*series, *again]

    _changed(handler, body, twice)


def _reordered(handler: Handler, body: bytes, dice: Random) -> None:
    def shuffled(series: Series) -> Series:
        dice.shuffle(series)
        for one in series:
            if dice.random() < 0.5:
                dice.shuffle(one["values"])
        return series

    _changed(handler, body, shuffled)


def _blanks(handler: Handler, body: bytes, dice: Random) -> None:
    """Insert DCGM's markers of a missing value between its samples, and NaN between all others."""

    def blanked(series: Series) -> Series:
        for one in series:
            words = BLANKS if one["metric"].get("__name__", "").startswith("DCGM_") else ("NaN",)
            if dice.random() < 0.3:
                places = dice.choices(one["values"][:-1], k=3) if len(one["values"]) > 1 else []
                one["values"] = sorted(
                    [*one["values"], *([at + 7.125, dice.choice(words)] for at, _ in places)]
                )
        return series

    _changed(handler, body, blanked)


def _changed(handler: Handler, body: bytes, change: Callable[[Series], Series]) -> None:
    document = json.loads(body)
    data = document["data"]
    if isinstance(data, dict) and data["resultType"] == "matrix":
        data["result"] = change(data["result"])
        body = _text(document)
    handler.send(200, body)


def _text(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


FAULTS: dict[str, Callable[[Handler, bytes, Random], None]] = {
    fault.__name__[1:]: fault
    for fault in (
        _busy, _broken, _closed, _redirect, _cut, _drip, _login, _other_json, _garbled, _bad_utf8, _bomb, _partial,
        _promql_notes, _duplicated, _reordered, _blanks,
    )
}  # fmt: skip
#: Faults that may have no effect, not even on the number of queries.
UNFELT = frozenset({"promql_notes", "duplicated", "reordered", "blanks"})
#: Slow faults, met by few queries.
RAREST = {"drip": 0.02, "bomb": 0.02}
