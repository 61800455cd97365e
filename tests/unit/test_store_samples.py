"""What load_window makes of samples: blocks, states, gaps, and what it leaves out."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pytest

from gpucost.periods import MS_PER_HOUR
from gpucost.store import metrics
from gpucost.store.connection import Store
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
Points = Sequence[tuple[int, float]]
Con = duckdb.DuckDBPyConnection


def answer(*series: tuple[dict[str, str], Points]) -> ReadAnswer:
    index = np.concatenate([np.full(len(points), i, np.int32) for i, (_, points) in enumerate(series)])
    flat = [point for _, points in series for point in points]
    times = np.array([t for t, _ in flat], np.int64)
    return ReadAnswer(
        [labels for labels, _ in series], index, times, np.array([v for _, v in flat], np.float64)
    )


def load(
    con: Con, answers: list[ReadAnswer], hours: tuple[int, int] = (0, 4), idle: float = 5, source: str = "p"
) -> LoadResult:
    start, end = (T0 + hour * MS_PER_HOUR for hour in hours)
    window = SampleWindow(source, 1, start, end, "cluster", "home", {UTIL: Threshold(idle, 0, 100)}, answers)
    return load_window(con, window)


def gpu(uuid: str = "GPU-1", **labels: str) -> dict[str, str]:
    return {"__name__": UTIL, "UUID": uuid, **labels}


def node(name: str = "n1", **labels: str) -> dict[str, str]:
    return {"__name__": "kube_node_info", "node": name, "job": "ksm", "instance": "k:1", **labels}


def every(
    step: int, hours: tuple[float, float], value: float = 1.0, offset: int = 15_000
) -> list[tuple[int, float]]:
    return [
        (T0 + t, value)
        for t in range(int(hours[0] * MS_PER_HOUR) + offset, int(hours[1] * MS_PER_HOUR), step)
    ]


def contents(con: Con) -> list[list[tuple[object, ...]]]:
    tables = ("series", "states", "blocks", "scrape_gaps", "dropped_samples")
    return [con.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in tables]  # noqa: S608


def test_blocks_say_what_plain_python_says(con: Con) -> None:
    rnd = random.Random(4)
    series = []
    for i in range(20):
        times = sorted(rnd.sample(range(0, 3 * MS_PER_HOUR, 5_000), rnd.choice([1, 2, 5, 90])))
        if i % 2:
            times = list(range(i * 1000, 3 * MS_PER_HOUR, 30_000))
        series.append((gpu(f"GPU-{i}"), [(T0 + t, float(rnd.randint(0, 100))) for t in times]))
    load(con, [answer(*series)])
    rows = con.execute(
        "SELECT labels['UUID'], hour, samples, value_sum, idle_samples, idle_threshold, first_offset_ms, step_ms, offsets_ms,"
        " gap_ms, last_offset_ms, last_value, vals FROM blocks JOIN series USING (series_id)"
    ).fetchall()
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
            expected.append(
                (labels["UUID"], 472_222 + hour, len(values), sum(values), idle, 5.0, times[0], step, offsets, median, times[-1],
                 values[-1], values)
            )  # fmt: skip
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_loading_twice_changes_nothing(con: Con) -> None:
    answers = [answer((gpu(), every(MINUTE, (0, 4), 50)), (gpu("GPU-2"), [(T0 + 5, 1.0), (T0 + 9, 150.0)])),
               answer((node(), every(30_000, (0.2, 3.9))))]  # fmt: skip
    load(con, answers)
    before = contents(con)
    assert load(con, answers).new_series == 0
    assert contents(con) == before
    assert con.execute("SELECT count(*) FROM loads").fetchall() == [(2,)]


def test_windows_in_any_order_and_size_give_the_same() -> None:
    points = every(MINUTE, (0, 6), 1.0)
    states = [*every(30_000, (0, 2.5)), *every(30_000, (2.5, 3.1), 0.0), *every(30_000, (4, 6))]
    digests = []
    for cuts in ([(0, 6)], [(0, 2), (2, 4), (4, 6)], [(4, 6), (0, 2), (2, 4)], [(0, 4), (2, 6), (1, 3)]):
        with empty_store() as con:
            for cut in cuts:
                load(con, [answer((gpu(), points)), answer((node(), states))], cut)
            digests.append(contents(con))
    assert all(digest == digests[0] for digest in digests)
    assert sorted(str(row[1]) for row in digests[0][1]) == ["0.0", "1.0", "1.0"]


def test_samples_outside_the_window_and_duplicates_are_left_out(con: Con) -> None:
    points = [(T0 - 1, 9.0), (T0, 10.0), (T0, 10.0), (T0 + MS_PER_HOUR - 1, 20.0), (T0 + MS_PER_HOUR, 30.0)]
    result = load(con, [answer((gpu(), points)), answer((gpu(), points))], (0, 1))
    assert result.rows == 2
    assert con.execute("SELECT vals FROM blocks").fetchall() == [([10.0, 20.0],)]


def test_fewer_samples_do_not_replace_more(con: Con) -> None:
    load(con, [answer((gpu(), every(MINUTE, (0, 1), 50)))], (0, 1))
    load(con, [answer((gpu(), every(2 * MINUTE, (0, 1), 70)))], (0, 1))
    assert con.execute("SELECT samples, last_value FROM blocks").fetchall() == [(60, 50.0)]
    load(con, [answer((gpu(), every(30_000, (0, 1), 70)))], (0, 1))
    assert con.execute("SELECT samples, last_value FROM blocks").fetchall() == [(120, 70.0)]


def test_a_new_threshold_replaces_blocks(con: Con) -> None:
    for idle in (5, 60):
        load(con, [answer((gpu(), every(MINUTE, (0, 1), 50)))], (0, 1), idle)
    assert con.execute("SELECT idle_samples, idle_threshold FROM blocks").fetchall() == [(59, 60.0)]


def test_impossible_values_are_dropped_and_counted(con: Con) -> None:
    blanks = [2147483632.0, 4294967295.0, 9.223372036854776e18, 140737488355328.0, 140737488355331.0]
    wrong = [float("nan"), *blanks, -1.0, 101.0, float("inf")]
    points = [(T0 + i * MINUTE, v) for i, v in enumerate([50.0, *wrong, 60.0])]
    states = [(T0, 1.0), (T0 + MINUTE, float("nan")), (T0 + 2 * MINUTE, 1.7e9)]
    result = load(con, [answer((gpu(), points)), answer((node(), states))], (0, 1))
    assert result.rows == 4
    assert result.dropped == {
        (UTIL, "nan"): 1,
        (UTIL, "sentinel"): 5,
        (UTIL, "out_of_range"): 3,
        ("kube_node_info", "nan"): 1,
    }
    assert con.execute("SELECT vals FROM blocks").fetchall() == [([50.0, 60.0],)]
    load(con, [answer((gpu(), points[:3])), answer((node(), states))], (0, 1))
    dropped = "SELECT source, reason, samples FROM dropped_samples WHERE metric = $$DCGM_FI_DEV_GPU_UTIL$$ ORDER BY 2"
    assert con.execute(dropped).fetchall() == [("p", "nan", 1), ("p", "sentinel", 1)]
    # a series of nothing else is known, but has no block
    assert load(con, [answer((gpu("GPU-2"), [(T0, 2147483632.0)]))]).new_series == 1
    assert con.execute("SELECT count(DISTINCT series_id) FROM blocks").fetchall() == [(1,)]


def test_a_state_is_one_row_until_it_changes_or_falls_silent(con: Con) -> None:
    load(
        con,
        [
            answer(
                (
                    node(),
                    [(T0, 1.0), (T0 + 10 * MINUTE, 1.0), (T0 + 21 * MINUTE, 1.0), (T0 + 22 * MINUTE, 0.0)],
                )
            )
        ],
    )
    spans = con.execute("SELECT value, first_ms, last_ms FROM states ORDER BY first_ms").fetchall()
    assert [(v, (a - T0) // MINUTE, (b - T0) // MINUTE) for v, a, b in spans] == [
        (1, 0, 10),
        (1, 21, 21),
        (0, 22, 22),
    ]


def test_an_answer_that_holds_less_takes_no_states_away(con: Con) -> None:
    load(con, [answer((node(), every(MINUTE, (0, 4))))])
    before = contents(con)
    load(con, [answer((node(), [*every(MINUTE, (0, 1)), *every(MINUTE, (2, 4))]))])
    assert contents(con) == before
    # of what it does hold it is right
    load(
        con, [answer((node(), [*every(MINUTE, (0, 1)), *every(MINUTE, (2, 3), 0.0), *every(MINUTE, (3, 4))]))]
    )
    assert [row[0] for row in con.execute("SELECT value FROM states ORDER BY first_ms").fetchall()] == [
        1,
        0,
        1,
    ]


def test_late_states_win_within_their_span(con: Con) -> None:
    load(con, [answer((node(), every(MINUTE, (0, 4), 1.0, 0)))])
    load(con, [answer((node(), every(MINUTE, (1, 2), 0.0, 0)))], (1, 2))
    spans = con.execute("SELECT value, first_ms, last_ms FROM states ORDER BY first_ms").fetchall()
    hour = [(v, round((a - T0) / MS_PER_HOUR, 1), round((b - T0) / MS_PER_HOUR, 1)) for v, a, b in spans]
    assert hour == [(1, 0, 1), (0, 1, 2), (1, 2, 4)]


def test_clusters_come_from_the_label_or_the_default(con: Con) -> None:
    result = load(
        con,
        [answer((node(), [(T0, 1.0)]), (node("n1", cluster="west"), [(T0 + 9, 1.0)]), (gpu(), [(T0, 1.0)]))],
    )
    assert (result.rows, result.new_series, result.metrics[UTIL].samples) == (3, 3, 1)
    assert (result.metrics["kube_node_info"].first_ms, result.metrics["kube_node_info"].last_ms) == (
        T0,
        T0 + 9,
    )
    assert con.execute(
        "SELECT cluster, labels FROM series WHERE metric = 'kube_node_info' ORDER BY 1"
    ).fetchall() == [
        ("home", {"instance": "k:1", "job": "ksm", "node": "n1"}),
        ("west", {"cluster": "west", "instance": "k:1", "job": "ksm", "node": "n1"}),
    ]


def test_sources_and_labels_tell_series_apart(con: Con) -> None:
    load(con, [answer((gpu(pod=""), every(MINUTE, (0, 1))))])
    assert load(con, [answer((gpu(), every(MINUTE, (0, 1))))]).new_series == 0
    assert load(con, [answer((gpu(pod="a"), every(MINUTE, (0, 1))))]).new_series == 1
    assert load(con, [answer((gpu(), every(MINUTE, (0, 1))))], source="q").new_series == 1


def test_scrape_gaps_are_lower_medians_by_target_and_hour(con: Con) -> None:
    slow, quick = node("n1"), node("n2", instance="k:2")
    load(
        con,
        [answer((slow, every(MINUTE, (0, 2))), (quick, [*every(30_000, (0, 1)), *every(10_000, (1, 1.5))]))],
    )
    assert con.execute(
        "SELECT cluster, job, instance, hour - 472222, gap_ms FROM scrape_gaps ORDER BY ALL"
    ).fetchall() == [
        ("home", "ksm", "k:1", 0, 60_000),
        ("home", "ksm", "k:1", 1, 60_000),
        ("home", "ksm", "k:2", 0, 30_000),
        ("home", "ksm", "k:2", 1, 10_000),
    ]


@pytest.mark.slow
def test_eight_bit_samples_take_less_than_a_byte(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    gpus, hours = 400, 96
    count = hours * 60
    level = np.repeat(
        np.where(rng.random((gpus, hours // 8)) < 0.4, 0, rng.integers(30, 100, (gpus, hours // 8))),
        8 * 60,
        axis=1,
    )
    values = np.where(level == 0, 0, np.clip(level + rng.integers(-6, 7, (gpus, count)), 0, 100)).astype(
        np.float64
    )
    times = T0 + 15_000 + np.arange(count) * MINUTE
    many = ReadAnswer(
        [gpu(f"GPU-{i}") for i in range(gpus)],
        np.repeat(np.arange(gpus, dtype=np.int32), count),
        np.tile(times, gpus),
        values.ravel(),
    )
    store = Store(tmp_path / "s.duckdb")
    with store.write() as con:
        load(con, [many], (0, hours))
    used = store.query(
        "SELECT count(DISTINCT block_id) * 262144 FROM pragma_storage_info('blocks') WHERE block_id >= 0"
    )[1][0][0]
    assert int(str(used)) / many.values.size <= 1.0


def test_labels_that_threads_share_have_the_key_of_each_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread works out a key, others ask for those of the same and of another source: each gets its own."""
    plain = {"__name__": "up", "instance": "a"}
    labels, hashed, others = Labels(plain), metrics.hash64, list[list[int]]()
    keys = {source: series_key(source, plain) for source in "ab"}

    def interrupted(parts: list[str]) -> int:
        key = hashed(parts)
        if len(others) < 3:
            others.append(asked := [])
            asked += [series_key(source, labels) for source in "ab"]
        return key

    monkeypatch.setattr(metrics, "hash64", interrupted)
    assert [series_key(source, labels) for source in "abba"] == [keys[source] for source in "abba"]
    assert others == [list(keys.values())] * 3
