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
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage
from gpucost.whatif.schedule import OfficeHours, Piece, Replay, Rules, replay
from gpucost.whatif.spot.moves import SpotOptions
from tests.unit.whatif_costs import ask

H = MS_PER_HOUR
MINUTE = 60_000
NODE = Node("n", 8, 0, 100 * H, (Price(Decimal(10), "option"),), provider="aws", instance_type="p4d.24xlarge")

pytestmark = pytest.mark.usefixtures("nowhere")


def pod(uid: str, begin: float, end: float, gpus: float = 8, workload: str = "Job/train") -> Pod:
    return Pod("n", workload, gpus, round(begin * H), round(end * H), uid=uid)


def whole(*pods: Pod) -> list[Piece]:
    return [Piece(p, p.from_ms, p.to_ms) for p in pods]


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
    holder = pod("a", 0, 10, workload=workload)
    idle = {holder.key: ((2 * H, 4 * H), (6 * H, 6 * H + 20 * MINUTE))}
    then, _ = schedule.played(Usage(Fleet((NODE,), (holder,)), "USD", "test", "all"), rules, idle, {})
    assert [(p.from_ms / H, p.to_ms / H, p.returns) for p in then.kept] == expected


def played(*pods: Pod, node: Node = NODE, **minutes: float) -> Replay:
    return replay(Fleet((node,), pods), whole(*pods), Rules(**minutes))


def test_an_empty_node_is_removed_and_provisioned_again() -> None:
    result = played(pod("a", 0, 10), pod("b", 50, 60), empty_minutes=30, provision_minutes=6)
    assert [(n.from_ms / H, n.to_ms / H) for n in result.fleet.nodes] == [(0, 10.5), (50, 60.6)]
    assert [(w.pod.uid, round(w.hours * 60, 6)) for w in result.waits] == [("b", 6)]
    # the job's work takes as long as it did; what serves ends when it did
    assert [(p.from_ms / H, p.to_ms / H) for p in result.fleet.pods] == [(0, 10), (50.1, 60.1)]
    serving = played(pod("a", 0, 10), pod("b", 50, 60, workload="Deployment/api"), provision_minutes=6)
    assert serving.fleet.pods[-1].to_ms == 60 * H


@pytest.mark.parametrize(
    "node",
    [
        replace(NODE, capacity_type="reserved"),
        replace(NODE, capacity_type="capacity_block"),
        replace(NODE, prices=(Price(Decimal(10), "bill", is_committed=True),)),
        replace(NODE, provider=None, instance_type=None),  # an own machine
        replace(NODE, has_users=False),
    ],
)
def test_nodes_that_are_paid_in_any_case_stay(node: Node) -> None:
    assert played(node=node).fleet.nodes == (node,)


def test_reservation_under_a_commitment_saves_nothing_by_cancelling_it() -> None:
    reserved = replace(NODE, capacity_type="reserved")
    committed = replace(reserved, prices=(Price(Decimal(10), "bill", is_committed=True),))
    reasons = [schedule._why_it_stays(node) for node in (reserved, committed)]
    assert "cancelling it would save its cost" in reasons[0]
    assert reasons[1] == "under a commitment, which is paid in any case"


def test_work_that_moved_waits_for_gpus() -> None:
    """A job that starts late holds its GPUs longer, and the next one waits for them: no node ever holds more than it has."""
    pods = played(pod("a", 0, 10), pod("b", 50, 60), pod("c", 60, 70), provision_minutes=30).fleet.pods
    assert [(p.from_ms / H, p.to_ms / H) for p in pods] == [(0, 10), (50.5, 60.5), (60.5, 70.5)]


RULES = Rules(notebook_idle_minutes=60, provision_minutes=0, restart_minutes=0)


def released(
    *pods: Pod, others: tuple[Pod, ...] = (), idle: tuple[int, int] = (10, 40), node: Node = NODE
) -> Answer:
    """The answer for pods of a node that are all idle in these hours; a node empty for 10 minutes goes."""
    usage = Usage(Fleet((node,), pods), "USD", "test", "eve", is_narrowed=True, others=others)
    stretches = {(p.cluster, p.uid): ((idle[0] * H, idle[1] * H),) for p in pods}
    then, before = schedule.played(usage, RULES, stretches, {})
    return schedule.answer(usage, RULES, then, stretches, before)


