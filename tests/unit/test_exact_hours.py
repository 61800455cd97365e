"""Small fleets whose every figure was worked out by hand, to the millisecond and the ninth decimal: no slack hides a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.edits import relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.result import by_pod
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.side_by_side import Scene, Scenes

HOURS = 5


BOOK = [
    ",,,g6.12xlarge,on_demand,4.80,USD,",
    ",,,g5.xlarge,on_demand,1.20,USD,",
    ",,,Standard_NC24ads_A100_v4,on_demand,1.00,USD,",
]
scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What scenes are sent: a function from two hours to the figures of each pod between them."""

    def figures(_: Config, store: Store, cluster: str) -> Callable[[float, float], dict[str, Figures]]:
        return lambda start, end: {key[2]: of for key, of in by_pod(store, at(start) * 1000, at(end) * 1000, cluster).items()}

    with scene.start(tmp_path_factory.mktemp("scenes"), figures, BOOK, HOURS) as answers:
        yield answers


def scraped(described: Fleet) -> tuple[Fleet, list[Series]]:
    return described, scrape(described, lean=True)


@scene()
def test_a_whole_hour_that_is_idle_in_part() -> Scene:
    """Sampled at full minutes, active in 21 of 60: 21 minutes active and 39 idle in each hour, of $4.80 / 4."""
    util = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, 77] for hour in range(HOURS)]}
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], [pod("a", "w", [0], 0, HOURS)], util)
    figures = yield scraped(described)
    for hour in (1, 2, 3):
        a = figures(hour, hour + 1)["a"]
        assert (a.allocated_gpu_hours, a.unmeasured_gpu_hours) == (1, 0)
        assert (a.active_gpu_hours, a.idle_gpu_hours) == (Fraction(21, 60), Fraction(39, 60))
        assert (a.cost, a.idle_cost) == (Fraction("1.2"), Fraction("0.78"))


@scene()
def test_a_sample_before_a_gap_speaks_for_one_interval() -> Scene:
    """A pod holds a GPU from 02:15; the exporter is silent after 02:30 for 2 and after 02:40 for 4 minutes: only the 4 are a gap.

    45 minutes held, of which 02:41-02:44 has no sample.
    """
    silent = [["w", at(2) + 30 * 60 + 1, at(2) + 32 * 60], ["w", at(2) + 40 * 60 + 1, at(2) + 44 * 60]]
    nodes, pods = [node("w", "g6.12xlarge", 0, HOURS)], [pod("a", "w", [0], 2.25, HOURS)]
    figures = yield scraped(fleet(HOURS, nodes, pods, busy("w", [0], 0, HOURS), silent=silent))
    a = figures(2, 3)["a"]
    assert (a.allocated_gpu_hours, a.active_gpu_hours, a.unmeasured_gpu_hours) == (
        Fraction(3, 4),
        Fraction(42, 60),
        Fraction(3, 60),
    )


@scene()
def test_a_gap_across_the_edge_of_whole_hours() -> Scene:
    """Silent after 01:59 for 2 minutes, which is no gap, and after 02:58 for 4: 02:59-03:02 is unmeasured, 1 and 2 minutes."""
    silent = [["w", at(2) - 59, at(2) + 60], ["w", at(3) - 119, at(3) + 120]]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], [pod("a", "w", [0], 0, HOURS)], {}, silent=silent)
    figures = yield scraped(described)
    measured = [figures(hour, hour + 1)["a"] for hour in range(1, 4)]
    assert [60 * a.idle_gpu_hours for a in measured] == [60, 59, 58]
    assert [60 * a.unmeasured_gpu_hours for a in measured] == [0, 1, 2]


@scene()
def test_a_pod_on_an_unlabeled_device_has_the_activity_of_its_own_minutes() -> Scene:
    """Held 01:15-02:45 of a GPU that is active in the first 21 minutes of each hour, also while nobody holds it: 6, and 21."""
    util = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, 77] for hour in range(HOURS)]}
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS)], [pod("a", "w", [0], 1.25, 2.75)], util)
    nameless = {f"{prefix}{label}": None for prefix in ("", "exported_") for label in ("namespace", "pod", "container")}
    figures = yield described, relabel(scrape(described, lean=True), "DCGM_.*", nameless)
    held = [figures(hour, hour + 1)["a"] for hour in (1, 2)]
    assert [(60 * a.active_gpu_hours, 60 * a.idle_gpu_hours, a.unmeasured_gpu_hours) for a in held] == [(6, 39, 0), (21, 24, 0)]
    assert [a.idle_cost for a in held] == [Fraction("0.78"), Fraction("0.48")]


