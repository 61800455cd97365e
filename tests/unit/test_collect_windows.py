"""Which hours a run collects."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpucost.collect.base import GROUP, Collector, collectors
from gpucost.collect.prometheus_selectors import Selector, among, selectors
from gpucost.collect.windows import default_spans, halves, merge, subtract, whole_hours
from gpucost.config import Activity
from gpucost.model import MS_PER_HOUR

H = MS_PER_HOUR
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda p: (min(p), max(p))), max_size=6)


def instants(spans: list[tuple[int, int]]) -> set[int]:
    return {i for a, b in spans for i in range(a, b)}


@given(spans=SPANS, taken=SPANS)
def test_spans_are_sets_of_instants(spans: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    assert instants(merge(spans)) == instants(spans)
    assert instants(subtract(spans, taken)) == instants(spans) - instants(taken)
    assert all(a[1] < b[0] for a, b in pairwise(merge(spans)))


def test_the_first_run_takes_the_month_so_far() -> None:
    assert default_spans(10 * H, 20 * H + 5, [], []) == [(10 * H, 20 * H + 5)]


def test_later_runs_go_on_from_the_last_moment_less_an_overlap() -> None:
    assert default_spans(10 * H, 30 * H, [(10 * H, 20 * H)], [(10 * H, 20 * H)]) == [(18 * H, 30 * H)]


def test_holes_are_filled() -> None:
    loaded = [(10 * H, 12 * H), (14 * H, 20 * H)]
    assert default_spans(10 * H, 30 * H, [(10 * H, 20 * H)], loaded) == [(12 * H, 14 * H), (18 * H, 30 * H)]


def test_a_pause_over_the_turn_of_a_month_leaves_no_hole() -> None:
    assert default_spans(100 * H, 110 * H, [], [(10 * H, 90 * H)]) == [(88 * H, 110 * H)]


def test_a_running_hour_is_taken_up_again() -> None:
    assert default_spans(0, 5 * H + 10, [], [(0, 4 * H + 7)]) == [(2 * H, 5 * H + 10)]


def test_whole_hours_never_reach_into_the_future() -> None:
    assert whole_hours([(H + 1, 2 * H + 1)], 2 * H + 30) == [(H, 2 * H + 30)]
    assert whole_hours([(H + 1, 2 * H + 1)], 9 * H) == [(H, 3 * H)]


def test_halves_end_at_full_hours() -> None:
    assert halves((0, 5 * H)) == [(0, 2 * H), (2 * H, 5 * H)]
    assert halves((0, H)) == [(0, H)]
    assert halves((0, H + 1)) == [(0, H), (H, H + 1)]


def test_selectors_ask_for_each_metric_once() -> None:
    found = selectors(Activity())
    texts = [s.text(s.metric) for s in found]
    assert len(set(texts)) == len(texts)
    assert 'DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""}' in texts
    assert not any('=~"cpu|memory' in text for text in texts)
    # what no table lists is asked for, too
    assert any(text.startswith('kube_pod_container_resource_requests{resource!~"cpu|memory|') for text in texts)
    split = [s.text(s.metric) for s in selectors(Activity(), "opencost")]
    assert 'kube_pod_container_resource_requests{resource=~"cpu|memory"}' in split and len(set(split)) == len(texts) + 3
    same = Activity(device_metric="DCGM_FI_PROF_GR_ENGINE_ACTIVE", device_scale=100)
    assert sum(s.scope == "activity" for s in selectors(same)) == 1


def test_other_spellings_are_found() -> None:
    device = selectors(Activity())[0]
    assert device.spelled({"dcgm_gpu_utilization", "up"}) == ["dcgm_gpu_utilization"]
    assert device.spelled({"dcgm_fi_dev_gpu_util"}) == ["dcgm_fi_dev_gpu_util"]
    assert device.spelled({"up"}) == []
    assert "DCGM_FI_DEV_GPU_UTIL" in device.spelled(None)


def test_namespaces_are_quoted_and_bounded() -> None:
    pods = Selector("kube_pod_info", (), "pods", "uid")
    assert among(pods, "namespace", ["b", "a.b"]).text("x") == r'x{namespace=~"a\\.b|b"}'
    assert among(pods, "namespace", [f"n{i}" for i in range(1000)]) == pods


def test_shards_cover_a_selector() -> None:
    shards = Selector("m", ('a="b"',), "pods", "uid").shards()
    assert len(shards) == 17
    assert shards[0].text("m") == 'm{a="b",uid=~"(?i).*0"}'


def test_all_collectors_are_registered() -> None:
    folder = Path(__file__).parents[2] / "gpucost" / "collect"
    files = [file for file in folder.rglob("*.py") if "(Collector[" in file.read_text()]
    modules = {".".join(file.relative_to(folder.parents[1]).with_suffix("").parts) for file in files}
    project = tomllib.loads((folder.parents[1] / "pyproject.toml").read_text())["project"]
    declared = [EntryPoint(name, value, GROUP) for name, value in project["entry-points"][GROUP].items()]
    assert modules == {entry.module for entry in declared}
    for entry in declared:
        collector = entry.load()
        assert issubclass(collector, Collector) and collector.kind == entry.name
    for kind, collector in collectors().items():  # empty where the package is not installed
        assert collector.kind == kind
    assert len(Collector.__abstractmethods__) <= 2
