"""The JSON reader: the same samples as json.loads, for any split of the bytes."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gpucost.collect.prometheus.parse import Garbled, MatrixReader, TooMuch
from gpucost.store.metrics import ReadAnswer
from tests.text_tables import text_rows

Series = list[dict[str, Any]]
Flat = list[tuple[dict[str, str], int, float]]


def body(result: Series, before: str = "", after: str = "") -> bytes:
    """An answer with these series, and more fields before and after them."""
    data = json.dumps({"resultType": "matrix", "result": result}, separators=(",", ":"))
    return f'{{"status":"success",{before}"data":{data}{after}}}'.encode()


def read(text: bytes, size: int = 1 << 20) -> ReadAnswer:
    reader = MatrixReader("m")
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])
    return reader.finish()


def flat(answer: ReadAnswer) -> Flat:
    columns = zip(answer.series_index.tolist(), answer.ts_ms.tolist(), answer.values.tolist(), strict=True)
    return [(dict(answer.series[i]), t, v) for i, t, v in columns]


def plain(result: Series) -> Flat:
    return [
        ({**item["metric"], "__name__": "m"}, round(t * 1000), float(v))
        for item in result
        for t, v in item.get("values", [])
    ]


@given(
    values=st.lists(
        st.decimals(0, 99999, places=2).map(str)
        | st.integers(0, 99_999_999).map(str)
        | st.floats(allow_nan=False).map(repr),
        min_size=1,
    )
)
def test_values_equal_float_and_times_are_exact_milliseconds(values: list[str]) -> None:
    pairs = [[1_700_000_000 + at + at % 1000 / 1000, value] for at, value in enumerate(values)]
    result = [{"metric": {"a": "1"}, "values": pairs}]
    answer = read(body(result).replace(b"inf", b"Inf"))
    assert answer.values.tolist() == [float(value) for value in values]
    assert answer.ts_ms.tolist() == [(1_700_000_000 + at) * 1000 + at % 1000 for at in range(len(values))]


@pytest.mark.parametrize("odd", ["1.2.3", "", ".", "1:", "/5", "1 ", '1"x', '"1'])
def test_value_that_is_not_a_number_is_garbled(odd: str) -> None:
    for texts in ([odd], ["1", odd], [odd, "1"]):
        result = [{"metric": {"a": "1"}, "values": [[1_700_000_000, text] for text in texts]}]
        with pytest.raises(Garbled):
            read(body(result))


def test_nan_in_any_spelling_and_an_empty_answer() -> None:
    text = body([{"metric": {"a": "1"}, "values": [[1_700_000_000, "NaN"], [1_700_000_060.5, "2"]]}])
    for answer in (read(text), read(text.replace(b'"NaN"', b"null"))):
        assert math.isnan(answer.values[0]) and answer.values[1] == 2
        assert answer.ts_ms.tolist() == [1_700_000_000_000, 1_700_000_060_500]
    for text in (body([]), body([]).replace(b"[]", b"null")):
        answer = read(text)
        assert not answer.series
        assert (answer.values.dtype, answer.series_index.dtype) == (np.float64, np.int32)


SERIES_OF_TWO: Series = [{"metric": {"a": str(i)}, "values": [[1_700_000_000 + i, "1"]]} for i in range(2)]


def test_fields_around_the_data_are_read_and_metrics_have_the_requested_name() -> None:
    reader = MatrixReader("m")
    after = ',"warnings":["a \\"]]}\\" b"],"infos":["i"],"stats":{"seriesFetched":"2"}'
    reader.feed(body(SERIES_OF_TWO, '"isPartial":true,', after))
    assert flat(reader.finish()) == plain(SERIES_OF_TWO) and reader.is_partial
    assert reader.warnings == ['a "]]}" b', "i", "the server marked its answer as partial"]
    text = body([{"metric": {"__name__": "dcgm_gpu_utilization"}, "values": [[1_700_000_000, "1"]]}])
    answers = []
    for _ in range(2):
        reader = MatrixReader("DCGM_FI_DEV_GPU_UTIL")
        reader.feed(text)
        answers.append(reader.finish())
    assert answers[0].series[0] is answers[1].series[0]
    assert answers[0].series[0] == {"__name__": "DCGM_FI_DEV_GPU_UTIL"}


WARNED = """
"isPartial":false,"warnings":[],"infos":null | whole
"infos":["PromQL info: metric might not be a counter","another"] | whole
"warnings":["PromQL warning: a mix of histograms and floats","PromQL info: x"] | whole
"warnings":["PromQL info: x","receive series from Addr: 10.0.0.1:10901: Unavailable"] | partial
"warnings":["No StoreAPIs matched for this query"] | partial
"isPartial":true | partial"""


@pytest.mark.parametrize(("more", "expected"), text_rows(WARNED))
def test_answer_is_partial_if_warned_of_more_than_its_query(more: str, expected: str) -> None:
    for text in (body(SERIES_OF_TWO, f"{more},"), body(SERIES_OF_TWO, after=f",{more}")):
        reader = MatrixReader("m")
        reader.feed(text)
        assert flat(reader.finish()) == plain(SERIES_OF_TWO)
        assert reader.is_partial is (expected == "partial")


def test_answer_beyond_the_limits_is_too_much() -> None:
    for most, fits in ((101, False), (102, True)):
        reader = MatrixReader("m", most_samples=most)
        reader.feed(body(SERIES_OF_TWO))
        with nullcontext() if fits else pytest.raises(TooMuch, match="2 samples of 2 series"):
            reader.finish()
    for opening in (body([]).replace(b"]", b'{"metric":{"a":"').removesuffix(b"}}"), b'{"a":"'):
        reader = MatrixReader("m")
        reader.feed(opening)
        for _ in range(32):
            reader.feed(b"x" * ((1 << 20) - 4))
        with pytest.raises(TooMuch, match="more than 32 MiB"):
            reader.feed(b"x" * (1 << 20))


def test_histograms_are_left_out_and_truncated_body_is_garbled() -> None:
    mixed: Series = [
        {**SERIES_OF_TWO[0], "histograms": [[1, {"count": "1"}]]},
        {"metric": {}, "histograms": [[1, {"count": "1"}]]},
    ]
    for result in (mixed, mixed[::-1], mixed[:1], mixed[1:]):
        assert flat(read(body(result))) == plain(result)
    text = body(SERIES_OF_TWO)
    for end in range(len(text)):
        with pytest.raises(Garbled):
            read(text[:end])


# changes to an answer
BROKEN = """
"a":"0" | "a":0
"a":"0" | "a":"\xff"
"a":"0" | "a":"\\ud800"
"values" | "vblues"
1700000000 | 0700000000
1700000000 | -1
1700000000 | 1e300
1700000000 | NaN
"1" | 1
"1" | "1_0"
"1"]]}, | "1"]]},7,"""


def test_answers_without_a_valid_matrix_are_garbled() -> None:
    whole = body(SERIES_OF_TWO)
    moved = whole.replace(b'"result":', b'"other":{"result":').replace(b"]}}", b']},"result":[]}}')
    texts = [
        body([]).replace(b"matrix", b"vector"),
        b'{"status":"error","error":"x"}',
        b"[]",
        b"[" * 100_000,
        moved,
    ]
    for old, new in text_rows(BROKEN):
        texts.append(whole.replace(old.encode(), new.encode("latin-1")))
    for text in texts:
        with pytest.raises(Garbled):
            read(text)