@scene()
def test_equal_hours_cost_alike_up_to_the_minute_that_one_changes() -> Scene:
    """Of $4.80 for four GPUs one is held all day, another until 03:20: $1.20 and, in its last hour, $0.40."""
    pods = [pod("a", "w", [0], 0, HOURS), pod("b", "w", [1], 0, 3 + 1 / 3)]
    figures = yield scraped(fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, busy("w", [0, 1], 0, HOURS)))
    hours = [figures(hour, hour + 1) for hour in (1, 2, 3)]
    assert [(of["a"].cost, of["b"].cost) for of in hours] == [(Fraction("1.2"), Fraction(b)) for b in ("1.2", "1.2", "0.4")]
    assert "b" not in figures(4, 5) and figures(4, 5)["a"].cost == Fraction("1.2")


@scene()
def test_a_slot_is_cut_by_what_the_node_offers_at_last() -> Scene:
    """A device plugin offers one GPU at first and four slots of it later; a label tells of slots, but not how many: a quarter."""
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS)], [pod("a", "w", [0], 2, HOURS)], busy("w", [0], 0, HOURS))
    plain = {"resource": "nvidia_com_gpu"}
    series = revalue(scrape(described, lean=True), "kube_node_status_.*", 4, plain, (1, HOURS))
    shared = {"label_nvidia_com_gpu_replicas": None, "label_nvidia_com_gpu_sharing_strategy": "time-slicing"}
    figures = yield described, relabel(series, "kube_node_labels", shared)
    a = figures(3, 4)["a"]
    assert (a.allocated_gpu_hours, a.active_gpu_hours, a.cost) == (Fraction(1, 4), Fraction(1, 4), Fraction("0.3"))


@scene()
def test_more_held_than_there_is() -> Scene:
    """Five GPUs held on a node of four: hours stay, each holder pays four fifths of $4.80 / 4 a GPU."""
    pods = [pod("a", "w", [0, 1], 0, HOURS), pod("b", "w", [1, 2, 3], 0, HOURS)]
    figures = yield scraped(fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, {}))
    figures_of = figures(2, 3)
    assert (figures_of["a"].allocated_gpu_hours, figures_of["a"].cost) == (2, Fraction("1.92"))
    assert (figures_of["b"].allocated_gpu_hours, figures_of["b"].cost) == (3, Fraction("2.88"))


@scene()
def test_what_rounding_leaves_goes_to_the_largest_share() -> Scene:
    """$1 in sevenths: 0.142857143 + 0.285714286 + 0.428571429, and a seventh that nobody holds, are 1.000000001."""
    parts = {1: (7, "1g.10gb"), 2: (3, "2g.20gb"), 3: (1, "3g.40gb")}
    mig = {"GPU-w-0": [{"gi": gi, "profile": profile} for gi, profile in parts.values()]}
    pods = [
        pod(str(size), "w", [(0, gi)], 0, HOURS, resource="nvidia_com_mig_" + profile.replace(".", "_"))
        for size, (gi, profile) in parts.items()
    ]
    figures = yield scraped(fleet(HOURS, [node("w", "Standard_NC24ads_A100_v4", 0, HOURS, mig=mig)], pods, {}))
    figures_of = figures(2, 3)
    assert [figures_of[str(size)].cost for size in parts] == [Fraction(x) for x in ("0.142857143", "0.285714286", "0.428571428")]


@scene()
def test_of_equal_shares_the_smallest_uid_takes_what_rounding_leaves() -> Scene:
    """$1 for seven pods that hold a seventh each: 7 x 0.142857143 is 1.000000001."""
    mig = {"GPU-w-0": [{"gi": gi, "profile": "1g.10gb"} for gi in range(7, 14)]}
    pods = [pod(f"p{n}", "w", [(0, 13 - n)], 0, HOURS, uid=f"u{9 - n}", resource="nvidia_com_mig_1g_10gb") for n in range(7)]
    figures = yield scraped(fleet(HOURS, [node("w", "Standard_NC24ads_A100_v4", 0, HOURS, mig=mig)], pods, {}))
    figures_of = figures(2, 3)
    assert {name for name, one in figures_of.items() if one.cost == Fraction("0.142857142")} == {"p6"}
    assert sum(one.cost for one in figures_of.values()) == 1
