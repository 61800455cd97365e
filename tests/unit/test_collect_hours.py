"""Constant series, from hourly sums and raw samples of the hours that the sums do not prove."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from gpucost.collect.prometheus.hours import Hours, scrapes, speakers
from gpucost.collect.prometheus.queries import Selector
from gpucost.periods import MS_PER_HOUR
from gpucost.store.metrics import ReadAnswer, SampleWindow, load_window
from tests.unit.price_nodes import empty_store

H = MS_PER_HOUR
SPAN = (0, 2 * H)
LATE = (480_000 * H, 480_003 * H)
TARGET = {"job": "ksm", "instance": "k:8080"}


def answer(samples: Mapping[str, Sequence[tuple[int, float]]], metric: str = "kube_pod_info") -> ReadAnswer:
    """Samples by pod: minutes and values."""
    rows = [
        (position, minute * 60_000, value)
        for position, pairs in enumerate(samples.values())
        for minute, value in pairs
    ]
    index, ts_ms, values = map(np.array, zip(*rows, strict=True))
    series = [{"__name__": metric, "pod": pod, **TARGET} for pod in samples]
    return ReadAnswer(series, index.astype(np.int32), ts_ms.astype(np.int64), values.astype(np.float64))


def hourly(*sums: float) -> list[tuple[int, float]]:
    return [(60 * hour + 59, value) for hour, value in enumerate(sums) if value]


def at(*minutes: int) -> list[tuple[int, float]]:
    return [(minute, 1.0) for minute in minutes]


def test_hour_that_its_sum_does_not_prove_has_exactly_its_raw_samples() -> None:
    node_info = partial(answer, metric="kube_node_info")
    known = scrapes(node_info({"ksm": hourly(2, 2)}), [node_info({"ksm": at(10, 40, 70, 100)})], SPAN)
    sums = answer({"whole": hourly(2, 2), "ended": hourly(2, 1), "late": hourly(0, 1)})
    ones = np.ones(len(sums.values))
    selector = Selector("kube_pod_info", shard_label="pod")
    hours = Hours(known, "http://p", selector, selector.metric, sums, ones, ones)
    assert hours.unproven() == {1: {"ended", "late"}}
    hours.read([answer({"late": at(130), "newest": at(130)})])
    # series of the whole hour, and of pods without a sum, may be in the answer too
    raw = {"whole": at(70, 100), "ended": at(70), "late": at(100), "foreign": at(70)}
    hours.read([answer(raw)], 1)
    found = hours.answer()
    assert [labels["pod"] for labels in found.series] == ["whole", "ended", "late", "newest"]
    minutes = [(found.ts_ms[found.series_index == position] // 60_000).tolist() for position in range(4)]
    assert minutes == [[10, 40, 70, 100], [10, 40, 70], [100, 130], [130]]


Points = dict[tuple[str, str], list[tuple[int, float]]]


def raw(metric: str, points: Points) -> ReadAnswer:
    """All samples, by target and object: moments and values."""
    label = "node" if metric == "kube_node_info" else "pod"
    series = [{"__name__": metric, "job": "ksm", "instance": target, label: name} for target, name in points]
    rows = [(at, *point) for at, several in enumerate(points.values()) for point in several]
    index, ts_ms, values = map(np.array, zip(*rows, strict=True))
    return ReadAnswer(series, index.astype(np.int32), ts_ms, values.astype(np.float64))


def summed(samples: ReadAnswer) -> ReadAnswer:
    """The sum of values by series and hour of the span, at the last millisecond of the hour."""
    sums: dict[tuple[int, int], float] = defaultdict(float)
    columns = (samples.series_index.tolist(), samples.ts_ms.tolist(), samples.values.tolist())
    for at, ts_ms, value in zip(*columns, strict=True):
        if ts_ms < LATE[1]:
            sums[at, ts_ms // H * H + H - 1] += value
    index, moments = map(np.array, zip(*sums, strict=True))
    return ReadAnswer(samples.series, index.astype(np.int32), moments, np.array([*sums.values()]))


def test_hourly_sums_and_some_samples_are_stored_like_all_samples() -> None:
    """Uneven scrapes, scrapes at the start of the span, and a target with one at the end of an hour.

    Servers disagree about that moment, so all hours of this target are unproven.
    """
    times = {
        "c": [LATE[0] + 45_000 * at - (at == 160) for at in range(260)],
        "a": [LATE[0] + 13_000 + 60_000 * at + (at * 7919) % 31 for at in range(200)],
        "b": [LATE[0] + 30_000 * at for at in range(400) if at % 97 < 80],
    }
    nodes: Points = {}
    pods: Points = {}
    for target, moments in times.items():
        # only two nodes together have all scrapes
        for node, start, end in (("short", 0.2, 0.7), ("first", 0, 2.1), ("last", 1.6, 4)):
            alive = (moment for moment in moments if start * H <= moment - LATE[0] < end * H)
            nodes[target, node] = [(moment, 1.0) for moment in alive]
        for number, (start, end) in enumerate(((0, 400), (0, 150), (70, 400), (70, 71), (20, 130))):
            pods[target, f"{target}{number}"] = [(moment, 0.1 + number) for moment in moments[start:end]]
    of_nodes, of_pods = raw("kube_node_info", nodes), raw("m", pods)
    counts = summed(of_nodes)
    assert speakers(counts, LATE) == {"first", "last"}
    known = scrapes(counts, [of_nodes.only(of_nodes.series_index % 3 > 0)], LATE)
    sums = summed(of_pods)
    unit = sums.series_index % 5 + 0.1
    hours = Hours(known, "p", Selector("m", shard_label="pod"), "m", sums, unit, unit)
    hours.read([of_pods])
    unproven = hours.unproven()
    expected = ["a4 b2 b3 b4 c0 c1 c2 c3 c4", "a2 a3 b1 b4 c0 c1 c2 c4", "a1 a4 c0 c2"]
    assert unproven == {hour: {*names.split()} for hour, names in enumerate(expected)}
    for hour in unproven:
        hours.read([of_pods], hour)
    stored = []
    for samples in (of_pods, hours.answer()):
        with empty_store() as con:
            window = SampleWindow("p", 1, LATE[0], LATE[1] + H, "cluster", "c", {}, [samples])
            rows = load_window(con, window).rows
            tables = [
                con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in ("states", "scrape_gaps")
            ]
            stored.append([rows, tables])
    assert stored[0] == stored[1] and len(hours.answer().ts_ms) < len(of_pods.ts_ms)
