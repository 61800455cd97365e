"""Scaling to zero: the calculator's figures, office hours, and the replay of a timeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings, strategies as st

from gpucost.errors import UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif import schedule
from gpucost.whatif.answer import Answer
from gpucost.whatif.flags import PROVISION_MINUTES, START_SOURCE
from gpucost.whatif.fleet import Fleet, Node, Pod, Usage
from gpucost.whatif.schedule import Piece, Replay, ScheduleRules, office_spans, replay
from gpucost.whatif.spot.moves import SpotOptions
from tests.text_tables import table
from tests.unit.whatif_costs import ask, figures, fleet, shown

H = MS_PER_HOUR
MINUTE = 60_000

pytestmark = pytest.mark.usefixtures("nowhere")


def on_node(pods: str, prices: str = "10") -> Fleet:
    """A node for 100 hours, and its pods."""
    return fleet(
        f"name | hours | prices\nn | 0-100 | {prices}",
        f"node | workload | gpus | hours | uid\n{pods}" if pods else "",
    )


(NODE,) = on_node("").nodes
# Cost and node-hours: 32.77 an hour, 10 hours a day, 5 minutes of provisioning; more days than a month has count as today
CALCULATED = """
    nodes            | today               | scenario           | options
    8 nodes          | 191376.8 5840       | 79303.4 2420       | --nodes 8 --active-hours-per-day 10 --days 30
    at once          | 191376.8 5840       | 78648 2400         | --nodes 8 --active-hours-per-day 10 --provision-minutes 0
    after 6 minutes  | 191376.8 5840       | 79434.48 2424      | --nodes 8 --active-hours-per-day 10 --provision-minutes 6
    a year           | 861283.2 8760       | 861283.2 8760      | --active-hours-per-day 24 --days 365 --on-demand-price 98.32
    20 of 30 days    | 730 730             | 21.66666667 21.666667 | --active-hours-per-day 1 --days 20 --on-demand-price 1
    100,000 nodes    | 2392210000 73000000 | 991292500 30250000 | --nodes 100000 --active-hours-per-day 10
"""


@pytest.mark.parametrize("case", table(CALCULATED), ids=lambda case: case["nodes"])
def test_scale_to_zero_figures(case: dict[str, str]) -> None:
    answer = ask("schedule", f"--on-demand-price 32.77 {case['options']}")
    assert figures(answer, "today today.node_hours") == case["today"]
    assert figures(answer, "scenario scenario.node_hours") == case["scenario"]
    if case["nodes"] == "after 6 minutes":
        assert figures(answer, "waits wait_hours longest_wait_minutes") == "240 24 6"


def test_provisioning_time_is_the_same_in_every_what_if() -> None:
    answer = ask("schedule", "--on-demand-price 1 --active-hours-per-day 10")
    assert answer["longest_wait_minutes"] == PROVISION_MINUTES
    (row,) = [one for one in answer["assumptions"] if one["name"] == "a node is provisioned in"]
    assert (row["value"], row["source"]) == (PROVISION_MINUTES, START_SOURCE)


def test_office_hours_are_local_across_clock_changes() -> None:
    # Friday to Monday over the end of summer time
    period = Period(datetime(2026, 10, 22, 22, tzinfo=UTC), datetime(2026, 10, 26, 23, tzinfo=UTC))
    spans = office_spans("08:00-18:00", "mon-fri", period, ZoneInfo("Europe/Berlin"))
    hours = [(datetime.fromtimestamp(begin / 1000, UTC).hour, (end - begin) / H) for begin, end in spans]
    assert hours == [(6, 10), (7, 10)]
    # past midnight; all day; from Saturday to Monday
    period = Period(datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC))
    for hours, days, left in (
        ("22:00-06:00", "fri", [6]),
        ("00:00-24:00", "mon-fri", []),
        ("00:00-24:00", "sat-mon", [24]),
    ):
        spans = office_spans(hours, days, period, ZoneInfo("UTC"))
        assert [(end - begin) / H for begin, end in spans] == left
    for text in ("25:00-26:00", "08:60-09:00", "morning", "08:00-12:00-18:00"):
        with pytest.raises(UsageError):
            office_spans(text, "mon-fri", period, ZoneInfo("UTC"))


# The remainder of ten hours, idle from 2 to 4 and for 20 minutes from 6; office hours, here 3 to 8, do not affect batch work
RULES_LEAVE = """
    rule          | workload               | left
    idle          | Job/train              | 0-2.5, 4-10 again
    notebook idle | StatefulSet/jupyter-eve | 0-2.5, 4-10 again
    notebook idle | Job/train              | 0-10
    office        | Job/train              | 0-10
    office        | Deployment/api         | 3-8 again
