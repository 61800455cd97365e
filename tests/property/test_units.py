"""Random counters and random claims: work equals a plain calculation, and costs add up exactly."""

from __future__ import annotations

from itertools import groupby

import duckdb
from hypothesis import assume, given, settings
from hypothesis.strategies import booleans, integers, lists, none, one_of, sampled_from, tuples

from gpucost.engine import run_stage
from gpucost.periods import Period, from_ms
from gpucost.questions.report.processes import processes as find_processes
from gpucost.questions.units.work import Levels, intervals
from gpucost.store.connection import scratch_store
from tests.replay.work import counter

# increase of a process between two samples; None: it restarted before the sample
steps = lists(one_of(integers(0, 500), none()), min_size=1, max_size=30)


@settings(max_examples=15)
@given(lists(steps, min_size=1, max_size=3), booleans())
def test_increases_match_a_plain_calculation(processes: list[list[int | None]], replicas: bool) -> None:
    with scratch_store() as con:
        expected = _told(con, processes, replicas=replicas)
        find_processes(con, Period(from_ms(0), from_ms(10**9)), ())
        run_stage(con, "gpucost.questions.units", "30_candidates")
        asked_for = {"units": ["request"], "from_ms": 0, "to_ms": 10**9}
        run_stage(con, "gpucost.questions.units", "40_increases", asked_for)
        assert con.execute("SELECT coalesce(sum(amount), 0) FROM unit_increases").fetchall() == [(expected,)]


def _told(con: duckdb.DuckDBPyConnection, processes: list[list[int | None]], *, replicas: bool) -> int:
    import numpy as np

    from gpucost.store.progress import ProgressBatch, load_values

    batch, expected = ProgressBatch(), 0
    for number, grown in enumerate(processes):
        value, values = 7, [7]
        for step in grown:
            before, value = value, 3 if step is None else value + step
            expected += value - before if value >= before else value
            values.append(value)
        # three returns to a former level indicate several processes behind one name (35_processes), not restarts
        levels = [value for value, _ in groupby(values)]
        assume(
            sum(low < one <= high for one, low, high in zip(levels, levels[1:], levels[2:], strict=False)) < 3
        )
        moments = np.arange(len(values), dtype=np.int64) * 60_000
        for replica in range(2 if replicas else 1):
            series = counter("request", f"pod-{number}", labels={"prometheus_replica": str(replica)})
            batch.add(series, moments + replica * 7_000, np.array(values, dtype=float))
    load_values(con, "server", (0, 10**9), batch)
    return expected


levels = lists(tuples(integers(0, 10**6), integers(0, 12)), max_size=25, unique_by=lambda point: point[0])


@given(levels, sampled_from(["begin", "end"]), booleans(), booleans(), booleans())
def test_intervals_cover_a_run_without_gap_or_overlap(
    reached: list[tuple[int, int]], marks: str, from_zero: bool, is_over: bool, failed: bool
) -> None:
    run = Levels(tuple(sorted(reached)), 1000, 900_000, marks, from_zero, is_over, failed=failed)
    found = intervals(run)
    moment = 1000
    for part in found:
        assert part.from_ms == moment
        moment = part.to_ms
    assert moment == 900_000
    last = {}
    for number, part in enumerate(found):
        if part.status == "done" and part.epoch is not None:
            assert part.epoch not in last, "an epoch is done once"
            last[part.epoch] = number
