"""Damaged server answers are either read correctly or refused with a readable error."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.parse import Garbled, MatrixReader
from gpucost.config.model import PrometheusSource
from gpucost.errors import SourceError
from tests.unit.fake_server import Fake, Question
from tests.unit.mutations import mutations

Rows = list[tuple[dict[str, str], int, float]]
AT = 1_700_000_000
NASTY = 'é☃𝄞\n\t"a\\]]},{"metric":{"values":[[1,"2"]],[-1,{,'  # separators of answers, and escapes
LABELS = {"__name__": "m", "namespace": "ml", "values": NASTY, "metric": "", "UUID": "GPU-1"}


def matrix(values: str, before: str = "", indent: int | None = None) -> bytes:
    """Three series of these values, each a second later; values of a series are a millisecond apart."""
    result = [
        {
            "metric": {**LABELS, "pod": f"p-{n}"},
            "values": [[AT + n + (i / 1000 or 0), value] for i, value in enumerate(values.split())],
        }
        for n in range(3)
    ]
    document = {
        "status": "success",
        **json.loads(f"{{{before}}}"),
        "data": {"resultType": "matrix", "result": result},
    }
    return json.dumps(document, indent=indent, separators=None if indent else (",", ":")).encode()


ANSWERS = [
    matrix("0 12 99.5 1700000"),
    matrix("1700000000 -1 NaN +Inf 1e-05", '"isPartial": false, "infos": ["PromQL info: x"]'),
    matrix("1", '"warnings": ["PromQL warning: x"]', indent=1),
    matrix("1 2")
    .replace(b'],"values"', b'],"histograms":[[1,{"count":"1"}]],"values"')
    .replace(b'"2"]]}', b'"2"]],"histograms":[]}'),
]


def read(text: bytes, draw: random.Random) -> Rows:
    reader = MatrixReader("m")
    at = 0
    while at < len(text):
        size = draw.choice([1, 7, 100, 1 << 20])
        reader.feed(text[at : at + size])
        if draw.random() < 0.2:
            reader._take_in()  # as if a MiB had been received
        at += size
    answer = reader.finish()
    columns = zip(answer.series_index.tolist(), answer.ts_ms.tolist(), answer.values.tolist(), strict=True)
    return [(dict(answer.series[i]), t, v) for i, t, v in columns]


def slow_reading(text: bytes) -> Rows | None:
    """The slow result of json.loads; None if the text is not a matrix."""
    try:
        document = json.loads(text.decode())
        assert document["status"] == "success" and document["data"]["resultType"] == "matrix"
        rows = []
        for item in document["data"]["result"] or []:
            assert all(isinstance(value, str) for value in item["metric"].values())
            json.dumps(item["metric"], ensure_ascii=False).encode()
            assert "values" in item or "histograms" in item
            for moment, value in item.get("values") or []:
                assert type(moment) in (int, float) and 0 <= moment < 1e12
                shape = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|NaN|[+-]?Inf"
                assert value is None or re.fullmatch(shape, value, re.ASCII)
                number = math.nan if value is None else float(value)
                rows.append(({**item["metric"], "__name__": "m"}, round(moment * 1000), number))
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
        return None
    return rows


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_matrix_is_read_correctly_or_refused(count: int) -> None:
    draw = random.Random(count)
    right = 0
    for number, answer in enumerate(ANSWERS):
        assert repr(read(answer, draw)) == repr(slow_reading(answer))
        for text in mutations(answer, count + number, count):
            try:
                rows = read(text, draw)
            except Garbled:
                continue
            assert repr(rows) == repr(slow_reading(text)), text
            right += 1
    assert right > count / 4  # a digit more or less is still valid


VECTOR = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"60"]}]}}'
NAMES = '{"status":"success","data":["kube_pod_info","ml","é"],"isPartial":false}'.encode()
Ask = Callable[[PrometheusClient], Any]
ASKS: list[tuple[bytes, Ask]] = [
    (ANSWERS[0], lambda client: client.matrix("m", "m[60000ms]", (AT + 10) * 1000)),
    (VECTOR, lambda client: client.value("m", AT * 1000)),
    (VECTOR, lambda client: client.get("query", {})),
    (NAMES, lambda client: client.label_values("__name__", 0, 1)),
]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\nContent-Length: 0\r\n\r\n"


def wires(body: bytes) -> list[bytes]:
    """A body in the forms sent by servers: plain, compressed, and in chunks."""
    zipped = gzip.compress(body)
    return [
        HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(zipped), zipped),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
    ]


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("body", "ask"), ASKS, ids=["matrix", "value", "data", "names"])
def test_client_answers_or_gives_a_readable_error(fake: Fake, body: bytes, ask: Ask, count: int) -> None:
    left: Iterator[bytes] = iter(())

    def send(question: Question) -> bool:
        """Send the next raw response, then close the connection."""
        question.handler.close_connection = True
        question.handler.wfile.write(next(left))
        return True

    fake.trick = send
    # on a busy machine, a complete answer may take its time
    hasty, patient = (
        PrometheusClient(
            PrometheusSource(url=fake.url, timeout_seconds=timeout, max_response_seconds=timeout),
            Retries(attempts=1),
        )
        for timeout in (2, 60)
    )
    for number, wire in enumerate(wires(body)):
        left = iter([wire])
        assert ask(patient) is not None
        texts = list(mutations(wire, number, count))
        left = iter([*texts, BUSY, MOVED])
        for _ in range(len(texts) + 2):
            try:
                ask(hasty)
            except SourceError as error:
                assert error.message.isprintable(), error.message  # noqa: PT017
    hasty.close()
    patient.close()