"""
RULES_OF = {
    "idle": ScheduleRules(idle_minutes=30),
    "notebook idle": ScheduleRules(idle_minutes=30, only_notebooks=True),
    "office": ScheduleRules(office=((3 * H, 8 * H),)),
}


@pytest.mark.parametrize("case", table(RULES_LEAVE), ids=lambda case: f"{case['rule']} {case['workload']}")
def test_remaining_intervals_of_a_pod(case: dict[str, str]) -> None:
    there = on_node(f"n | {case['workload']} | 8 | 0-10 | a")
    kind = "development" if "jupyter" in case["workload"] else ""
    there = replace(there, pods=tuple(replace(pod, workload_type=kind) for pod in there.pods))
    idle = {there.pods[0].key: ((2 * H, 4 * H), (6 * H, 6 * H + 20 * MINUTE))}
    kept = schedule.pieces(there.pods, RULES_OF[case["rule"]], idle, {})
    left = [f"{shown(p.from_ms / H)}-{shown(p.to_ms / H)}{' again' * p.returns}" for p in kept]
    assert ", ".join(left) == case["left"]


def played(pods: str = "", node: Node = NODE, **minutes: float) -> Replay:
    held = on_node(pods).pods
    return replay(
        Fleet((node,), held), [Piece(p, p.from_ms, p.to_ms) for p in held], ScheduleRules(**minutes)
    )


def spans(several: tuple[Pod, ...] | tuple[Node, ...]) -> str:
    return ", ".join(f"{shown(one.from_ms / H)}-{shown(one.to_ms / H)}" for one in several)


def test_empty_node_is_removed_and_provisioned_again() -> None:
    job = "n | Job/train | 8 | 0-10 | a"
    result = played(f"{job}\nn | Job/train | 8 | 50-60 | b", empty_minutes=30, provision_minutes=6)
    # the job's work keeps its length; a service keeps its end
    assert (spans(result.fleet.nodes), spans(result.fleet.pods)) == ("0-10.5, 50-60.6", "0-10, 50.1-60.1")
    assert [(w.pod.uid, round(w.hours * 60, 6)) for w in result.waits] == [("b", 6)]
    serving = played(f"{job}\nn | Deployment/api | 8 | 50-60 | b", provision_minutes=6)
    assert spans(serving.fleet.pods) == "0-10, 50.1-60"
    # a job that starts late holds its GPUs longer, and the next one waits for them: the node's capacity is never exceeded
    late = f"{job}\nn | Job/train | 8 | 50-60 | b\nn | Job/train | 8 | 60-70 | c"
    assert spans(played(late, provision_minutes=30).fleet.pods) == "0-10, 50.5-60.5, 60.5-70.5"


COMMITTED = on_node("", "10 committed").nodes[0]


@pytest.mark.parametrize(
    "node",
    [
        replace(NODE, capacity_type="reserved"),
        replace(NODE, capacity_type="capacity_block"),
        COMMITTED,
        replace(NODE, provider=None, instance_type=None),  # an own machine
        replace(NODE, has_users=False),
    ],
)
def test_nodes_paid_in_any_case_stay(node: Node) -> None:
    assert played(node=node).fleet.nodes == (node,)


def test_cancelling_a_committed_reservation_saves_no_cash() -> None:
    both = (replace(node, capacity_type="reserved") for node in (NODE, COMMITTED))
    reserved, committed = map(schedule.why_it_stays, both)
    assert "cancelling it would save its cost" in reserved
    assert committed == "under a commitment, which is paid in any case"


RULES = ScheduleRules(idle_minutes=60, provision_minutes=0)


def released(there: Fleet, others: str = "", idle: tuple[int, int] = (10, 40)) -> Answer:
    """The answer for pods of a node that are all idle in these hours; the node is removed after 10 empty minutes."""
    held = on_node(others).pods
    usage = Usage(there, "USD", "test", "eve", is_narrowed=True, others=held)
    stretches = {p.key: ((idle[0] * H, idle[1] * H),) for p in there.pods}
    return schedule.answer(usage, RULES, stretches, {})


CASH = "saving freed_capacity_cost"


def test_idle_notebooks_save_cash_only_while_their_node_is_empty() -> None:
    """Four notebooks hold a node; all are released from hour 11 to 40. The node, at 10 an hour, is removed 10 minutes later."""
    four = on_node("\n".join(f"n | StatefulSet/jupyter-{uid} | 2 | 0-50 | {uid}" for uid in "abcd"))
    # 29 hours of 8 GPUs are released; 10 minutes of them are paid until the node is removed
    alone, shared = released(four), released(four, "n | Job/train | 1 | 20-30 | job")
    assert figures(alone, f"today {CASH}") == "500 288.3333333 1.666667"
    # another pod holds the node from hour 20 to 30: that time is freed capacity, not cash
    assert figures(shared, CASH) == "186.6666667 90.833333"


def test_node_that_stays_saves_no_cash() -> None:
    busy = released(on_node("n | StatefulSet/jupyter-a | 2 | 0-50 | a"), "n | Job/train | 1 | 0-100 | job")
    assert figures(busy, f"{CASH} freed_gpu_hours") == "0 72.5 58"
    plan = released(on_node("n | StatefulSet/jupyter-a | 8 | 0-50 | a", "10 committed"))
    assert figures(plan, CASH) == "0 290"
    # cash begins when the commitment ends
    ends = on_node("n | StatefulSet/jupyter-a | 8 | 0-100 | a", "10 committed, 10 from 50")
    answer = released(ends, idle=(10, 100))
    assert figures(answer, CASH) == "500 390"


def test_service_keeps_one_replica() -> None:
    pods = on_node("n | Deployment/api | 4 | 0-100 | a\nn | Deployment/api | 4 | 0-100 | b").pods
    service = tuple(replace(pod, workload_type="inference") for pod in pods)
    idle = {pod.key: ((0, 100 * H),) for pod in service}
    quiet = {service[0].owner: range(10, 20)}

    def kept(idle: dict[tuple[str, str], tuple[tuple[int, int], ...]], requests: dict[str, range]) -> str:
        held = schedule.pieces(service, ScheduleRules(idle_minutes=60), idle, requests)
        pieces = sorted(held, key=lambda piece: (piece.pod.uid, piece.from_ms))
        return ", ".join(f"{one.pod.uid} {shown(one.from_ms / H)}-{shown(one.to_ms / H)}" for one in pieces)

    assert kept(idle, {}) == "a 0-100, b 0-1"
    # no requests from hour 10 to 19: that replica is released too; other hours had requests, or have no counter
    assert kept(idle, quiet) == "a 0-10, a 20-100, b 0-1"
    # a replica that is always busy is never released, with or without requests
    assert kept({}, quiet) == "a 0-100, b 0-100"


def held_at(pods: list[Pod], at_ms: int) -> float:
    return sum(pod.gpus for pod in pods if pod.from_ms <= at_ms < pod.to_ms)


jobs = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=8)


@settings(max_examples=60)
@example([(45, 10, 2), (45, 10, 6), (55, 1, 1), (55, 1, 1)], 0, 1)
@given(jobs, st.integers(0, 60), st.integers(0, 60))
def test_capacity_of_a_node_is_never_exceeded(
    described: list[tuple[int, int, int]], empty: int, provision: int
) -> None:
    pods: list[Pod] = []
    for number, (begin, length, gpus) in enumerate(described):
        end = min(begin + length, 100)
        if all(held_at(pods, hour * H) + gpus <= 8 for hour in range(begin, end)):
            pods.append(Pod("n", "Job/train", gpus, begin * H, end * H, uid=str(number)))
    rules = ScheduleRules(empty_minutes=empty, provision_minutes=provision)
    there = replay(Fleet((NODE,), tuple(pods)), [Piece(p, p.from_ms, p.to_ms) for p in pods], rules).fleet
    up = {node.name: node for node in there.nodes}
    for pod in there.pods:
        assert up[pod.node].from_ms <= pod.from_ms and pod.to_ms <= up[pod.node].to_ms
        assert held_at([one for one in there.pods if one.node == pod.node], pod.from_ms) <= 8
    assert sum(p.length_ms for p in there.pods) == sum(p.length_ms for p in pods)


def test_startup_time_on_a_new_node_is_the_same_in_every_what_if() -> None:
    """0.2 h: the node in 5 minutes, its image and weights in 7."""
    assert (ScheduleRules().provision_minutes, schedule.RESTART_MINUTES) == (5, 7)
    assert SpotOptions().restart_minutes == 12
