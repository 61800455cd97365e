"""What must hold of closed forms, whatever the numbers; and rates from traces, against a plain count."""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpucost.errors import DataError
from gpucost.whatif.spot.answer import free_first_hours
from gpucost.whatif.spot.formulas import (
    Work,
    best_checkpoints,
    break_even_exact,
    break_even_first_order,
    exact,
    expected_hours,
    first_order,
    paid_share,
)
from gpucost.whatif.spot.interruptions import measured_rate, of_trace, read_trace, read_traces
from tests.shared import shared

WORKS = st.builds(
    Work,
    per_hour=st.floats(0, 0.5),
    checkpoint=st.floats(0.05, 5),
    write=st.floats(0, 0.2),
    restart=st.floats(0, 0.5),
    notice=st.sampled_from([0.0, 2 / 60]),
    nodes=st.integers(1, 16),
)


@given(WORKS, st.floats(1, 3))
def test_cost_never_falls_as_interruptions_rise(work: Work, factor: float) -> None:
    more = replace(work, per_hour=work.per_hour * factor)
    assert exact(more) >= exact(work) * (1 - 1e-12)
    assert first_order(more) >= first_order(work) * (1 - 1e-12)


@given(WORKS)
def test_exact_is_never_below_first_order_and_meets_it_without_interruptions(work: Work) -> None:
    assert exact(work) >= first_order(work) * (1 - 1e-12)
    rare = replace(work, per_hour=1e-7)
    assert exact(rare) == pytest.approx(first_order(rare), rel=1e-5)
    # the difference vanishes faster than the rate: it is of second order beside w/c, which multiplies interruptions too
    none = replace(work, per_hour=0.0)
    assert exact(none) == pytest.approx(first_order(none), rel=1e-12)


@given(WORKS.filter(lambda work: work.per_hour > 0), st.floats(1.01, 20))
def test_at_the_break_even_spot_costs_what_on_demand_does(work: Work, ratio: float) -> None:
    rate = break_even_exact(work, ratio)
    if rate is None:
        assert exact(replace(work, per_hour=0.0)) >= ratio or exact(replace(work, per_hour=5e3)) < ratio
        return
    assert exact(replace(work, per_hour=rate)) == pytest.approx(ratio, rel=1e-6)
    early = break_even_first_order(work, ratio)
    if early is not None:
        assert first_order(replace(work, per_hour=early)) == pytest.approx(ratio, rel=1e-6)
        assert rate <= early * (1 + 1e-6)


@given(WORKS, st.floats(0.1, 10))
def test_no_other_interval_beats_the_best(work: Work, factor: float) -> None:
    work = replace(work, notice=0.0)
    best = best_checkpoints(work)
    if best is None:
        assert work.write == 0 or work.gang_rate == 0
        return
    assume(work.gang_rate * work.write > 1e-9)
    optimal = exact(replace(work, checkpoint=best.exact))
    assert exact(replace(work, checkpoint=best.exact * factor)) >= optimal * (1 - 1e-9)
    assert best.young == pytest.approx(math.sqrt(2 * work.write / work.gang_rate))
    if work.gang_rate * work.write < 0.01:
        assert best.daly == pytest.approx(best.exact, rel=0.01)


@pytest.mark.parametrize(
    "work",
    [
        Work(1 / 3, 0.5),
        Work(0.05, 0.5, write=0.05, restart=0.25),
        Work(0.1, 0.5, write=0.05, restart=0.2, nodes=4),
        Work(0.1, 0.5, write=0.02, restart=0.2, notice=2 / 60, nodes=2),
        Work(3.0, 0.5, write=0.02, restart=0.2),
    ],
)
def test_a_job_takes_what_its_intervals_take_and_the_last_may_be_shorter(work: Work) -> None:
    short = replace(work, checkpoint=0.2)
    assert expected_hours(work, 100) == pytest.approx(100 * exact(work))
    assert expected_hours(work, 0.7) == pytest.approx(0.5 * exact(work) + 0.2 * exact(short))
    # by rounding, 0.1 h + 0.2 h are a little more than three intervals of 0.1 h
    tenths = replace(work, checkpoint=0.1)
    assert expected_hours(tenths, 0.1 + 0.2) == pytest.approx(0.3 * exact(tenths))


