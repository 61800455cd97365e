"""Which hours a run collects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from gpucost.collect.base import default_spans, halves, until, whole_hours
from gpucost.collect.prometheus.queries import Selector, among, one_of, selectors
from gpucost.config.model import Activity, ClusterHours, hours_off
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR, Span, intersect, merge, subtract, to_ms
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.text_tables import named_rows

H = MS_PER_HOUR
EDGES = st.integers(0, 40)
SPANS = st.lists(st.tuples(EDGES, EDGES).map(lambda edges: (min(edges), max(edges))), max_size=6)


def instants(spans: list[tuple[int, int]]) -> set[int]:
    return {i for a, b in spans for i in range(a, b)}


@given(spans=SPANS, taken=SPANS)
def test_spans_are_sets_of_instants(spans: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    assert instants(merge(spans)) == instants(spans)
    assert instants(subtract(spans, taken)) == instants(spans) - instants(taken)
    assert instants(intersect(spans, taken)) == instants(spans) & instants(taken)
    assert all(a[1] < b[0] for a, b in pairwise(merge(spans)))


def hours(text: str) -> list[Span]:
    edges = [span.split("-") for span in text.split()]
    return [(int(float(start) * H), int(float(end) * H)) for start, end in edges]


# start of the month and now, queried and loaded hours, and the spans to collect
RUNS = """
first run: the month so far | 10-20.5 | | | 10-20.5
later run: continues with an overlap | 10-30 | 10-20 | 10-20 | 18-30
holes | 10-30 | 10-20 | 10-12 14-20 | 12-14 18-30
a pause over the end of a month leaves no hole | 100-110 | | 10-90 | 88-110
a running hour is repeated | 0-5.1 | | 0-4.7 | 2-5.1"""


@pytest.mark.parametrize(("month_and_now", "requested", "loaded", "spans"), named_rows(RUNS))
def test_default_spans_of_a_run_without_a_period(
    month_and_now: str, requested: str, loaded: str, spans: str
) -> None:
    """All in hours."""
    ((month_start, now),) = hours(month_and_now)
    assert default_spans(month_start, now, hours(requested), hours(loaded)) == hours(spans)


def test_loads_end_at_the_newest_sample_and_a_slow_clock_is_refused() -> None:
    loaded = until(hours("0-3 3-9 9-12"), 5 * H + 9)
    assert merge(loaded) == [(0, 5 * H + 10)]
    assert default_spans(0, 7 * H, hours("0-12"), loaded) == hours("3-7")
    assert default_spans(10 * H, 20 * H, [], [(10 * H, 20 * H + 30)]) == hours("18-20")
    late = r"clock is at 1970-01-01T19:00:00Z, but the store has data up to 1970-01-01T20:29"
    with pytest.raises(SourceError, match=late):
        default_spans(10 * H, 19 * H, [], hours("10-20.5"))


def test_declared_hours_are_local_across_clock_changes() -> None:
    # Friday to Monday over the end of summer time
    berlin = ZoneInfo("Europe/Berlin")
    days = [to_ms(datetime(2026, 10, day, tzinfo=berlin)) for day in (23, 24, 25, 26, 27)]
    week = (days[0], days[4])
    nights = ClusterHours(name="night", hours=["Mon-Fri 22:00-06:00"])
    on = [(days[0], days[0] + 6 * H), (days[0] + 22 * H, days[1] + 6 * H), (days[3] + 22 * H, days[4])]
    assert subtract([week], hours_off(nights, berlin, week)) == on
    lived = ClusterHours.model_validate({"name": "old", "from": "2026-10-24", "until": "2026-10-25T12:00"})
    assert subtract([week], hours_off(lived, berlin, week)) == [(days[1], days[2] + 13 * H)]


# an hour, the number of samples in an answer, and whether the number is settled
COUNTS = """
9    10 no
9.5  10 no
10   10 yes
10.5 11 no
8    11 no
9    11 yes"""


def test_counts_are_settled_an_hour_apart_on_one_clock(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")

    def settled(hour: float, samples: int, *, partial: bool = True) -> list[bool]:
        at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hour)
        with store.write() as con:
            runs.log_answer(con, "p", {7: samples}, at, is_partial=partial)
            return [one.is_settled for one in runs.incomplete_hours(con, "p", 7 * H, 8 * H)]

    # at 10.5 the answer had more samples; at 8 the clock had been ahead
    for hour, samples, expected in map(str.split, COUNTS.strip().splitlines()):
        assert settled(float(hour), int(samples)) == [expected == "yes"]
    assert settled(9.5, 11, partial=False) == []  # a complete answer
    assert store.query("SELECT count(*) FROM asked_hours")[1] == [(1,)]


def test_spans_are_cut_at_full_hours_and_end_by_now() -> None:
    span = [(H + 1, 2 * H + 1)]
    assert whole_hours(span, 2 * H + 30) == [(H, 2 * H + 30)] and whole_hours(span, 9 * H) == hours("1-3")
    assert halves((0, 5 * H)) == hours("0-2 2-5") and halves((0, H)) == hours("0-1")
    assert halves((0, H + 1)) == [(0, H), (H, H + 1)]


def texts(*about: Any) -> list[str]:
    return [selector.text(selector.metric) for selector in selectors(*about)]


def test_each_metric_is_selected_once() -> None:
    plain, split = texts(Activity()), texts(Activity(), "opencost")
    assert len(set(plain)) == len(plain) and len(set(split)) == len(split) == len(plain) + 3
    assert 'DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""}' in plain
    assert not any('=~"cpu|memory' in text for text in plain)
    # unlisted resources are selected too
    assert any(text.startswith('kube_pod_container_resource_requests{resource!~"') for text in plain)
    assert 'kube_pod_container_resource_requests{resource=~"cpu|memory"}' in split
    own = texts(Activity(device_metric="DCGM_FI_PROF_GR_ENGINE_ACTIVE", device_scale=100))
    nvidia = [text for text in own if text.startswith("DCGM_FI_PROF")]
    assert nvidia == ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"]


def test_selectors_handle_spellings_quoting_bounds_and_shards() -> None:
    device = next(one for one in selectors(Activity()) if one.metric == "DCGM_FI_DEV_GPU_UTIL")
    assert device.spelled({"dcgm_fi_dev_gpu_util"}) == ["dcgm_fi_dev_gpu_util"]
    assert device.spelled({"up"}) == []
    assert "DCGM_FI_DEV_GPU_UTIL" in device.spelled(None)
    pods = Selector("kube_pod_info", (), "pods", "uid")
    assert among(pods, "namespace", ["b", "a.b"]).text("x") == r'x{namespace=~"a\\.b|b"}'
    assert one_of("a", ["x.y", 'q"b\\', "n\nl"]) == 'a=~"x\\\\.y|q\\"b\\\\\\\\|n\\\\\\nl"'
    assert among(pods, "namespace", [f"n{i}" for i in range(1000)]) == pods
    shards = Selector("m", ('a="b"',), "pods", "uid").shards()
    assert len(shards) == 17
    assert shards[0].text("m") == 'm{a="b",uid=~"(?i).*0"}'
