"""Whatever a server answers: what was answered, or an error in words; nothing else."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import pytest

from gpucost.collect.prometheus_parse import Garbled, LabelCache, MatrixReader
from tests.unit.mutations import mutations

AT = 1_700_000_000
LABELS = {"__name__": "m", "namespace": "ml", "pod": 'a"b\\', "note": "é☃\n", "UUID": "GPU-1"}


def matrix(*values: str, more: dict[str, Any] | None = None, indent: int | None = None) -> bytes:
    result = [
        {"metric": {**LABELS, "pod": f"p-{n}"}, "values": [[AT + n + (i / 1000 or 0), v] for i, v in enumerate(values)]}
        for n in range(3)
    ]
    document = {"status": "success", **(more or {}), "data": {"resultType": "matrix", "result": result}}
    return json.dumps(document, indent=indent, separators=None if indent else (",", ":")).encode()


ANSWERS = [
    matrix("0", "12", "99.5", "1700000"),
    matrix("1700000000", "-1", "NaN", "+Inf", "1e-05", more={"isPartial": False, "infos": ["PromQL info: x"]}),
    matrix("1", more={"warnings": ["PromQL warning: x"]}, indent=1),
    matrix("1", "2")
    .replace(b'],"values"', b'],"histograms":[[1,{"count":"1"}]],"values"')
    .replace(b'"2"]]}', b'"2"]],"histograms":[]}'),
]


def read(text: bytes, draw: random.Random) -> list[tuple[dict[str, str], int, float]]:
    reader = MatrixReader("m", LabelCache())
    at = 0
    while at < len(text):
        size = draw.choice([1, 7, 100, 1 << 20])
        reader.feed(text[at : at + size])
        if draw.random() < 0.2:
            reader._take_in()  # as if a MiB had come together
        at += size
    answer = reader.finish()
    columns = zip(answer.series_index.tolist(), answer.ts_ms.tolist(), answer.values.tolist(), strict=True)
    return [(dict(answer.series[i]), t, v) for i, t, v in columns]


def answered(text: bytes) -> list[tuple[dict[str, str], int, float]] | None:
    """What json.loads makes of it, slowly; None where it is no matrix."""
    try:
        document = json.loads(text.decode())
        assert document["status"] == "success" and document["data"]["resultType"] == "matrix"
        found = []
        for item in document["data"]["result"] or []:
            assert all(isinstance(value, str) for value in item["metric"].values())
            json.dumps(item["metric"], ensure_ascii=False).encode()
            assert "values" in item or "histograms" in item
            for moment, value in item.get("values") or []:
                assert type(moment) in (int, float) and 0 <= moment < 1e12
                shape = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|NaN|[+-]?Inf"
                assert value is None or re.fullmatch(shape, value, re.ASCII)
                found.append(
                    ({**item["metric"], "__name__": "m"}, round(moment * 1000), math.nan if value is None else float(value))
                )
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
        return None
    return found


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_matrix_is_read_as_it_stands_or_not_at_all(count: int) -> None:
    draw = random.Random(count)
    right = 0
    for number, answer in enumerate(ANSWERS):
        assert repr(read(answer, draw)) == repr(answered(answer))
        for text in mutations(answer, count + number, count):
            try:
                found = read(text, draw)
            except Garbled:
                continue
            assert repr(found) == repr(answered(text)), text
            right += 1
    assert right > count / 4  # a digit more or less is no error