def test_first_hours_free_is_the_share_of_lives_that_outlast_them() -> None:
    lives = [0.005 + 0.01 * number for number in range(5_000)]
    hours = [0.01 * life * 0.7 * math.exp(-0.7 * life) for life in lives]
    longer = sum(hour for hour, life in zip(hours, lives, strict=True) if life > 1)
    assert paid_share(Work(0.7, 0.5, first_hour_free=True)) == pytest.approx(longer / sum(hours), rel=1e-4)


@pytest.mark.parametrize(
    "work",
    [
        Work(0.33, 0.5, restart=0.2, first_hour_free=True),
        Work(0.33, 0.5, write=0.02, restart=0.2, nodes=4, first_hour_free=True),
        Work(1.5, 0.25, write=0.02, restart=0.1, nodes=2, first_hour_free=True),
    ],
)
def test_paid_hours_are_those_of_a_plain_walk_through_the_lives_of_nodes(work: Work) -> None:
    per_hour = [_walked(work, 500, random.Random(seed)) for seed in range(60)]
    error = statistics.stdev(per_hour) / math.sqrt(len(per_hour))
    # of one job, the first life begins with it and the last one ends with it
    assert abs(statistics.mean(per_hour) - exact(work)) <= 3.3 * error + 0.2 / 500


def _walked(work: Work, hours: float, rng: random.Random) -> float:
    """Paid hours of a node per useful hour: every node lives and dies by itself, any death stops them all."""
    born = [0.0] * work.nodes
    death = [rng.expovariate(work.per_hour) for _ in born]
    clock = paid = done = restart = 0.0
    while done < hours:
        piece = restart or work.checkpoint + work.write
        first = min(death)
        if clock + piece <= first:
            clock += piece
            done += 0.0 if restart else work.checkpoint
            restart = 0.0
            continue
        node = death.index(first)
        paid += first - born[node] if first - born[node] > 1 else 0.0
        clock = born[node] = first
        death[node] = first + rng.expovariate(work.per_hour)
        restart = work.restart
    # what the job itself ends is paid, however short
    return (paid + sum(clock - at for at in born)) / work.nodes / done


def test_free_first_hours_outweigh_endless_work_only_where_they_are_longer_than_what_must_get_through() -> (
    None
):
    """Up hours grow by e^{nλ(r+c+w)}, paid ones fall by e^{-λ}."""
    short, long = (
        Work(1.0, 0.5, restart=0.2, first_hour_free=True),
        Work(1.0, 0.5, restart=0.2, nodes=2, first_hour_free=True),
    )
    rates = [999.9, 1000.1, 1500.0, 5000.0]  # on either side of what a float holds of e^{0.7 λ}
    assert max(exact(replace(short, per_hour=rate)) for rate in rates) < 1e-100
    assert exact(replace(long, per_hour=5000.0)) == math.inf
    assert break_even_exact(short, 2.0) is None
    assert break_even_exact(long, 2.0) is not None


def test_where_free_first_hours_make_interruptions_pay_the_answer_says_so() -> None:
    rare, often = Work(0.05, 0.5, first_hour_free=True), Work(1.0, 0.5, first_hour_free=True)
    assert exact(replace(often, per_hour=1.1)) < exact(often)
    assert (
        free_first_hours(rare, 2.0, None)
        == free_first_hours(replace(often, first_hour_free=False), 2.0, None)
        == []
    )
    (sentence,) = free_first_hours(often, 2.0, None)
    assert "26.4 % of the time on spot" in sentence and "again" not in sentence
    assert (
        "spot costs less than on demand again"
        in free_first_hours(often, 1.01, break_even_exact(often, 1.01))[0]
    )


def test_measured_rates_are_of_the_family_or_the_model_at_that_provider_else_pooled() -> None:
    t4 = measured_rate("aws", "g4dn.12xlarge", None)
    assert (t4.per_hour, t4.low, t4.high) == (74 / 135.7, 0.4282, 0.6847)
    assert measured_rate("gcp", "a3-highgpu-8g", "A100-SXM4-40GB").per_hour == 154 / 1548.2
    # K80: probes that failed are all that is known
    assert "upper limit" in measured_rate("aws", "p2.xlarge", "K80").source
    pooled = measured_rate("aws", "p5.48xlarge", "H100-80GB-HBM3")
    assert pooled == measured_rate(None, "", None) or "pooled: none of aws p5" in pooled.source
    assert pooled.low == 0.0472 and pooled.high == 0.9974 and 0.24 < pooled.per_hour < 0.25


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
    assert rate.low < rate.per_hour == trace.preemptions / trace.node_hours < rate.high


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
