"""Constant series, from hourly sums and raw samples of the hours that the sums do not prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from gpucost.collect.prometheus.hours import Hours, scrapes
from gpucost.collect.prometheus.queries import Selector
from gpucost.periods import MS_PER_HOUR
from gpucost.store.metrics import ReadAnswer

H = MS_PER_HOUR
SPAN = (0, 2 * H)
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
