"""A pod that was deleted, and its successor bound seconds later: nothing is held twice, and no over-allocation is reported.

Scraped at full minutes: the last sample of a pod deleted at 02:00:30 is at 02:00, so it is known to end by 02:01.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.scrape import scrape
from tests.services.test_hard_cases import HOURS, Answers
from tests.side_by_side import Scene, Scenes

LAST = 2 + 30 / 3600
BOUND = 2 + 40 / 3600
scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with scene.start(tmp_path_factory.mktemp("scenes"), Answers, hours=HOURS) as answers:
        yield answers


def deleted(name: str, numbers: list[Any], **more: Any) -> dict[str, Any]:
    """A pod of which no end is exported."""
    return pod(name, "w", numbers, 0, LAST, completes=False, keep_until=at(LAST), uid=more.pop("uid", name), **more)


def hours(answers: Answers) -> dict[str, Fraction]:
    """GPU-seconds by uid."""
    return {key[3]: Fraction(of.allocated_gpu_hours) * 3600 for key, of in answers.pods().items()}


def is_exact(answers: Answers) -> bool:
    return answers.total("over_allocated_gpu_hours") == [0] and not answers.warnings("over_allocated")


@scene(("db-0", "db-0"), ("api-7d4f-x2x", "api-7d4f-k9p"))
def test_end_of_a_deleted_pod_gives_way_to_its_successor(before: str, after: str) -> Scene:
    pods = [deleted(before, [0], uid="first"), pod(after, "w", [0], BOUND, 4, uid="second")]
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS)], pods, {})
    answers = yield described, scrape(described, lean=True)
    assert hours(answers) == {"first": 2 * 3600 + 40, "second": 2 * 3600 - 40}
    assert is_exact(answers)
    assert sum(of.cost for of in answers.pods().values()) == pytest.approx(Fraction("4.8"))


@scene()
def test_estimated_end_stays_where_the_node_has_room() -> Scene:
    pods = [deleted("first", [0]), pod("second", "w", [1], BOUND, 4, uid="second")]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, {})
    answers = yield described, scrape(described, lean=True)
    assert hours(answers) == {"first": 2 * 3600 + 60, "second": 2 * 3600 - 40}


@scene()
def test_several_ends_give_way_to_several_successors() -> Scene:
    """Of four GPUs two pods of one each and one of two are deleted; three come at 02:00:40 and 02:00:50, one finds room."""
    late = BOUND + 10 / 3600
    pods = [
        *(deleted(name, [number]) for number, name in enumerate("ab")),
        deleted("c", [2, 3]),
        pod("d", "w", [0], BOUND, 4, uid="d"),
        pod("e", "w", [1], late, 4, uid="e"),
        pod("f", "w", [2, 3], late, 4, uid="f"),
    ]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, {})
    answers = yield described, scrape(described, lean=True)
    assert hours(answers) == {
        "a": 7240, "b": 7250, "c": 2 * 7250, "d": 7160, "e": 7150, "f": 2 * 7150
    }  # fmt: skip
    assert is_exact(answers)


@scene()
def test_end_of_a_slice_gives_way() -> Scene:
    slices = [{"gi": 7 + i, "profile": "1g.10gb"} for i in range(7)]
    resource = {"resource": "nvidia_com_mig_1g_10gb"}
    pods = [
        *(pod(f"stays-{gi}", "w", [(0, gi)], 0, HOURS, uid=f"stays-{gi}", **resource) for gi in range(8, 14)),
        deleted("first", [(0, 7)], **resource),
        pod("second", "w", [(0, 7)], BOUND, HOURS, uid="second", **resource),
    ]
    where = node("w", "Standard_NC24ads_A100_v4", 0, HOURS, mig={"GPU-w-0": slices})
    described = fleet(HOURS, [where], pods, {})
    answers = yield described, scrape(described, lean=True)
    held = hours(answers)
    assert [float(held[uid] * 7) for uid in ("first", "second")] == pytest.approx([7240, 5 * 3600 - 7240])
    assert is_exact(answers)


@scene()
def test_end_of_a_slot_gives_way() -> Scene:
    pods = [
        *(pod(f"stays-{number}", "w", [0], 0, HOURS, uid=f"stays-{number}") for number in range(3)),
        deleted("first", [0]),
        pod("second", "w", [0], BOUND, HOURS, uid="second"),
    ]
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS, replicas=4)], pods, {})
    answers = yield described, scrape(described, lean=True)
    held = hours(answers)
    assert [held[uid] * 4 for uid in ("first", "second")] == [7240, 5 * 3600 - 7240]
    assert is_exact(answers)


@scene((30, False), (60, True))
def test_over_allocation_is_reported_from_one_scrape_interval_on(seconds: int, is_reported: bool) -> Scene:
    """Both ends are exported: the pods overlap by so many seconds, as their clocks have it."""
    pods = [pod("first", "w", [0], 0, 2 + seconds / 3600, uid="first"), pod("second", "w", [0], 2, 4, uid="second")]
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS)], pods, {})
    answers = yield described, scrape(described, lean=True)
    assert answers.total("over_allocated_gpu_hours") == [pytest.approx(seconds / 3600)]
    messages = answers.warnings("over_allocated")
    assert [("2026-03-10T02:00Z" in text, "node w " in text) for text in messages] == [(True, True)] * is_reported
