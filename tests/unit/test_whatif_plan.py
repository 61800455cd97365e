"""Plans: the shipped example to the cent, what is wrong with a file, and that no saving counts twice."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.fleet import Costs, Fleet, Node, Price
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
    answer,
    read_plan,
)
from tests.text_tables import named_rows, table, text_rows, words
from tests.unit.command import run
from tests.unit.whatif_costs import ask, assert_refused, figures, fleet, listed, shown

pytestmark = pytest.mark.usefixtures("nowhere")

H = MS_PER_HOUR
D = Decimal
Told = TypeVar("Told", bound=BaseModel)


def told(kind: type[Told], line: str) -> Told:
    """A group or a step by its keys and numbers; `groups` are parted by commas."""
    keys: dict[str, Any] = dict(words(line))
    for key, value in keys.items():
        if key != "name":
            keys[key] = value.split(",") if key == "groups" else json.loads(value)
    return kind.model_validate(keys)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(run("whatif plan --example").stdout)
    return file


def test_the_example_to_the_cent(example: Path) -> None:
    undisturbed = example.read_text().replace("= 1.17\n", "= 1.17\ninterruptions_per_hour = 0\n")
    example.write_text(undisturbed)
    answer = ask("plan", str(example))
    assert listed(answer["tables"]["Before and after"], "category before after") == (
        "inference 87600 21900; training 14400 5616; notebooks 54750 2135.25; total 156750 29651.25"
    )
    assert figures(answer, "today scenario") == "156750 29651.25"
    assert round(answer["saving_percent"], 1) == 81.1
    assert sum(step["saving"] for step in answer["steps"]) == pytest.approx(answer["saving"])
    assert_refused("plan", f"{example} --month 2026-10", "leave the period out")


# What stands in the example, what takes its place, and what is said of it
WRONG = r"""
    old                       | new                                            | message
    ways = 4                  | way = 4                                        | line 31 in \[\[steps\]\] 1: unknown key 'way'
    pods = 25                 | pods = 2.5                                     | line 24 in .*: pods: should be a whole number
    pods = 25                 | pods = "25"                                    | pods: should be a number, got '25'
    price_per_gpu_hour = 1.17 | price_per_gpu_hour = -1                        | hour: should be greater than 0, got -1
    price_per_gpu_hour = 1.17 | price_per_gpu_hour = nan                       | should be a finite number
    price_per_gpu_hour = 1.17 |                                                | spot needs price_per_gpu_hour
    active_percent = 10       | active_percent = 10; egress_gb = 5             | unknown key 'egress_gb'
    capacity_gpus = 16        | gb_per_start = 16                              | needs both gb_per_start and price_per_gb
    pods = 25                 | pods = 25; gb_per_start = 1; price_per_gb = 1 | starts never: gb_per_start needs runs_per_day
    ["training"]              | ["trainings"]                                  | there is no group 'trainings'
    "schedule"                | "scheduel"                                     | 'scheduel' is no change
    active_percent = 10       | active_percent = 10; active_hours_per_day = 3  | either active_percent or
    name = "training"         | name = "inference"                             | two groups called 'inference'
    name = "training"         | teams = ["x"]; name = "training"               | reads training from the store
    hours_per_run = 2         |                                                | both runs_per_day and hours_per_run
    hours_per_run = 2         | hours_per_run = 2; hours = 3                   | twice
    days = 30                 | days = = 30                                    | is no TOML
    utilization_percent = 15  | utilization_percent = 60                       | no two of them share
