"""Answers without end, in bytes or in time: a collect ends in words, within the limits of its settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.memory import peak_mib
from tests.faults.proxy import LONGEST_DRIP, Plan, proxy
from tests.faults.worlds import World, collect, world
from tests.replay.server import require_prometheus

pytestmark = pytest.mark.services

LIMITS = {"timeout_seconds": 0.5, "max_response_seconds": 1.0, "max_response_mib": 8}
#: The small question that every collect begins with; samples; what there is.
QUESTIONS = {"small": "vector", "samples": "ms%5D", "names": "/label/"}


@pytest.fixture(scope="module")
def its(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    require_prometheus()
    with proxy() as one, world("node-name-reused", one, tmp_path_factory.mktemp("world")) as its:
        yield its


@pytest.mark.parametrize("question", ["small", pytest.param("samples", marks=pytest.mark.slow)])
def test_an_answer_that_never_ends(question: str, its: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = its.config(tmp_path, **LIMITS | {"max_response_seconds": 0.3})
    its.proxy.begin(its.full, Plan(1, ("drip",), always=True, only=QUESTIONS[question]))
    began = time.monotonic()
    answer = collect(monkeypatch, config, its.repair)
    assert time.monotonic() - began < LONGEST_DRIP
    assert answer.code == 1 and "did not answer within 0.5 s" in answer.err, answer


@pytest.mark.parametrize("shape", [0, *(pytest.param(shape, marks=pytest.mark.slow) for shape in range(1, 5))])
@pytest.mark.parametrize("question", ["samples", *(pytest.param(name, marks=pytest.mark.slow) for name in ("names", "small"))])
def test_an_answer_of_gigabytes(question: str, shape: int, its: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = its.config(tmp_path, **LIMITS)
    its.proxy.begin(its.full, Plan(shape, ("bomb",), always=True, only=QUESTIONS[question]))
    with peak_mib() as peak:
        answer = collect(monkeypatch, config, its.repair)
    assert its.proxy.met["bomb"]
    assert peak.mib < 1000
    # a server that does not say what it has is asked for everything
    assert answer.code == (0 if question == "names" else 1), answer
    assert question == "names" or "8 MiB" in answer.err or "even in sixteenths" in answer.err, answer