def notebook(uid: str, gpus: float = 2) -> Pod:
    return pod(uid, 0, 50, gpus=gpus, workload=f"StatefulSet/jupyter-{uid}")


def test_idle_notebooks_save_cash_while_their_node_is_empty_and_free_capacity_otherwise() -> None:
    """Four notebooks hold a node; all are released from hour 11 to 40. The node goes 10 minutes later, at 10 an hour."""
    four = [notebook(uid) for uid in "abcd"]
    alone = released(*four)
    assert alone.today.cost == 500
    assert float(alone.saving) == pytest.approx(10 * (29 - 1 / 6))
    # 29 hours of 8 GPUs are released; 10 minutes of them are paid until the node goes
    assert float(alone.figures["freed_capacity_cost"]) == pytest.approx(10 / 6)
    # another pod holds the node from hour 20 to 30: cash is lost for that time, and is freed capacity
    job = (pod("job", 20, 30, gpus=1),)
    shared = released(*four, others=job)
    assert float(shared.saving) == pytest.approx(10 * (19 - 2 / 6))
    assert float(shared.figures["freed_capacity_cost"]) == pytest.approx(10 * (10 + 2 / 6) - 10 * 10 / 8)


def test_a_node_that_stays_saves_no_cash() -> None:
    job = (pod("job", 0, 100, gpus=1),)
    busy = released(notebook("a"), others=job)
    assert (busy.saving, busy.figures["freed_capacity_cost"], busy.figures["freed_gpu_hours"]) == (
        0,
        Decimal("72.5"),
        58,
    )
    committed = replace(NODE, prices=(Price(Decimal(10), "bill", is_committed=True),))
    plan = released(notebook("a", gpus=8), node=committed)
    assert (plan.saving, plan.figures["freed_capacity_cost"]) == (0, 290)


def test_cash_begins_when_a_commitment_ends() -> None:
    ends = (Price(Decimal(10), "bill", is_committed=True), Price(Decimal(10), "price_book", None, 50 * H))
    pods = pod("a", 0, 100, workload="StatefulSet/jupyter-a")
    answer = released(pods, idle=(10, 100), node=replace(NODE, prices=ends))
    assert (answer.saving, round(answer.figures["freed_capacity_cost"], 6)) == (500, 890 - 500)


def test_a_service_keeps_a_replica() -> None:
    service = [
        replace(pod(uid, 0, 100, gpus=4, workload="Deployment/api"), workload_type="inference")
        for uid in "ab"
    ]
    usage, rules = Usage(Fleet((NODE,), tuple(service)), "USD", "test", "all"), Rules(idle_minutes=60)
    idle = {("default", uid): ((0, 100 * H),) for uid in "ab"}
    then, _ = schedule.played(usage, rules, idle, {})
    assert sorted((piece.pod.uid, piece.to_ms // H) for piece in then.kept) == [("a", 100), ("b", 1)]
    # no request came from hour 10 to 19: the replica goes then, too; other hours had requests, or none were counted
    then, _ = schedule.played(usage, rules, idle, {service[0].owner: range(10, 20)})
    kept = sorted((piece.pod.uid, piece.from_ms // H, piece.to_ms // H) for piece in then.kept)
    assert kept == [("a", 0, 10), ("a", 20, 100), ("b", 0, 1)]
    # a replica that is busy all the time is never released, requests or not
    then, _ = schedule.played(usage, rules, {}, {service[0].owner: range(10, 20)})
    assert [(piece.from_ms, piece.to_ms) for piece in then.kept] == [(0, 100 * H)] * 2


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


def test_work_starts_on_a_new_node_after_the_same_time_in_every_what_if() -> None:
    """0.2 h: the node in 5 minutes, its image and weights in 7."""
    rules = Rules()
    assert (rules.provision_minutes, rules.restart_minutes) == (5, 7)
    assert rules.provision_minutes + rules.restart_minutes == SpotOptions().restart_minutes == 12


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