"""


@pytest.mark.parametrize("case", table(WRONG), ids=lambda case: case.get("new", f"no {case['old']}"))
def test_what_is_wrong_is_said_with_its_line(example: Path, case: dict[str, str]) -> None:
    text = example.read_text()
    assert case["old"] in text
    example.write_text(text.replace(case["old"], case.get("new", "").replace("; ", "\n")))
    with pytest.raises(DataError, match=case["message"]):
        answer(read_plan(example), Context("USD", {}))


def answer_to(groups: list[Group] | Group, *steps: Step, context: Context | None = None) -> Answer:
    several = groups if isinstance(groups, list) else [groups]
    return answer(Plan(groups=several, steps=list(steps)), context or Context("USD", {}))


def of_store(fleets: Mapping[str, Fleet], hours: float = 10) -> Context:
    return Context("USD", dict(fleets), "October 2026", hours, math.ceil(hours / 24))


STORED = Group(name="x", teams=["x"])


def test_stored_groups_at_their_own_prices_and_no_pod_twice() -> None:
    there = fleet(
        "name | hours | prices\nn | 0-100 | 24, 48 from 50",
        "node | workload | gpus | hours | uid | team\nn | Job/a | 2 | 0-100 | a | x\nn | Job/b | 1 | 0-10 | b | x",
    )
    context = of_store({"x": there, "b": Fleet(there.nodes, there.pods[1:])}, 744)
    groups = [STORED, Group(name="b", workloads=["Job/b"])]
    result = answer_to(groups, told(Schedule, "groups=b,x active_percent=50"), context=context)
    assert result.today.cost == 6 * 50 + 12 * 50 + 3 * 10
    assert any("1 pods are named by several groups" in finding for finding in result.findings)
    assert result.assumptions[0].value == 744


def case(answer: Answer) -> list[dict[str, Any]]:
    """The lines of the business case."""
    cases = next(table for table in answer.tables if table.title == "Business case")
    return [dict(zip(cases.columns, line, strict=True)) for line in cases.lines]


def test_spot_pays_for_interruptions() -> None:
    group = told(Group, "name=g pods=2 hours=100 price_per_gpu_hour=3")
    often = "interruptions_per_hour=0.1 checkpoint_minutes=60 checkpoint_write_minutes=0 restart_minutes=6"
    result, measured = (
        answer_to(group, told(Spot, f"groups=g price_per_gpu_hour=1 {more}")) for more in (often, "")
    )
    (rate,) = (one for one in measured.assumptions if one.name.endswith("interruptions"))
    assert "measured traces" in rate.source
    assert case(measured)[0]["risk"] == f"interrupted {rate.value:.3g} times a node-hour"
    # exact cost of exponential interruptions: an hour of work, 6 minutes to go on; 30 minutes, 2.5 to save it, 12 to go on
    for of, hourly, work, saved, restart in (
        (result, 0.1, 1.0, 0.0, 0.1),
        (measured, float(rate.value or 0), 0.5, 2.5 / 60, 0.2),
    ):
        longer = math.exp(hourly * restart) * math.expm1(hourly * (work + saved)) / (hourly * work)
        assert of.today.cost == 600
        assert float(of.scenario.cost) == pytest.approx(200 * longer, rel=1e-6)


def test_a_commitment_takes_the_base_and_stays_when_use_goes() -> None:
    # 4 GPUs around the clock and 4 for half of 730 hours, at $3; committed at $2: worth it from two thirds of the hours on
    base, half = (
        told(Group, f"{one} gpus_per_pod=4 price_per_gpu_hour=3")
        for one in ("name=b hours=730", "name=h hours=365")
    )
    both = told(Reserve, "groups=b,h price_per_gpu_hour=2 term_years=3")
    result = answer_to([base, half], both)
    assert figures(result, "today scenario") == shown(4 * 730 * 3 + 4 * 365 * 3, 4 * 730 * 2 + 4 * 365 * 3)
    assert case(result)[0]["risk"] == "paid for 3 years, used or not: 100.0 % used in the period"
    six = answer_to([base, half], both.model_copy(update={"gpus": 6}))
    # two of them are used half of the time
    expected = shown(6 * 730 * 2 + 2 * 365 * 3, 6 * 730 + 2 * 365)
    assert figures(six, "scenario scenario.gpu_hours") == expected
    alone = both.model_copy(update={"groups": ["b"]})
    for steps, cost in (
        # half of the time off, or all of it on spot: what was committed to is paid all the same
        ([alone, told(Schedule, "groups=b active_percent=50")], 5840),
        ([alone, told(Spot, "groups=b price_per_gpu_hour=1 interruptions_per_hour=0")], 5840 + 2920),
        # bought after the change, it takes what is left
        ([told(Rightsize, "groups=b price_per_gpu_hour=3 gpus_per_pod=2"), alone], 2 * 730 * 2),
        ([alone.model_copy(update={"price_per_gpu_hour": D(3)})], 8760),
    ):
        assert figures(answer_to(base, *steps), "today scenario") == shown(8760, cost)


def test_a_move_of_work_and_of_data_count_their_data() -> None:
    runs = "name=t hours_per_run=5 price_per_gpu_hour=3"
    group = told(Group, f"{runs} runs_per_day=2 gb_per_start=50 price_per_gb=0.1")
    cache = told(Move, "groups=t cache_price_per_gb_month=0.3 cache_read_price_per_gb=0.01")
    away = "price_per_gpu_hour=1 interruptions_per_hour=0 wait_minutes=15 egress_gb=200 price_per_gb=0.05"
    move = told(Move, f"groups=t {away}")
    result, both = answer_to(group, cache), answer_to(group, cache, move)
    assert result.today.cost == 60 * 5 * 3 + 60 * 5  # 60 runs of 50 GB
    assert result.scenario.cost == 900 + 5 + 15 + 30  # fetched once, kept for a month, read 60 times
    assert both.scenario.cost == 60 * 5.25 + 10 + 50
    with pytest.raises(DataError, match="t downloads nothing that a cache could keep"):
        answer_to(told(Group, f"{runs} runs_per_day=1"), cache)
    # a step states the keys of its kind alone
    stated = {one.name for one in both.assumptions if "cache" in one.name or "versions" in one.name}
    keys = ("cache_price_per_gb_month", "cache_read_price_per_gb", "versions")
    assert stated == {f"step 1, move: {key}" for key in keys}
    assert [line[7] for line in both.tables[1].lines] == ["medium", "high"]


MOVES = """
    {"price_per_gpu_hour": 1, "egress_gb": 0}                    | move needs wait_minutes, or cache_price_per_gb_month
    {"price_per_gpu_hour": 1, "egress_gb": 5, "wait_minutes": 0} | with egress_gb move needs price_per_gb
    {"cache_price_per_gb_month": 1, "wait_minutes": 5}           | takes no wait_minutes
    {}                                                           | move needs price_per_gpu_hour
