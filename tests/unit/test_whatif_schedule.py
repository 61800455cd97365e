"""Scaling to zero: the calculator's figures, office hours, and the replay of a timeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpucost.errors import UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif import schedule
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage
from gpucost.whatif.schedule import OfficeHours, Piece, Replay, Rules, intersect, pieces, replay, subtract
from tests.unit.whatif_costs import ask

H = MS_PER_HOUR
MINUTE = 60_000
NODE = Node("n", 8, 0, 100 * H, (Price(Decimal(10), "option"),))

pytestmark = pytest.mark.usefixtures("nowhere")


def pod(uid: str, begin: float, end: float, gpus: float = 8, workload: str = "Job/train") -> Pod:
    return Pod("n", workload, gpus, round(begin * H), round(end * H), uid=uid)


def whole(*pods: Pod) -> list[Piece]:
    return [Piece(p, p.from_ms, p.to_ms, False) for p in pods]


GOLDEN = "--nodes 8 --on-demand-price 32.77 --active-hours-per-day 10 --days 30"


@pytest.mark.parametrize(
    ("more", "scenario", "percent"), [("", 78_648.00, 58.9), ("--spot-price 12.50", 30_000.00, 84.3)]
)
def test_scale_to_zero(more: str, scenario: float, percent: float) -> None:
    answer = ask("schedule", f"{GOLDEN} {more}")
    assert answer["today"]["cost"] == 191_376.80
    assert answer["scenario"]["cost"] == scenario
    assert round(answer["saving_percent"], 1) == percent
    assert answer["today"]["node_hours"] == 8 * 730 and answer["scenario"]["node_hours"] == 8 * 300


def test_provisioning_is_paid_and_waited_for() -> None:
    answer = ask("schedule", f"{GOLDEN} --provision-minutes 6")
    assert answer["scenario"]["node_hours"] == pytest.approx(8 * (300 + 30 * 0.1))
    assert (answer["waits"], answer["longest_wait_minutes"]) == (240, 6)


def test_office_hours_are_local_and_clocks_change() -> None:
    # Friday to Monday over the end of summer time
    period = Period(datetime(2026, 10, 22, 22, tzinfo=UTC), datetime(2026, 10, 26, 23, tzinfo=UTC))
    spans = OfficeHours.parse("08:00-18:00", "mon-fri").spans(period, ZoneInfo("Europe/Berlin"))
    assert [(datetime.fromtimestamp(begin / 1000, UTC).hour, (end - begin) / H) for begin, end in spans] == [
        (6, 10),
        (7, 10),
    ]
    # past midnight
    period = Period(datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC))
    spans = OfficeHours.parse("22:00-06:00", "fri").spans(period, ZoneInfo("UTC"))
    assert [(end - begin) / H for begin, end in spans] == [6]


@pytest.mark.parametrize("text", ["08:00-08:00", "25:00-26:00", "08:60-09:00", "morning"])
def test_office_hours_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        OfficeHours.parse(text, "mon-fri")


@pytest.mark.parametrize(
    ("rules", "workload", "expected"),
    [
        (Rules(idle_minutes=30), "Job/train", [(0, 2.5, False), (4, 10, True)]),
        (Rules(notebook_idle_minutes=30), "StatefulSet/jupyter-eve", [(0, 2.5, False), (4, 10, True)]),
        (Rules(notebook_idle_minutes=30), "Job/train", [(0, 10, False)]),
        # office hours leave batch work alone
        (Rules(office=((3 * H, 8 * H),)), "Job/train", [(0, 10, False)]),
        (Rules(office=((3 * H, 8 * H),)), "Deployment/api", [(3, 8, True)]),
    ],
)
def test_what_rules_leave_a_pod(
    rules: Rules, workload: str, expected: list[tuple[float, float, bool]]
) -> None:
    left = pieces(pod("a", 0, 10, workload=workload), rules, [(2 * H, 4 * H), (6 * H, 6 * H + 20 * MINUTE)])
    assert [(p.from_ms / H, p.to_ms / H, p.returns) for p in left] == expected


def played(*pods: Pod, node: Node = NODE, **minutes: float) -> Replay:
    return replay(Fleet((node,), pods), whole(*pods), Rules(**minutes), remove_nodes=True)


def test_an_empty_node_is_removed_and_provisioned_again() -> None:
    result = played(pod("a", 0, 10), pod("b", 50, 60), empty_minutes=30, provision_minutes=6)
    assert [(n.from_ms / H, n.to_ms / H) for n in result.fleet.nodes] == [(0, 10.5), (50, 60.6)]
    assert [(w.pod.uid, round(w.hours * 60, 6)) for w in result.waits] == [("b", 6)]
    # the job's work takes as long as it did; what serves ends when it did
    assert [(p.from_ms / H, p.to_ms / H) for p in result.fleet.pods] == [(0, 10), (50.1, 60.1)]
    serving = played(pod("a", 0, 10), pod("b", 50, 60, workload="Deployment/api"), provision_minutes=6)
    assert serving.fleet.pods[-1].to_ms == 60 * H


@pytest.mark.parametrize("capacity_type", ["reserved", "capacity_block"])
def test_nodes_that_are_paid_anyway_stay(capacity_type: str) -> None:
    node = replace(NODE, capacity_type=capacity_type)
    assert played(node=node).fleet.nodes == (node,)


def test_work_that_moved_waits_for_gpus() -> None:
    """A job that starts late holds its GPUs longer, and the next one waits for them: no node ever holds more than it has."""
    pods = played(pod("a", 0, 10), pod("b", 50, 60), pod("c", 60, 70), provision_minutes=30).fleet.pods
    assert [(p.from_ms / H, p.to_ms / H) for p in pods] == [(0, 10), (50.5, 60.5), (60.5, 70.5)]


def test_narrowed_to_some_pods_nodes_stay_and_others_cost_is_left_out() -> None:
    fleet = Fleet((NODE,), (pod("a", 0, 50, gpus=2, workload="StatefulSet/jupyter-eve"),))
    usage, rules = Usage(fleet, "USD", "test", "eve", is_narrowed=True), Rules(notebook_idle_minutes=60)
    idle = {("default", "a"): ((10 * H, 40 * H),)}
    answer = schedule.answer(usage, rules, schedule.played(usage, rules, idle), idle)
    assert answer.today.cost == Decimal(50 * 10) * 2 / 8
    assert answer.scenario.cost == Decimal(50 - 29) * 10 * 2 / 8
    assert answer.figures["waits"] == 1


spans = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20)), max_size=6).map(
    lambda pairs: [(b, b + d) for b, d in sorted(pairs)]
)


def _apart(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    left: list[tuple[int, int]] = []
    for begin, end in pairs:
        if not left or begin > left[-1][1]:
            left.append((begin, end))
    return left


@given(spans, spans)
def test_intersection_and_difference_add_up(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    one, other = _apart(a), _apart(b)
    inside = {t for begin, end in intersect(one, other) for t in range(begin, end)}
    outside = {t for begin, end in subtract(one, other) for t in range(begin, end)}
    every = {t for begin, end in one for t in range(begin, end)}
    assert inside | outside == every and not inside & outside


jobs = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=8)


@settings(max_examples=60)
@example([(45, 10, 2), (45, 10, 6), (55, 1, 1), (55, 1, 1)], 0, 1)
@given(jobs, st.integers(0, 60), st.integers(0, 60))
def test_no_node_ever_holds_more_than_it_has(
    described: list[tuple[int, int, int]], empty: int, provision: int
) -> None:
    pods: list[Pod] = []
    for number, (begin, length, gpus) in enumerate(described):
        end = min(begin + length, 100)
        moments = range(begin, end)
        if all(sum(p.gpus for p in pods if p.from_ms <= t * H < p.to_ms) + gpus <= 8 for t in moments):
            pods.append(pod(str(number), begin, end, gpus=gpus))
    fleet = played(*pods, empty_minutes=empty, provision_minutes=provision).fleet
    up = {node.name: node for node in fleet.nodes}
    for held in fleet.pods:
        assert up[held.node].from_ms <= held.from_ms and held.to_ms <= up[held.node].to_ms
        at_once = [p for p in fleet.pods if p.node == held.node and p.from_ms <= held.from_ms < p.to_ms]
        assert sum(p.gpus for p in at_once) <= 8
    assert sum(p.to_ms - p.from_ms for p in fleet.pods) == sum(p.to_ms - p.from_ms for p in pods)


def test_days_beyond_a_month_are_all_of_them_today() -> None:
    year = ask("schedule", "--on-demand-price 98.32 --active-hours-per-day 24 --days 365")
    assert year["today"]["cost"] == 861_283.2 and year["saving"] == 0
    assert (
        ask("schedule", "--on-demand-price 1 --active-hours-per-day 1 --days 20")["today"]["node_hours"]
        == 730
    )


def test_many_nodes_cost_as_many_times_one() -> None:
    many = ask("schedule", "--nodes 100000 --on-demand-price 32.77 --active-hours-per-day 10")
    assert many["today"]["cost"] == 2_392_210_000 and many["today"]["node_hours"] == 73_000_000
    assert many["scenario"]["cost"] == 983_100_000
