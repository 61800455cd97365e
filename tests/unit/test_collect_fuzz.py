"""Whatever a server answers: what was answered, or an error in words; nothing else."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.collect.progress.files import import_files
from gpucost.collect.progress.mlflow import collect_mlflow
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.parse import Garbled, MatrixReader
from gpucost.config.model import Mlflow, PrometheusSource
from gpucost.errors import GpucostError, SourceError
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer
from tests.unit.fake_server import Fake, Question, Reply, fake, fakes
from tests.unit.mutations import mutations

__all__ = ["fake", "fakes"]  # fixtures

AT = 1_700_000_000
LABELS = {"__name__": "m", "namespace": "ml", "pod": 'a"b\\', "note": "é☃\n", "UUID": "GPU-1"}


def matrix(*values: str, more: dict[str, Any] | None = None, indent: int | None = None) -> bytes:
    result = [
        {
            "metric": {**LABELS, "pod": f"p-{n}"},
            "values": [[AT + n + (i / 1000 or 0), v] for i, v in enumerate(values)],
        }
        for n in range(3)
    ]
    document = {"status": "success", **(more or {}), "data": {"resultType": "matrix", "result": result}}
    return json.dumps(document, indent=indent, separators=None if indent else (",", ":")).encode()


ANSWERS = [
    matrix("0", "12", "99.5", "1700000"),
    matrix(
        "1700000000", "-1", "NaN", "+Inf", "1e-05", more={"isPartial": False, "infos": ["PromQL info: x"]}
    ),
    matrix("1", more={"warnings": ["PromQL warning: x"]}, indent=1),
    matrix("1", "2")
    .replace(b'],"values"', b'],"histograms":[[1,{"count":"1"}]],"values"')
    .replace(b'"2"]]}', b'"2"]],"histograms":[]}'),
]


def read(text: bytes, draw: random.Random) -> list[tuple[dict[str, str], int, float]]:
    reader = MatrixReader("m")
    at = 0
    while at < len(text):
        size = draw.choice([1, 7, 100, 1 << 20])
        reader.feed(text[at : at + size])
        if draw.random() < 0.2:
            reader._take_in()  # as if a MiB had come together
        at += size
    return rows_of(reader.finish())


def rows_of(answer: ReadAnswer) -> list[tuple[dict[str, str], int, float]]:
    columns = zip(answer.series_index.tolist(), answer.ts_ms.tolist(), answer.values.tolist(), strict=True)
    return [(dict(answer.series[i]), t, v) for i, t, v in columns]


def slow_reading(text: bytes) -> list[tuple[dict[str, str], int, float]] | None:
    """What json.loads makes of it, slowly; None where it is no matrix."""
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
def test_a_matrix_is_read_as_it_stands_or_not_at_all(count: int) -> None:
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
    assert right > count / 4  # a digit more or less is no error


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n"
PLAIN = ANSWERS[0]
ZIPPED = gzip.compress(PLAIN)
WIRES = [
    HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(PLAIN), PLAIN),
    HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED),
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(PLAIN), PLAIN),
    b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
    b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\nContent-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.slow)])
def test_http_that_is_none_is_an_error_in_words(fake: Fake, count: int) -> None:
    left: Iterator[bytes] = iter(())

    def send(question: Question) -> bool:
        """The next of the wires as it is, status line, headers and all, before the server hangs up."""
        question.handler.close_connection = True
        question.handler.wfile.write(next(left))
        return True

    fake.trick = send
    # a busy machine may take its time over what is whole
    hasty, patient = (
        PrometheusClient(
            PrometheusSource(url=fake.url, timeout_seconds=timeout, max_response_seconds=timeout),
            Retries(attempts=1),
        )
        for timeout in (2, 60)
    )
    whole = []
    for number, wire in enumerate(WIRES):
        texts = [wire, *mutations(wire, number, count)]
        for ask in (
            lambda c: c.matrix("m", "m[60000ms]", (AT + 10) * 1000),
            lambda c: c.value("m", AT * 1000),
        ):
            left = iter(texts)
            for place in range(len(texts)):
                try:
                    whole.append((number, place, ask(hasty if place else patient)))
                except SourceError as error:
                    assert error.message.isprintable(), error.message  # noqa: PT017
    hasty.close()
    patient.close()
    assert [number for number, place, _ in whole if place == 0] == [0, 1, 2]


def answer(fake: Fake, bodies: Iterable[bytes]) -> None:
    """Has a server answer with these, one after the other, whatever it is asked."""
    left = iter(bodies)
    fake.trick = lambda _: Reply(200, next(left))


VECTOR = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"60"]}]}}'
NAMES = '{"status":"success","data":["kube_pod_info","ml","é"],"isPartial":false}'.encode()


@pytest.mark.parametrize("count", [50, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_client_answers_or_says_why_not(fake: Fake, count: int) -> None:
    client = PrometheusClient(PrometheusSource(url=fake.url), Retries(attempts=1))
    messages: list[str] = []

    def matrix_rows() -> list[tuple[dict[str, str], int, float]]:
        return rows_of(client.matrix("m", "m[60000ms]", (AT + 10) * 1000))

    asks: list[tuple[bytes, Callable[[], Any], Callable[[Any, bytes], bool]]] = [
        (ANSWERS[0], matrix_rows, lambda rows, text: repr(rows) == repr(slow_reading(text))),
        (VECTOR, lambda: client.value("m", AT * 1000), lambda value, _: isinstance(value, float | None)),
        (
            NAMES,
            lambda: client.label_values("__name__", 0, 1),
            lambda names, _: isinstance(names, set | None),
        ),
        (
            VECTOR,
            lambda: client.get("query", {}),
            lambda data, text: repr(data) == repr(json.loads(text)["data"]),
        ),
    ]
    for number, (right, ask, fits) in enumerate(asks):
        texts = [right, *mutations(right, number, count)]
        answer(fake, texts)
        assert ask() is not None
        for text in texts[1:]:
            try:
                assert fits(ask(), text)
            except SourceError as error:
                messages.append(error.message)
    client.close()
    assert messages and all(text.isprintable() for text in messages)


EXPERIMENTS = b'{"experiments":[{"experiment_id":"1","name":"a"}]}'
RUN = {
    "info": {
        "run_id": "r",
        "run_name": "n",
        "status": "FINISHED",
        "start_time": AT * 1000,
        "end_time": AT * 1000 + 5000,
    },
    "data": {
        "tags": [{"key": "kubernetes.pod", "value": "p-0"}, {"key": "mlflow.parentRunId", "value": "q"}],
        "params": [{"key": "epochs", "value": "3"}],
        "metrics": [{"key": "epoch", "value": 1.0, "step": 1}],
    },
}
LOGGED = [{"key": "epoch", "value": 0.5 + n, "timestamp": AT * 1000 + n, "step": n} for n in range(3)]
HISTORY = json.dumps({"metrics": LOGGED}).encode()


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_mlflow_answers_or_says_why_not(fake: Fake, tmp_path: Path, count: int) -> None:
    settings, store = Mlflow(url=fake.url), Store(tmp_path / "s.duckdb")
    whole = [EXPERIMENTS, json.dumps({"runs": [RUN]}).encode(), HISTORY]
    period = Period(from_ms(AT * 1000), from_ms(AT * 1000 + 3_600_000))
    answer(fake, whole)
    assert collect_mlflow(settings, store, period).epochs == 3
    messages: list[str] = []
    for place in range(3):
        for text in mutations(whole[place], place, count):
            answer(fake, [*whole[:place], text, *whole[place + 1 :], *[HISTORY] * 5])
            try:
                collect_mlflow(settings, store, period, pause=0)
            except GpucostError as error:
                messages.append(error.message)
    assert messages and all(fake.url in text for text in messages)


CSV = "workload,time,unit,value,kind\nJob/a,2026-10-01T06:00:00Z,epoch,1,gauge\nJob/é,1790000000.5,requests,12.5,event\n".encode()
JSONL = (
    b'{"workload":"Job/a","time":"2026-10-01T06:00:00+02:00","unit":"epoch","value":1}\n\n'
    b'{"pod":"p","workload":"","time":1790000000,"unit":"request","value":"3","failed":true}\n'
)


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "text"), [("work.csv", CSV), ("work.jsonl", JSONL)])
def test_files_of_work_are_loaded_or_named(tmp_path: Path, name: str, text: bytes, count: int) -> None:
    store, path = Store(tmp_path / "s.duckdb"), tmp_path / name
    path.write_bytes(text)
    assert import_files(store, [path], ZoneInfo("UTC"))[0].load.values == 2
    messages: list[str] = []
    worse = [text.replace(b"Job/a", b"\\ud800"), b"[" * 100_000 + b"\n" + text, b'"a"b\n' + text]
    for changed in (*worse, *mutations(text, 7, count)):
        path.write_bytes(changed)
        try:
            import_files(store, [path], ZoneInfo("Europe/Berlin"))
        except GpucostError as error:
            messages.append(error.message)
    assert messages and all(str(path) in text for text in messages)
