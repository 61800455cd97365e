"""Interruption rates from traces, against a plain count.

GPUCOST_SPOT_TRACES names a folder of further traces (JSON of ticks, CSV of events) to count the same way.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpucost.errors import DataError
from gpucost.whatif.spot.interruptions import of_trace, read_trace, read_traces
from tests.shared import shared

TICKS = {"metadata": {"gap_seconds": 600}, "data": [0, 1, 1, 1, 0, 0, 2, 2, 1, 3, 0]}
EVENTS = "0,add,a\n0,add,b\n3600000,remove,a\n5400000,add,c\n7200000,remove,b\n"


def plain_ticks(path: Path) -> tuple[int, float]:
    document = json.loads(path.read_text())
    preemptions, ticks, before = 0, 0, 0
    for count in document["data"]:
        if count < before:
            preemptions += before - count
        ticks += count
        before = count
    return preemptions, ticks * document["metadata"]["gap_seconds"] / 3600


def plain_events(path: Path) -> tuple[int, float]:
    """Hours of each step, times the nodes there at that step."""
    rows = [(int(at), event) for at, event, _ in csv.reader(path.open())]
    there, hours, before = 0, 0.0, 0
    for at, event in rows:
        hours += there * (at - before) / 3_600_000
        there, before = there + (1 if event == "add" else -1), at
    return sum(event == "remove" for _, event in rows), hours


@pytest.mark.parametrize(
    ("name", "text", "preemptions", "node_hours"),
    [
        ("ticks.json", json.dumps(TICKS), 5, 11 / 6),
        # what is there at the end lasted until then
        ("events.csv", EVENTS, 2, 1 + 2 + 0.5),
        ("dated.txt", "2021-12-11, 11:00:00, 4\n2021-12-11, 11:30:00, 3\n2021-12-11, 12:00:00, 3\n", 1, 3.5),
        # the clock steps back: no time passes
        (
            "back.txt",
            "2021-12-11, 11:00:00, 4\n2021-12-11, 12:00:00, 4\n2021-12-11, 11:30:00, 2\n2021-12-11, 12:30:00, 2\n",
            2,
            5.0,
        ),
        ("seconds.csv", "0,2\n3600,2\n3600,1\n7200,1\n", 1, 3.0),
        ("hours.csv", "0.000,2\n1.000,2\n1.000,1\n2.500,1\n", 1, 3.5),
    ],
)
def test_formats(tmp_path: Path, name: str, text: str, preemptions: int, node_hours: float) -> None:
    (tmp_path / name).write_text(text)
    trace = read_trace(tmp_path / name)
    assert (trace.preemptions, trace.node_hours) == (preemptions, pytest.approx(node_hours))


def test_a_folder_is_all_its_traces_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.json").write_text(json.dumps(TICKS))
    (tmp_path / "x.csv").write_text("0,2\n3600,2\n3600,1\n7200,1\n")
    (tmp_path / "x_scaled.csv").write_text("0.000,2\n1.000,2\n1.000,1\n2.000,1\n")
    (tmp_path / "NOTES.txt").write_text("not a trace\n")
    trace = read_traces([tmp_path])
    assert (trace.files, trace.preemptions) == (2, 6)
    assert trace.node_hours == pytest.approx(11 / 6 + 3)
    assert [path.name for path in trace.passed_over] == ["NOTES.txt"]
    rate = of_trace(trace)
    assert rate.low is not None and rate.high is not None
    assert rate.low < rate.per_hour == trace.per_hour < rate.high


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"metadata": {}, "data": [1]}', "gap_seconds"),
        ("a.json", '{"metadata": {"gap_seconds": 60}, "data": [1, -1]}', "whole numbers"),
        ("a.json", '{"metadata": {"gap_seconds": 60}, "data": [0, 0]}', "no instance was ever there"),
        ("b.csv", "0,add,a\n5,remove,z\n", "row 2: cannot remove z"),
        ("b.csv", "0,add,a\n5,add,a\n", "row 2: cannot add a"),
        ("b.csv", "9,add,a\n5,add,b\n", "row 2: goes back in time"),
        ("c.csv", "0,2\n3600,many\n", "row 2: 'many'"),
        ("d.txt", "hello\n", "is no trace"),
    ],
)
def test_broken_traces_are_told(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_traces([tmp_path / name])


@pytest.mark.shared
def test_further_traces_against_a_plain_count() -> None:
    counted = 0
    for path in sorted(shared("data/gpu").rglob("*")):
        start = path.read_text(errors="replace")[:2000] if path.suffix in (".json", ".csv") else ""
        if '"gap_seconds"' in start:
            expected = plain_ticks(path)
        elif ",add," in start.partition("\n")[0]:
            expected = plain_events(path)
        else:
            continue
        trace = read_trace(path)
        assert (trace.preemptions, trace.node_hours) == pytest.approx(expected), path
        counted += 1
    assert counted
