"""Plans: the shipped example to the cent, what is wrong with a file, and that no saving counts twice."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.fleet import Costs, Fleet, Node, Pod, Price
from gpucost.whatif.plan import (
    Commitment,
    Context,
    Group,
    Move,
    Plan,
    Reserve,
    Rightsize,
    Schedule,
    Share,
    Spot,
    Stage,
    Step,
    _paid,
    answer,
    read_plan,
)
from tests.unit.whatif_costs import ask, assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

H = MS_PER_HOUR


@pytest.fixture
def example(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    result = CliRunner().invoke(app, ["whatif", "plan", "--example"])
    assert result.exit_code == 0
    file.write_text(result.stdout)
    return file


def test_the_example_to_the_cent(example: Path) -> None:
    undisturbed = example.read_text().replace("= 1.17\n", "= 1.17\ninterruptions_per_hour = 0\n")
    example.write_text(undisturbed)
    answer = ask("plan", str(example))
    assert round(answer["saving_percent"], 1) == 81.1
    assert [
        (line["category"], line["before"], line["after"]) for line in answer["tables"]["Before and after"]
    ] == [
        ("inference", 87_600, 21_900),
        ("training", 14_400, 5_616),
        ("notebooks", 54_750, 2_135.25),
        ("total", answer["today"]["cost"], answer["scenario"]["cost"]),
    ]
    assert (answer["today"]["cost"], answer["scenario"]["cost"]) == (156_750.00, 29_651.25)
    assert sum(step["saving"] for step in answer["steps"]) == pytest.approx(answer["saving"])
    assert_refused("plan", f"{example} --month 2026-10", "leave the period out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ways = 4", "way = 4", r"line 31 in \[\[steps\]\] 1: unknown key 'way'"),
        ("pods = 25", "pods = 2.5", r"line 24 in \[\[groups\]\] 3: pods: should be a whole number, got 2.5"),
        ("pods = 25", 'pods = "25"', "pods: should be a number, got '25'"),
        (
            "price_per_gpu_hour = 1.17",
            "price_per_gpu_hour = -1",
            "price_per_gpu_hour: should be greater than 0, got -1",
        ),
        ("price_per_gpu_hour = 1.17", "price_per_gpu_hour = nan", "should be a finite number"),
        ("price_per_gpu_hour = 1.17\n", "", "spot needs price_per_gpu_hour"),
        ("active_percent = 10", "active_percent = 10\negress_gb = 5", "unknown key 'egress_gb'"),
        ("capacity_gpus = 16", "gb_per_start = 16", "needs both gb_per_start and price_per_gb"),
        (
            "pods = 25",
            "pods = 25\ngb_per_start = 1\nprice_per_gb = 1",
            "starts never: gb_per_start needs runs_per_day",
        ),
        ('["training"]', '["trainings"]', "there is no group 'trainings'"),
        ('"schedule"', '"scheduel"', "'scheduel' is no change"),
        ("active_percent = 10", "active_percent = 10\nactive_hours_per_day = 3", "either active_percent or"),
        ('name = "training"', 'name = "inference"', "two groups called 'inference'"),
        ('name = "training"', 'teams = ["x"]\nname = "training"', "reads training from the store"),
        ("hours_per_run = 2\n", "", "both runs_per_day and hours_per_run"),
        ("hours_per_run = 2\n", "hours_per_run = 2\nhours = 3\n", "twice"),
        ("days = 30", "days = = 30", "is no TOML"),
        ("utilization_percent = 15", "utilization_percent = 60", "no two of them share"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(example: Path, old: str, new: str, message: str) -> None:
    text = example.read_text()
    assert old in text
    example.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=message):
        answer(read_plan(example), Context("USD", {}))


def answer_to(groups: list[Group], *steps: Step, context: Context | None = None) -> Answer:
    return answer(Plan(groups=groups, steps=list(steps)), context or Context("USD", {}))


def test_spot_pays_for_interruptions() -> None:
    group = Group(name="g", pods=2, hours=100, price_per_gpu_hour=Decimal(3))
    step = Spot(groups=["g"], price_per_gpu_hour=Decimal(1), interruptions_per_hour=0.1, checkpoint_minutes=60,
                checkpoint_write_minutes=0, restart_minutes=6)  # fmt: skip
    result = answer_to([group], step)
    assert result.today.cost == 600
    assert 200 * 1.05 < result.scenario.cost < 200 * 1.08  # 1 + 0.1 x (0.5 + 0.1), and a little more


def test_stored_groups_at_their_own_prices_and_no_pod_twice() -> None:
    node = Node(
        "n",
        8,
        0,
        100 * H,
        (Price(Decimal(24), "price_book"), Price(Decimal(48), "price_book", from_ms=50 * H)),
    )
    one, two = (
        Pod("n", "Job/a", 2, 0, 100 * H, uid="a", team="x"),
        Pod("n", "Job/b", 1, 0, 10 * H, uid="b", team="x"),
    )
    context = Context(
        "USD", {"x": Fleet((node,), (one, two)), "b": Fleet((node,), (two,))}, "October 2026", 744, 31
    )
    groups = [Group(name="x", teams=["x"]), Group(name="b", workloads=["Job/b"])]
    result = answer_to(groups, Schedule(groups=["b", "x"], active_percent=50), context=context)
    assert result.today.cost == 6 * 50 + 12 * 50 + 3 * 10
    assert any("1 pods are named by several groups" in finding for finding in result.findings)
    assert result.assumptions[0].value == 744


price = st.decimals("0.01", "50", places=3)
group = st.builds(
    Group,
    name=st.sampled_from("abc"),
    pods=st.integers(1, 5),
    gpus_per_pod=st.integers(1, 4),
    hours=st.floats(0.5, 800),
    price_per_gpu_hour=price,
)
chosen = st.sampled_from([["a"], ["b"], ["c"], ["a", "b"], ["a", "b", "c"]])
step = st.one_of(
    st.builds(Share, groups=chosen, ways=st.integers(1, 8), utilization_percent=st.just(15.0)),
    st.builds(Spot, groups=chosen, price_per_gpu_hour=price),
    st.builds(Reserve, groups=chosen, price_per_gpu_hour=price, gpus=st.none() | st.integers(1, 9)),
    st.builds(Schedule, groups=chosen, active_percent=st.floats(0.1, 100)),
    st.builds(Rightsize, groups=chosen, price_per_gpu_hour=price, gpus_per_pod=st.integers(1, 8)),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(group, min_size=3, max_size=3, unique_by=lambda g: g.name),
    st.lists(step, min_size=1, max_size=5),
)
def test_a_plan_never_saves_more_than_today_costs(groups: list[Group], steps: list[Step]) -> None:
    result = answer_to(groups, *steps)
    assert result.saving <= result.today.cost
    assert sum(one["saving"] for one in result.figures["steps"]) == result.saving
    *lines, total = (Decimal(str(line[1])) for line in result.tables[0].lines)
    assert sum(lines) == pytest.approx(total)


def test_interruptions_that_are_not_given_are_measured_ones() -> None:
    group = Group(name="g", pods=2, hours=100, price_per_gpu_hour=Decimal(3))
    result = answer_to([group], Spot(groups=["g"], price_per_gpu_hour=Decimal(1)))
    (rate,) = (one for one in result.assumptions if one.name.endswith("interruptions"))
    assert "measured traces" in rate.source
    # exact cost of exponential interruptions: 30 minutes of work, 2.5 to save it, 12 to go on
    up = (
        math.exp(float(rate.value) * 0.2)
        * math.expm1(float(rate.value) * 32.5 / 60)
        / (float(rate.value) * 0.5)
    )
    assert float(result.scenario.cost) == pytest.approx(200 * up, rel=1e-6)
    assert case(result)[0]["risk"] == f"interrupted {rate.value:.3g} times a node-hour"


def case(answer: Answer) -> list[dict[str, Any]]:
    """The lines of the business case."""
    table = next(table for table in answer.tables if table.title == "Business case")
    return [dict(zip(table.columns, line, strict=True)) for line in table.lines]


def test_a_commitment_takes_the_base_and_stays_when_use_goes() -> None:
    # 4 GPUs around the clock and 4 for half of 730 hours, at $3; committed at $2: worth it from two thirds of the hours on
    base, half = (
        Group(name=name, gpus_per_pod=4, hours=h, price_per_gpu_hour=Decimal(3))
        for name, h in (("b", 730), ("h", 365))
    )
    reserve = Reserve(groups=["b", "h"], price_per_gpu_hour=Decimal(2), term_years=3)
    result = answer_to([base, half], reserve)
    assert (result.today.cost, result.scenario.cost) == (4 * 730 * 3 + 4 * 365 * 3, 4 * 730 * 2 + 4 * 365 * 3)
    assert case(result)[0]["risk"] == "paid for 3 years, used or not: 100.0 % used in the period"
    six = answer_to([base, half], reserve.model_copy(update={"gpus": 6}))
    assert six.scenario.cost == 6 * 730 * 2 + 2 * 365 * 3  # two of them are used half of the time
    assert six.scenario.gpu_hours == 6 * 730 + 2 * 365
    # half of the time off, or all of it on spot: what was committed to is paid all the same
    reserve = reserve.model_copy(update={"groups": ["b"]})
    off = answer_to([base], reserve, Schedule(groups=["b"], active_percent=50))
    assert (off.today.cost, off.scenario.cost) == (8760, 5840)
    moved = answer_to(
        [base], reserve, Spot(groups=["b"], price_per_gpu_hour=Decimal(1), interruptions_per_hour=0)
    )
    assert moved.scenario.cost == 5840 + 2920
    # bought after the change, it takes what is left
    after = answer_to([base], Rightsize(groups=["b"], price_per_gpu_hour=Decimal(3), gpus_per_pod=2), reserve)
    assert after.scenario.cost == 2 * 730 * 2
    assert answer_to([base], reserve.model_copy(update={"price_per_gpu_hour": Decimal(3)})).saving == 0


def test_a_move_of_work_and_of_data_count_their_data() -> None:
    group = Group(name="t", runs_per_day=2, hours_per_run=5, price_per_gpu_hour=Decimal(3), gb_per_start=Decimal(50),
                  price_per_gb=Decimal("0.1"))  # fmt: skip
    cache = Move(
        groups=["t"], cache_price_per_gb_month=Decimal("0.3"), cache_read_price_per_gb=Decimal("0.01")
    )
    result = answer_to([group], cache)
    assert result.today.cost == 60 * 5 * 3 + 60 * 5  # 60 runs of 50 GB
    assert result.scenario.cost == 900 + 5 + 15 + 30  # fetched once, kept for a month, read 60 times
    move = Move(groups=["t"], price_per_gpu_hour=Decimal(1), interruptions_per_hour=0, wait_minutes=15, egress_gb=200,
                  price_per_gb=Decimal("0.05"))  # fmt: skip
    assert answer_to([group], cache, move).scenario.cost == 60 * 5.25 + 10 + 50
    nothing = Group(name="t", runs_per_day=1, hours_per_run=1, price_per_gpu_hour=Decimal(1))
    with pytest.raises(DataError, match="t downloads nothing that a cache could keep"):
        answer_to([nothing], cache)
    # a step states the keys of its kind alone
    stated = {one.name for one in answer_to([group], cache, move).assumptions if one.name.startswith("step")}
    assert {name for name in stated if "cache" in name or "versions" in name} == {
        "step 1, move: cache_price_per_gb_month", "step 1, move: cache_read_price_per_gb", "step 1, move: versions"
    }  # fmt: skip
    efforts = [line[7] for line in answer_to([group], cache, move).tables[1].lines]
    assert efforts == ["medium", "high"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"price_per_gpu_hour": 1, "egress_gb": 0}, "move needs wait_minutes, or cache_price_per_gb_month"),
        (
            {"price_per_gpu_hour": 1, "egress_gb": 5, "wait_minutes": 0},
            "with egress_gb move needs price_per_gb",
        ),
        ({"cache_price_per_gb_month": 1, "wait_minutes": 5}, "takes no wait_minutes"),
        ({}, "move needs price_per_gpu_hour"),
    ],
)
def test_a_move_is_of_work_or_of_data(keys: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Move(groups=["g"], **keys)


def test_what_is_paid_anyway_does_not_move() -> None:
    price = Price(Decimal(8), "bill")
    kinds = [replace(price, is_committed=True), price]
    nodes = [
        Node(f"n{at}", 8, 0, 730 * MS_PER_HOUR, (one,), provider="aws", instance_type="p4d.24xlarge")
        for at, one in enumerate(kinds)
    ]
    pods = [Pod(node.name, "Job/x", 8, 0, 730 * MS_PER_HOUR, uid=node.name) for node in nodes]
    context = Context("USD", {"g": Fleet(tuple(nodes), tuple(pods))}, "a month")
    move = Move(
        groups=["g"], price_per_gpu_hour=Decimal("0.5"), interruptions_per_hour=0, wait_minutes=0, egress_gb=0
    )
    result = answer_to([Group(name="g", namespaces=["x"])], move, context=context)
    assert (result.today.cost, result.saving) == (2 * 8 * 730, 4 * 730)


def test_how_long_work_waits_before_and_after() -> None:
    # one run an hour that takes one hour, on two GPUs: a third of them wait (Erlang C of 1 on 2), each on the mean an hour
    group = Group(name="r", runs_per_day=24, hours_per_run=1, price_per_gpu_hour=Decimal(3), capacity_gpus=2)
    faster = Rightsize(groups=["r"], price_per_gpu_hour=Decimal(6), time_factor=0.5)
    slower = Rightsize(groups=["r"], price_per_gpu_hour=Decimal(1), time_factor=2)
    half, full = (answer_to([group], step).tables[-1].lines[0] for step in (faster, slower))
    assert half == (
        "r",
        2,
        50.0,
        25.0,
        round(math.log((1 / 3) / 0.05) * 60, 1),
        round(math.log(0.1 / 0.05) * 0.5 / 1.5 * 60, 1),
    )
    assert full[3:] == (100.0, half[4], None)
    # stored pods in the order that they came: 2 + 2 GPUs are all there were; twice as long, the third pod waits for the second
    node = Node("n", 8, 0, 10 * H, (Price(Decimal(8), "price_book"),))
    lives = ((2, 1, 4), (2, 2, 4), (1, 4, 5))
    pods = tuple(Pod("n", f"Job/{at}", gpus, at * H, end * H, uid=str(at)) for gpus, at, end in lives)
    context = Context("USD", {"x": Fleet((node,), pods)}, "October 2026", 10, 1)
    slow = Rightsize(groups=["x"], price_per_gpu_hour=Decimal(1), time_factor=2)
    (line,) = answer_to([Group(name="x", teams=["x"])], slow, context=context).tables[-1].lines
    assert line == ("x", 4, 27.5, 55.0, 0.0, 120.0)


def test_shared_pods_save_the_cash_that_whatif_share_measures() -> None:
    """Four pods of one GPU: on one node of four they free GPUs and the node stays; on nodes of their own three nodes go."""
    share = Share(groups=["x"], ways=4, utilization_percent=15)
    one = (Node("n0", 4, 0, 10 * H, (Price(Decimal(8), "price_book"),), provider="aws", instance_type="i"),)
    four = tuple(replace(one[0], name=f"n{number}", gpus=1) for number in range(4))
    for nodes, today, saving in ((one, 80, 0), (four, 320, 240)):
        pods = tuple(Pod(nodes[n % len(nodes)].name, "Job/a", 1, 0, 10 * H, uid=str(n)) for n in range(4))
        context = Context("USD", {"x": Fleet(nodes, pods)}, "October 2026", 10, 1)
        answer = answer_to([Group(name="x", teams=["x"])], share, context=context)
        assert (answer.today.cost, answer.saving) == (today, saving)
        assert any("save no cash" in text or "saves no cash" in text for text in answer.findings) == (
            saving == 0
        )


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 99), st.integers(1, 99)), min_size=1, max_size=12),
    st.integers(1, 20),
)
def test_a_commitment_counts_no_gpu_hour_twice(pods: list[tuple[int, int, int]], gpus: int) -> None:
    nodes = [
        Node(str(at), g, a * H, (a + n) * H, (Price(Decimal(g), "plan"),))
        for at, (g, a, n) in enumerate(pods)
    ]
    stage = Stage({"g": nodes}, {}, (Commitment(("g",), frozenset({(None, None)}), gpus, Decimal("0.5")),))
    paid = _paid(stage, Context("USD", {}, hours=200.0))["g"]
    hours = {
        kind: sum(node.hours * node.gpus for node in paid if node.capacity_type == kind)
        for kind in ("reserved", "on_demand")
    }
    over = sum(
        max(0, sum(n.gpus for n in nodes if n.from_ms <= at * H < n.to_ms) - gpus) for at in range(200)
    )
    assert hours["reserved"] == pytest.approx(gpus * 200)
    assert hours["on_demand"] == pytest.approx(over)
    assert sum(node.mean_price * node.hours for node in paid) == pytest.approx(gpus * 100 + over)


def test_what_is_on_spot_already_is_not_moved_again() -> None:
    nodes = tuple(
        Node(kind, 1, 0, 100 * H, (Price(Decimal(2), "price_book"),), kind)
        for kind in ("spot", "on_demand", "reserved")
    )
    pods = tuple(Pod(node.name, "Job/a", 1, 0, 100 * H, uid=node.name) for node in nodes)
    context = Context("USD", {"x": Fleet(nodes, pods)}, "October 2026", 100, 4)
    step = Spot(groups=["x"], price_per_gpu_hour=Decimal(1), interruptions_per_hour=0)
    assert answer_to([Group(name="x", teams=["x"])], step, context=context).scenario.cost == 200 + 100 + 200


def test_described_groups_run_when_stored_ones_did(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = 500_000 * H
    node = Node("n", 1, begin, begin + 10 * H, (Price(Decimal(8), "price_book"),))
    context = Context("USD", {"x": Fleet((node,), ())}, "October 2026", 10, 1, start_ms=begin)
    groups = [Group(name="x", teams=["x"]), Group(name="d", price_per_gpu_hour=Decimal(1))]
    fleets: list[Fleet] = []

    def costs(fleet: Fleet) -> Costs:
        fleets.append(fleet)
        return fleet_costs(fleet)

    monkeypatch.setattr("gpucost.whatif.plan.fleet_costs", costs)
    answer(Plan(groups=groups, steps=[Schedule(groups=["d"], active_percent=50)]), context)
    assert {node.from_ms for fleet in fleets for node in fleet.nodes} == {begin}