"""


@pytest.mark.parametrize(("keys", "message"), text_rows(MOVES))
def test_a_move_is_of_work_or_of_data(keys: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Move(groups=["g"], **json.loads(keys))


STEPS: dict[str, Step] = {
    "share": told(Share, "groups=x ways=4 utilization_percent=15"),
    "spot": told(Spot, "groups=x price_per_gpu_hour=1 interruptions_per_hour=0"),
    "move": told(Move, "groups=x price_per_gpu_hour=0.5 interruptions_per_hour=0 wait_minutes=0 egress_gb=0"),
}
# four pods of one GPU: on one node of four they free GPUs and the node stays; on nodes of their own three nodes go
STORED_STEPS = """
    share on one node                  | 4 | 8 on_demand                           | 0 0 0 0 | share | 80 0
    share on four                      | 1 | 8 on_demand, 8 on_demand, 8 on_demand, 8 on_demand | 0 1 2 3 | share | 320 240
    what is on spot or reserved stays  | 1 | 2 spot, 2 on_demand, 2 reserved       | 0 1 2   | spot  | 60 10
    what is paid anyway stays          | 1 | 1_committed on_demand, 1 on_demand    | 0 1     | move  | 20 5
"""


@pytest.mark.parametrize(("gpus", "nodes", "pods", "step", "costs"), named_rows(STORED_STEPS))
def test_steps_of_stored_groups_save_what_their_what_ifs_do(
    gpus: str, nodes: str, pods: str, step: str, costs: str
) -> None:
    kinds = [node.replace(" ", " | ").replace("_committed", " committed") for node in nodes.split(", ")]
    rows = "\n".join(f"n{at} | 0-10 | {kind}" for at, kind in enumerate(kinds))
    held = "\n".join(f"n{node} | Job/a | 1 | 0-10 | {at}" for at, node in enumerate(pods.split()))
    there = fleet(
        f"name | hours | prices | capacity_type\n{rows}",
        f"node | workload | gpus | hours | uid\n{held}",
        gpus=int(gpus),
    )
    result = answer_to(STORED, STEPS[step], context=of_store({"x": there}))
    assert figures(result, "today saving") == costs
    assert any("no cash" in text for text in result.findings) == (result.saving == 0)


def test_how_long_work_waits_before_and_after() -> None:
    # one run an hour that takes one hour, on two GPUs: a third of them wait (Erlang C of 1 on 2), each on the mean an hour
    group = told(Group, "name=r runs_per_day=24 hours_per_run=1 price_per_gpu_hour=3 capacity_gpus=2")

    def waits(group: Group, time_factor: float, context: Context | None = None) -> tuple[Any, ...]:
        step = told(Rightsize, f"groups={group.name} price_per_gpu_hour=1 time_factor={time_factor}")
        return answer_to(group, step, context=context).tables[-1].lines[0]

    before, after = math.log((1 / 3) / 0.05) * 60, math.log(0.1 / 0.05) * 0.5 / 1.5 * 60
    half = waits(group, 0.5)
    assert half == ("r", 2, 50.0, 25.0, round(before, 1), round(after, 1))
    assert waits(group, 2)[3:] == (100.0, half[4], None)
    # stored pods in the order that they came: 2 + 2 GPUs are all there were; twice as long, the third pod waits for the second
    there = fleet(
        "name | hours | prices\nn | 0-10 | 8",
        "node | workload | gpus | hours | uid\nn | Job/1 | 2 | 1-4 | 1\nn | Job/2 | 2 | 2-4 | 2\nn | Job/4 | 1 | 4-5 | 4",
    )
    assert waits(STORED, 2, of_store({"x": there})) == ("x", 4, 27.5, 55.0, 0.0, 120.0)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 99), st.integers(1, 99)), min_size=1, max_size=12),
    st.integers(1, 20),
)
def test_a_commitment_counts_no_gpu_hour_twice(pods: list[tuple[int, int, int]], gpus: int) -> None:
    nodes = [
        Node(str(at), g, a * H, (a + n) * H, (Price(Decimal(g), "plan"),))
        for at, (g, a, n) in enumerate(pods)
    ]
    commitment = Commitment(("g",), frozenset({(None, None)}), gpus, Decimal("0.5"))
    paid = Stage(Context("USD", {}, hours=200.0), {"g": nodes}, {}, (commitment,)).paid["g"]
    hours = {
        kind: sum(node.hours * node.gpus for node in paid if node.capacity_type == kind)
        for kind in ("reserved", "on_demand")
    }
    over = sum(
        max(0, sum(n.gpus for n in nodes if n.from_ms <= at * H < n.to_ms) - gpus) for at in range(200)
    )
    assert hours == pytest.approx({"reserved": gpus * 200, "on_demand": over})
    assert sum(node.mean_price * node.hours for node in paid) == pytest.approx(gpus * 100 + over)


def test_described_groups_run_when_stored_ones_did(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = 500_000 * H
    there = fleet("name | hours | prices\nn | 0-10 | 8", "", begin)
    context = Context("USD", {"x": there}, "October 2026", 10, 1, start_ms=begin)
    fleets: list[Fleet] = []

    def costs(fleet: Fleet) -> Costs:
        fleets.append(fleet)
        return fleet_costs(fleet)

    monkeypatch.setattr("gpucost.whatif.plan.fleet_costs", costs)
    groups = [STORED, told(Group, "name=d price_per_gpu_hour=1")]
    answer_to(groups, told(Schedule, "groups=d active_percent=50"), context=context)
    assert {node.from_ms for fleet in fleets for node in fleet.nodes} == {begin}
