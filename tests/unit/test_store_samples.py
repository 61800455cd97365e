"""load_window turns samples into blocks, states and gaps, and drops invalid ones."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest

from gpucost import attribute as attribution
from gpucost.periods import MS_PER_HOUR
from gpucost.store import metrics, sqlfiles
from gpucost.store.metrics import (
    Labels,
    LoadResult,
    ReadAnswer,
    SampleWindow,
    Threshold,
    load_window,
    series_key,
)
from tests.unit.price_nodes import empty_store

UTIL = "DCGM_FI_DEV_GPU_UTIL"
T0 = 472_222 * MS_PER_HOUR
MINUTE = 60_000
Points = list[tuple[int, float]]
Con = duckdb.DuckDBPyConnection
GPU = {"__name__": UTIL, "UUID": "GPU-1"}
NODE = {"__name__": "kube_node_info", "node": "n1", "job": "ksm", "instance": "k:1"}


def load(
    con: Con,
    *series: tuple[dict[str, str], Points],
    hours: tuple[int, int] = (0, 4),
    idle: float = 5,
    source: str = "p",
) -> LoadResult:
    """A window of hours, with an answer for each series."""
    answers = []
    for labels, points in series:
        times, values = zip(*points, strict=True)
        index = np.zeros(len(points), np.int32)
        answers.append(ReadAnswer([labels], index, np.array(times, np.int64), np.array(values, np.float64)))
    start, end = (T0 + hour * MS_PER_HOUR for hour in hours)
    window = SampleWindow(source, 1, start, end, "cluster", "home", {UTIL: Threshold(idle, 0, 100)}, answers)
    return load_window(con, window)


def every(step: int, start: float, end: float, value: float = 1.0, offset: int = 15_000) -> Points:
    """A sample every `step` ms, between two hours."""
    times = range(int(start * MS_PER_HOUR) + offset, int(end * MS_PER_HOUR), step)
    return [(T0 + time, value) for time in times]


def found(con: Con, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def contents(con: Con) -> list[list[tuple[Any, ...]]]:
    tables = ("series", "states", "blocks", "scrape_gaps", "dropped_samples")
    return [found(con, f"FROM {table} ORDER BY ALL") for table in tables]


def spans(con: Con) -> list[tuple[float, int, int]]:
    """Value, first and last ms of states."""
    states = found(con, "SELECT value, first_ms, last_ms FROM states ORDER BY first_ms")
    return [(value, first - T0, last - T0) for value, first, last in states]


def test_blocks_equal_a_calculation_in_plain_python(con: Con) -> None:
    rnd = random.Random(4)
    series = []
    for i in range(20):
        times = sorted(rnd.sample(range(0, 3 * MS_PER_HOUR, 5_000), rnd.choice([1, 2, 5, 90])))
        if i % 2:
            times = list(range(i * 1000, 3 * MS_PER_HOUR, 30_000))
        series.append((GPU | {"UUID": f"GPU-{i}"}, [(T0 + t, float(rnd.randint(0, 100))) for t in times]))
    load(con, *series)
    rows = found(
        con,
        "SELECT labels['UUID'], hour, samples, value_sum, idle_samples, idle_threshold, first_offset_ms, step_ms, offsets_ms,"
        " gap_ms, last_offset_ms, last_value, vals, idle_ms, value_ms, longest_ms FROM blocks JOIN series USING (series_id)",
    )
    expected = []
    for labels, points in series:
        for hour in range(3):
            inside = [(t - T0 - hour * MS_PER_HOUR, v) for t, v in points if (t - T0) // MS_PER_HOUR == hour]
            if not inside:
                continue
            times, values = [t for t, _ in inside], [v for _, v in inside]
            gaps = [b - a for a, b in pairwise(times)]
            step = gaps[0] if gaps and len(set(gaps)) == 1 else None
            idle = sum(v < 5 for v in values[:-1])
            median = statistics.median_low(gaps) if gaps else None
            offsets = times if step is None else None
            sums: tuple[float | None, ...] = (None, None, None)
            if gaps and step is None:
                pairs = list(zip(gaps, values, strict=False))
                sums = (sum(gap for gap, v in pairs if v < 5), sum(gap * v for gap, v in pairs), max(gaps))
            expected.append(
                (labels["UUID"], 472_222 + hour, len(values), sum(values), idle, 5.0, times[0], step, offsets, median, times[-1],
                 values[-1], values, *sums)
            )  # fmt: skip
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_loading_twice_changes_nothing(con: Con) -> None:
    series = [(GPU, every(MINUTE, 0, 4, 50)), (GPU | {"UUID": "2"}, [(T0 + 5, 1.0), (T0 + 9, 150.0)]),
              (NODE, every(30_000, 0.2, 3.9))]  # fmt: skip
    load(con, *series)
    before = contents(con)
    assert load(con, *series).new_series == 0
    assert contents(con) == before
    assert found(con, "SELECT count(*) FROM loads") == [(2,)]


def test_order_and_size_of_windows_do_not_matter() -> None:
    states = [*every(30_000, 0, 2.5), *every(30_000, 2.5, 3.1, 0.0), *every(30_000, 4, 6)]
    digests = []
    for cuts in ("0-6", "0-2 2-4 4-6", "4-6 0-2 2-4", "0-4 2-6 1-3"):
        with empty_store() as con:
            for start, end in (cut.split("-") for cut in cuts.split()):
                load(con, (GPU, every(MINUTE, 0, 6)), (NODE, states), hours=(int(start), int(end)))
            digests.append(contents(con))
            assert [value for value, *_ in spans(con)] == [1, 0, 1]
    assert all(digest == digests[0] for digest in digests)


def test_duplicates_and_samples_outside_the_window_are_dropped(con: Con) -> None:
    points = [(T0 - 1, 9.0), (T0, 10.0), (T0, 10.0), (T0 + MS_PER_HOUR - 1, 20.0), (T0 + MS_PER_HOUR, 30.0)]
    assert load(con, (GPU, points), (GPU, points), hours=(0, 1)).rows == 2
    assert found(con, "SELECT vals FROM blocks") == [([10.0, 20.0],)]


def test_fewer_samples_do_not_replace_more_but_a_new_threshold_does(con: Con) -> None:
    for step, value, idle, expected in (
        (MINUTE, 50, 5, (60, 50, 0, 5)),
        (2 * MINUTE, 70, 5, (60, 50, 0, 5)),
        (30_000, 70, 5, (120, 70, 0, 5)),
        (30_000, 70, 80, (120, 70, 119, 80)),
    ):
        load(con, (GPU, every(step, 0, 1, value)), hours=(0, 1), idle=idle)
        block = "SELECT samples, last_value, idle_samples, idle_threshold FROM blocks"
        assert found(con, block) == [expected]


def test_another_threshold_gives_the_sums_of_a_load_with_it(con: Con) -> None:
    points = [(T0 + second * 1000, float(second % 90)) for second in (0, 60, 121, 180, 275, 3500)]
    load(con, (GPU, points), (GPU | {"UUID": "2"}, every(MINUTE, 0, 1, 40)))
    con.execute("CREATE TEMP TABLE node_devices AS SELECT series_id, 1.0 AS scale FROM series")
    con.execute("CREATE TEMP TABLE settings AS SELECT 60.0 AS threshold_percent")
    attribution.recount_idle(con, ZoneInfo("UTC"))
    with empty_store() as other:
        load(other, (GPU, points), (GPU | {"UUID": "2"}, every(MINUTE, 0, 1, 40)), idle=60)
        assert found(con, "FROM blocks ORDER BY ALL") == found(other, "FROM blocks ORDER BY ALL")


def test_impossible_values_are_dropped_and_counted(con: Con) -> None:
    blanks = [2147483632.0, 4294967295.0, 9.223372036854776e18, 140737488355328.0, 140737488355331.0]
    wrong = [float("nan"), *blanks, -1.0, 101.0, float("inf")]
    points = [(T0 + i * MINUTE, v) for i, v in enumerate([50.0, *wrong, 60.0])]
    states = [(T0, 1.0), (T0 + MINUTE, float("nan")), (T0 + 2 * MINUTE, 1.7e9)]
    result = load(con, (GPU, points), (NODE, states), hours=(0, 1))
    assert result.rows == 4
    counts = {"nan": 1, "sentinel": 5, "out_of_range": 3}
    assert result.dropped == {(UTIL, why): n for why, n in counts.items()} | {("kube_node_info", "nan"): 1}
    assert found(con, "SELECT vals FROM blocks") == [([50.0, 60.0],)]
    load(con, (GPU, points[:3]), (NODE, states), hours=(0, 1))
    dropped = "SELECT source, reason, samples FROM dropped_samples WHERE metric LIKE 'DCGM%' ORDER BY 2"
    assert found(con, dropped) == [("p", "nan", 1), ("p", "sentinel", 1)]
    # a series with only dropped samples is recorded, but has no block
    assert load(con, (GPU | {"UUID": "GPU-2"}, [(T0, 2147483632.0)])).new_series == 1
    assert found(con, "SELECT count(DISTINCT series_id) FROM blocks") == [(1,)]


def test_invalid_values_have_a_reason() -> None:
    """Kueue reports an infinite limit of a queue without one."""
    values = np.array([0.0, np.nan, 2147483632.0, np.inf, -np.inf, 1e300, 101.0])
    expected: dict[tuple[str, Threshold | None], str] = {
        ("m", None): "- nan sentinel out_of_range out_of_range - -",
        ("kueue_cluster_queue_borrowing_limit", None): "- nan sentinel - out_of_range - -",
        ("m", Threshold(5, 0, 100)): "- nan sentinel out_of_range out_of_range out_of_range out_of_range",
    }
    for (metric, limits), reasons in expected.items():
        found = metrics.reasons_against(metric, values, limits)
        assert " ".join("-" if at == metrics.NONE else metrics.REASONS[at] for at in found) == reasons


def test_dropped_sample_counts_with_the_samples_that_it_represents(con: Con) -> None:
    """Nine NaN in all: the last one represents seven more."""
    ts_ms = np.array([T0, T0 + MINUTE, T0 + 9 * MINUTE])
    values, left_out = np.array([1.0, np.nan, np.nan]), np.array([0, 0, 7], np.int32)
    answer = ReadAnswer([NODE], np.zeros(3, np.int32), ts_ms, values, left_out=left_out)
    window = SampleWindow("p", 1, T0, T0 + MS_PER_HOUR, "cluster", "home", {}, [answer])
    result = load_window(con, window)
    assert (result.rows, result.dropped) == (1, {("kube_node_info", "nan"): 9})


def test_state_is_one_row_until_it_changes_or_stops(con: Con) -> None:
    minutes = ((0, 1.0), (10, 1.0), (21, 1.0), (22, 0.0))
    load(con, (NODE, [(T0 + minute * MINUTE, value) for minute, value in minutes]))
    assert spans(con) == [(1, 0, 600_000), (1, 1_260_000, 1_260_000), (0, 1_320_000, 1_320_000)]


def test_incomplete_answer_removes_no_states(con: Con) -> None:
    load(con, (NODE, every(MINUTE, 0, 4)))
    before = contents(con)
    load(con, (NODE, [*every(MINUTE, 0, 1), *every(MINUTE, 2, 4)]))
    assert contents(con) == before
    # but its samples replace the stored ones
    load(con, (NODE, [*every(MINUTE, 0, 1), *every(MINUTE, 2, 3, 0.0), *every(MINUTE, 3, 4)]))
    assert [value for value, *_ in spans(con)] == [1, 0, 1]


def test_late_states_win_within_their_span(con: Con) -> None:
    load(con, (NODE, every(MINUTE, 0, 4, 1.0, 0)))
    load(con, (NODE, every(MINUTE, 1, 2, 0.0, 0)), hours=(1, 2))
    assert spans(con) == [(1, 0, 3_599_999), (0, 3_600_000, 7_140_000), (1, 7_140_001, 14_340_000)]


def test_cluster_is_the_label_or_the_default(con: Con) -> None:
    west = NODE | {"cluster": "west"}
    result = load(con, (NODE, [(T0, 1.0)]), (west, [(T0 + 9, 1.0)]), (GPU, [(T0, 1.0)]))
    nodes = result.metrics["kube_node_info"]
    assert (result.rows, result.new_series, result.metrics[UTIL].samples) == (3, 3, 1)
    assert (nodes.first_ms, nodes.last_ms) == (T0, T0 + 9)
    labels = {"instance": "k:1", "job": "ksm", "node": "n1"}
    series = found(con, "SELECT cluster, labels FROM series WHERE metric = 'kube_node_info' ORDER BY 1")
    assert series == [("home", labels), ("west", {"cluster": "west", **labels})]


def test_source_and_labels_identify_a_series(con: Con) -> None:
    points = every(MINUTE, 0, 1)
    load(con, (GPU | {"pod": ""}, points))
    assert load(con, (GPU, points)).new_series == 0
    assert load(con, (GPU | {"pod": "a"}, points)).new_series == 1
    assert load(con, (GPU, points), source="q").new_series == 1


def test_scrape_gaps_are_lower_medians_by_target_and_hour(con: Con) -> None:
    quick = [*every(30_000, 0, 1), *every(10_000, 1, 1.5)]
    load(con, (NODE, every(MINUTE, 0, 2)), (NODE | {"node": "n2", "instance": "k:2"}, quick))
    gaps = found(con, "SELECT cluster, job, instance, hour - 472222, gap_ms FROM scrape_gaps ORDER BY ALL")
    assert [" ".join(map(str, gap)) for gap in gaps] == [
        "home ksm k:1 0 60000", "home ksm k:1 1 60000", "home ksm k:2 0 30000", "home ksm k:2 1 10000"
    ]  # fmt: skip


def test_labels_shared_by_threads_have_a_key_per_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread computes a key, others request keys of the same and another source: each gets its own."""
    plain = {"__name__": "up", "instance": "a"}
    labels, hashed, others = Labels(plain), metrics.hash64, list[list[int]]()
    keys = {source: series_key(source, plain) for source in "ab"}

    def interrupted(parts: list[str]) -> int:
        key = hashed(parts)
        if len(others) < 3:
            others.append(requested := [])
            requested += [series_key(source, labels) for source in "ab"]
        return key

    monkeypatch.setattr(metrics, "hash64", interrupted)
    assert [series_key(source, labels) for source in "abba"] == [keys[source] for source in "abba"]
    assert others == [list(keys.values())] * 3


def test_columns_of_a_frame_keep_null_values() -> None:
    columns = {"count": [None, 3], "name": ["a", None], "share": [0.5, None]}
    with duckdb.connect() as con, sqlfiles.frames(con, made=columns):
        assert con.execute("SELECT count, name, share FROM made").fetchall() == [
            (None, "a", 0.5),
            (3, None, None),
        ]
