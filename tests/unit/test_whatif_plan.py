"""Plans: the shipped example to the cent, errors in files, and no saving counted twice."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from gpucost.config.model import Config
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer
from gpucost.whatif.avoidable import Commitments, Cover, why_not
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import Curve, Evidence
from gpucost.whatif.flags import PricePer
from gpucost.whatif.fleet import Costs, Fleet, Level, Node, Pod, Price, Usage
from gpucost.whatif.plan import Context, Group, Plan, Reserve, Schedule, Share, Spot, Step, answer, read_plan
from gpucost.whatif.share import Sizing, answer as share_answer
from gpucost.whatif.spot.answer import answer as spot_answer
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market
from gpucost.whatif.spot.moves import SpotQuery
from tests.text_tables import named_rows, table, words
from tests.unit.command import run
from tests.unit.whatif_costs import ask, assert_refused, figures, fleet, listed, shown

pytestmark = pytest.mark.usefixtures("nowhere")

H = MS_PER_HOUR
D = Decimal
Told = TypeVar("Told", bound=BaseModel)


def told(kind: type[Told], line: str) -> Told:
    """A group or a step from its keys and numbers; `groups` are separated by commas."""
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


def test_example_plan_to_the_cent(example: Path) -> None:
    undisturbed = example.read_text().replace("= 1.17\n", "= 1.17\ninterruptions_per_hour = 0\n")
    example.write_text(undisturbed)
    answer = ask("plan", str(example))
    assert listed(answer["tables"]["Business case"], "groups today after saving") == (
        "inference 156750 91050 65700; training 91050 82734 8316; notebooks 82734 33649.10417 49084.89583; "
        "notebooks 33649.10417 30377.50651 3271.597654"
    )
    # training writes checkpoints for 2.5 of 32.5 minutes; notebooks are up for 2.4 hours and 5 minutes a day
    trained, up = 4800 * 1.17 * 32.5 / 30, 730 * (2.4 + 5 / 60) / 24
    notebooks = 25 * up * 1.17 * 32.5 / 30
    assert answer["scenario"]["cost"] == pytest.approx(10 * 730 * 3 + trained + notebooks, rel=1e-9)
    assert round(answer["saving_percent"], 1) == 80.6
    assert_refused("plan", f"{example} --month 2026-10", "leave the period out")


# A text of the example, its replacement, and the resulting message
WRONG = r"""
    old                       | new                              | message
    ways = 4                  | way = 4                          | line 27 in \[\[steps\]\] 1: unknown key 'way'
    pods = 25                 | pods = 2.5                       | line 21 in .*: pods: should be a whole number
    pods = 25                 | pods = "many"                    | pods: should be .*, got 'many'
    price_per_gpu_hour = 1.17 | price_per_gpu_hour = -1          | hour: should be greater than 0, got -1
    price_per_gpu_hour = 1.17 | price_per_gpu_hour = nan         | should be a finite number
    price_per_gpu_hour = 1.17 |                                  | spot needs price_per_gpu_hour
    active_percent = 10       | active_percent = 10; egress_gb = 5 | unknown key 'egress_gb'
    active_percent = 10       |                                  | schedule needs active_percent
    utilization_percent = 15  |                                  | share needs utilization_percent
    ["training"]              | ["trainings"]                    | group 'trainings' is missing
    "schedule"                | "scheduel"                       | invalid change 'scheduel'
    name = "training"         | name = "inference"               | two groups are named 'inference'
    name = "training"         | teams = ["x"]; name = "training" | training needs price_per_gpu_hour, or
    price_per_gpu_hour = 3.0  |                                  | inference needs price_per_gpu_hour
    name = "Three             | name = = "Three                  | is not valid TOML
"""


@pytest.mark.parametrize("case", table(WRONG), ids=lambda case: case.get("new", f"no {case['old']}"))
def test_errors_in_a_plan_name_their_line(example: Path, case: dict[str, str]) -> None:
    text = example.read_text()
    assert case["old"] in text
    example.write_text(text.replace(case["old"], case.get("new", "").replace("; ", "\n")))
    with pytest.raises(DataError, match=case["message"]):
        answer(read_plan(example), Context("USD", {}))


def answer_to(groups: list[Group] | Group, *steps: Step, context: Context | None = None) -> Answer:
    several = groups if isinstance(groups, list) else [groups]
    return answer(Plan(groups=several, steps=list(steps)), context or Context("USD", {}))


def used(fleet: Fleet, others: tuple[Pod, ...] = ()) -> Usage:
    return Usage(fleet, "USD", "October 2026", "x", is_narrowed=True, others=others)


def of_store(fleets: Mapping[str, Fleet], hours: float = 10, others: tuple[Pod, ...] = ()) -> Context:
    usages = {name: used(fleet, others) for name, fleet in fleets.items()}
    return Context("USD", usages, "October 2026", hours, evidence=Evidence(hours / 24))


STORED = Group(name="x", teams=["x"])


def test_stored_groups_have_their_own_prices_and_count_each_pod_once() -> None:
    there = fleet(
        "name | hours | prices\nn | 0-100 | 24, 48 from 50",
        "node | workload | gpus | hours | uid | team\nn | Job/a | 2 | 0-100 | a | x\nn | Job/b | 1 | 0-10 | b | x",
    )
    context = of_store({"x": there, "b": Fleet(there.nodes, there.pods[1:])}, 744)
    groups = [STORED, Group(name="b", workloads=["Job/b"])]
    result = answer_to(groups, told(Schedule, "groups=b,x active_percent=50"), context=context)
    assert result.today.cost == 6 * 50 + 12 * 50 + 3 * 10
    assert any("1 pods are in several groups" in finding for finding in result.findings)
    assert result.assumptions[0].value == 744


def test_spot_pays_for_interruptions() -> None:
    group = told(Group, "name=g pods=2 hours=100 price_per_gpu_hour=3")
    often = "interruptions_per_hour=0.1 checkpoint_minutes=60"
    result, measured = (
        answer_to(group, told(Spot, f"groups=g price_per_gpu_hour=1 {more}")) for more in (often, "")
    )
    (rate,) = (one for one in measured.assumptions if one.name.endswith("interruptions"))
    assert "measured traces" in rate.source
    # a step states only the keys of its kind
    keys = {"price_per_gpu_hour", "interruptions_per_hour", "checkpoint_minutes"}
    assert {f"step 1, spot: {key}" for key in keys} <= {one.name for one in result.assumptions}
    assert not any(one.name.endswith(("change", "groups")) for one in result.assumptions)
    # exact cost of exponential interruptions: an hour or 30 minutes of work, 2.5 to save it, 12 to resume
    for of, hourly, work in ((result, 0.1, 1.0), (measured, float(rate.value or 0), 0.5)):
        longer = math.exp(hourly * 0.2) * math.expm1(hourly * (work + 2.5 / 60)) / (hourly * work)
        assert of.time == (f"Step 1 (spot of g): work takes up to {longer:.3f} times as long.",)
        assert of.today.cost == 600
        assert float(of.scenario.cost) == pytest.approx(200 * longer, rel=1e-6)


def test_commitment_covers_the_base_and_remains_if_usage_falls() -> None:
    # 4 GPUs around the clock and 4 for half of 730 hours, at $3; committed at $2: worth it from two thirds of the hours
    base, half = (
        told(Group, f"{one} gpus_per_pod=4 price_per_gpu_hour=3")
        for one in ("name=b hours=730", "name=h hours=365")
    )
    both = told(Reserve, "groups=b,h price_per_gpu_hour=2 term_years=3")
    result = answer_to([base, half], both)
    assert figures(result, "today scenario") == shown(4 * 730 * 3 + 4 * 365 * 3, 4 * 730 * 2 + 4 * 365 * 3)
    assert result.figures == {"obligation": 4 * 2 * 8760 * 3}
    six = answer_to([base, half], both.model_copy(update={"gpus": 6}))
    # two of them are used half of the time
    expected = shown(6 * 730 * 2 + 2 * 365 * 3, 6 * 730 + 2 * 365)
    assert figures(six, "scenario scenario.gpu_hours") == expected
    alone = both.model_copy(update={"groups": ["b"]})
    for steps, cost in (
        # half of each day off, and 5 minutes to provision: no commitment is worth it, and no later step makes one cheaper
        ([told(Schedule, "groups=b active_percent=50"), alone], 4380 + 3 * 4 * 730 / 24 / 12),
        ([alone, told(Schedule, "groups=b active_percent=50")], 5840),
        ([alone.model_copy(update={"price_per_gpu_hour": D(3)})], 8760),
    ):
        assert figures(answer_to(base, *steps), "today scenario") == shown(8760, cost)


def test_hours_after_the_period_are_paid_on_demand() -> None:
    group = told(Group, "name=g pods=2 hours=1460 price_per_gpu_hour=3")
    result = answer_to(group, told(Reserve, "groups=g price_per_gpu_hour=2"))
    assert figures(result, "today scenario") == shown(2 * 1460 * 3, 2 * 730 * 2 + 2 * 730 * 3)


def test_step_without_a_safe_commitment_leaves_its_groups_to_later_steps() -> None:
    group = told(Group, "name=g pods=2 hours=100 price_per_gpu_hour=3")
    steps = told(Reserve, "groups=g price_per_gpu_hour=2"), STEPS["spot"].model_copy(update={"groups": ["g"]})
    assert answer_to(group, *steps).saving == answer_to(group, steps[1]).saving > 0
    assert any("no GPU is in use enough" in text for text in answer_to(group, steps[0]).findings)


def test_no_commitment_is_advised_on_few_days_or_for_committed_nodes() -> None:
    step = told(Reserve, "groups=x price_per_gpu_hour=1")
    nodes = "name | hours | prices\nn | 0-36 | 2\nm | 0-36 | 2 committed"
    there = fleet(
        nodes,
        "node | workload | gpus | hours | uid\nn | Job/a | 1 | 0-36 | a\nm | Job/a | 1 | 0-36 | b",
        gpus=1,
    )
    result = answer_to(STORED, step, context=of_store({"x": there}, 36))
    assert figures(result, "today scenario obligation") == "144 144 0"
    assert any("1.5 days of data" in finding for finding in result.findings)
    # a number in the plan is binding: one of the two nodes is paid in any case
    both = answer_to(STORED, step.model_copy(update={"gpus": 2}), context=of_store({"x": there}, 36))
    assert both.scenario.cost == 72 + 2 * 36
    with pytest.raises(DataError, match="none of its GPUs are on demand"):
        answer_to(
            told(Group, "name=g price_per_gpu_hour=1"),
            told(Spot, "groups=g price_per_gpu_hour=0.5"),
            told(Reserve, "groups=g price_per_gpu_hour=1"),
        )


STEPS: dict[str, Step] = {
    "share": told(Share, "groups=x ways=4 utilization_percent=15"),
    "spot": told(Spot, "groups=x price_per_gpu_hour=1 interruptions_per_hour=0"),
    # half of each day with 5 minutes to provision
    "schedule": told(Schedule, f"groups=x active_percent={50 - 500 / 60 / 24}"),
}
# four pods of one GPU: on one node of four they only free GPUs; on separate nodes three nodes are removed
STORED_STEPS = """
    share on one node                  | 4 | 8 on_demand                           | 0 0 0 0 |   | share | 80 0
    share on four                      | 1 | 8 on_demand, 8 on_demand, 8 on_demand, 8 on_demand | 0 1 2 3 | | share | 320 240
    share on two nodes of two          | 2 | 8 on_demand, 8 on_demand              | 0 0 1 1 |   | share | 160 80
    other pods keep one of two         | 2 | 8 on_demand, 8 on_demand              | 0 0 1   | 1 | share | 120 0
    nodes on spot or reserved stay     | 1 | 2 spot, 2 on_demand, 2 reserved       | 0 1 2   |   | spot  | 60 10
    nodes that are paid anyway stay    | 1 | 1_committed on_demand, 2 on_demand    | 0 1     |   | spot  | 30 10
    own machines stay                  | 1 | 2 on_demand own, 2 on_demand          | 0 1     |   | spot  | 40 10
    pods that fill their node move it  | 2 | 8 on_demand                           | 0 0     |   | spot  | 80 60
    and so do pods that hold a part    | 4 | 8 on_demand                           | 0 0     | 0 | spot  | 40 20
    a whole node is off                | 1 | 8 on_demand                           | 0       |   | schedule | 80 40
    and the held part of its own node  | 4 | 8 on_demand                           | 0 0     |   | schedule | 40 20
    a node that others hold too is not | 4 | 8 on_demand                           | 0 0     | 0 | schedule | 40 0
    nor is a capacity reservation      | 1 | 8 reserved, 2 on_demand               | 0 1     |   | schedule | 100 10
    nor is a node that is paid anyway  | 1 | 1_committed on_demand, 2 on_demand    | 0 1     |   | schedule | 30 10
"""


@pytest.mark.parametrize(("gpus", "nodes", "pods", "others", "step", "costs"), named_rows(STORED_STEPS))
def test_steps_of_stored_groups_save_as_much_as_their_what_ifs(
    gpus: str, nodes: str, pods: str, others: str, step: str, costs: str
) -> None:
    kinds = [node.replace(" ", " | ", 1).replace("_committed", " committed") for node in nodes.split(", ")]
    rows = "\n".join(f"n{at} | 0-10 | {kind.removesuffix(' own')}" for at, kind in enumerate(kinds))
    held = "\n".join(
        f"n{node} | {'StatefulSet' if step == 'schedule' else 'Job'}/a | 1 | 0-10 | {at} | batch"
        for at, node in enumerate([*pods.split(), *others.split()])
    )
    there = fleet(
        f"name | hours | prices | capacity_type\n{rows}",
        f"node | workload | gpus | hours | uid | workload_type\n{held}",
        gpus=int(gpus),
    )
    own = [f"n{at}" for at, kind in enumerate(kinds) if kind.endswith("own")]
    there = there.with_nodes(
        lambda node: replace(node, provider=None, instance_type=None) if node.name in own else node
    )
    number = len(pods.split())
    group = Fleet(there.nodes, there.pods[:number])
    result = answer_to(STORED, STEPS[step], context=of_store({"x": group}, others=there.pods[number:]))
    assert figures(result, "today saving") == costs
    if not result.saving:
        assert any("no cash" in text for text in result.findings)


def test_schedule_keeps_batch_work_and_a_replica_of_each_service() -> None:
    """As `whatif schedule` does: of three nodes with two replicas and a job, one is off for half of each day."""
    there = fleet(
        "name | hours | prices\n" + "\n".join(f"n{at} | 0-240 | 8" for at in range(3)),
        """node | workload       | gpus | hours | uid | workload_type
        n0     | Deployment/api | 8    | 0-240 | a   | inference
        n1     | Deployment/api | 8    | 0-240 | b   | inference
        n2     | Job/train      | 8    | 0-240 | c   | training""",
    )
    result = answer_to(STORED, STEPS["schedule"], context=of_store({"x": there}, 240))
    assert figures(result, "today saving") == "5760 960"


def test_schedule_counts_what_commitments_of_the_bill_cover() -> None:
    """Half of the node is covered, and paid in any case: on demand an hour costs 10."""
    there = fleet(
        "name | hours | prices\nn | 0-10 | 6", "node | workload | gpus | hours\nn | Notebook/a | 8 | 0-10"
    )
    half = Curve((0.5,) * 10, (1.0,) * 10)
    key = ("aws", "us-east-1", "p4d.24xlarge")
    covers = Commitments(0, 10 * H, {key: Cover(half, half, D(10))})
    usage = used(there)._replace(commitments=covers)
    context = Context("USD", {"x": usage}, "October 2026", 10)
    # off in the last five hours, when half a node is uncovered
    assert figures(answer_to(STORED, STEPS["schedule"], context=context), "today saving") == "60 25"
    # committed hours are not committed again
    with pytest.raises(DataError, match="without commitments in the bill"):
        answer_to(STORED, told(Reserve, "groups=x price_per_gpu_hour=0.5 gpus=8"), context=context)


def test_pods_share_no_gpu_that_costs_more() -> None:
    """Both on the GPU of the first would cost 40 for ten hours, instead of 40 for an hour and 1 for nine."""
    there = fleet(
        "name | hours | prices\na | 0-10 | 40\nb | 0-10 | 1",
        "node | workload | gpus | hours | uid\na | Job/a | 1 | 0-2 | a\nb | Job/b | 1 | 1-10 | b",
        gpus=1,
    )
    result = answer_to(STORED, STEPS["share"], context=of_store({"x": there}))
    assert figures(result, "today saving") == "89 0"
    assert any("no pod moves" in text for text in result.findings)


KINDS_OF_WORK = (("Job/a", "batch"), ("Deployment/a", "inference"), ("StatefulSet/a", "development"))


@given(st.randoms(use_true_random=False))
def test_steps_save_only_what_is_avoidable_and_nothing_twice(draw: Any) -> None:
    """Random fleets of two overlapping groups: no step costs more, and their savings add up to avoidable cost at most."""
    nodes, pods = [], []
    for at in range(draw.randint(1, 5)):
        gpus, begin, price = draw.choice((1, 2, 8)), draw.randint(0, 50), D(draw.randint(1, 40))
        prices = (Price(price, "plan", is_committed=draw.random() < 0.2),)
        capacity = draw.choice(("on_demand", "on_demand", "spot", "reserved", "capacity_block"))
        cloud = ("aws", "us-east-1", "p5") if draw.random() < 0.8 else (None, None, None)
        nodes.append(
            Node(f"n{at}", gpus, begin * H, (begin + 100) * H, prices, capacity, "default", *cloud, "H100")
        )
        for number in range(draw.randint(0, gpus)):
            (workload, kind), since = draw.choice(KINDS_OF_WORK), draw.randint(begin, begin + 99)
            until, uid = draw.randint(since + 1, begin + 100), f"{at}-{number}"
            team = draw.choice("xy")
            pods.append(Pod(f"n{at}", workload, 1, since * H, until * H, team, team, uid, workload_type=kind))
    mine = tuple(pod for pod in pods if pod.team == "x")
    others = tuple(pod for pod in pods if pod.team == "y")
    usages = {"x": used(Fleet(tuple(nodes), mine), others), "y": used(Fleet(tuple(nodes), tuple(pods)))}
    keys = {
        "share": "ways=4 utilization_percent=10",
        "spot": "price_per_gpu_hour=1",
        "schedule": "active_percent=40",
    }
    kinds = {"share": Share, "spot": Spot, "schedule": Schedule}
    steps = [
        told(kinds[kind], f"groups={draw.choice(('x', 'y', 'x,y'))} {keys[kind]}")
        for kind in draw.choices(list(kinds), k=draw.randint(1, 4))
    ]
    groups = [STORED, Group(name="y", teams=["x", "y"])]
    result = answer_to(groups, *steps, context=Context("USD", usages, "October 2026", 200))
    costs = {
        node: fleet_costs(Fleet((node,), tuple(pod for pod in pods if pod.node == node.name))).cost
        for node in nodes
    }
    assert result.today.cost == sum(costs.values())
    savings = [line[5] for line in result.tables[0].lines]
    assert min(savings) >= 0 and sum(savings) == result.saving
    avoidable = [
        cost
        for node, cost in costs.items()
        if not why_not(node) and node.capacity_type in ("on_demand", "spot")
    ]
    assert result.saving <= sum(avoidable)


# A step, a group, and the equivalent options of the what-if; a GPU costs 3 an hour
SAME = """
    step                                                | group               | options
    spot interruptions_per_hour=0.1 checkpoint_minutes=60 | pods=1 | --interruptions-per-hour 0.1 --checkpoint-minutes 60
    spot interruptions_per_hour=0                       | hours=730           | --hours 730 --interruptions-per-hour 0
    spot                                                | hours=730           | --hours 730
    schedule active_percent=10                          | pods=25 hours=8760  | --nodes 25 --active-hours-per-day 2.4
    schedule active_percent=100                         | hours=8760          | --active-hours-per-day 24
    reserve                                             | pods=4 hours=700    | --nodes 4 --hours 700
    reserve                                             | pods=4 hours=500    | --nodes 4 --hours 500
"""
KINDS: dict[str, tuple[type[Step], str, str]] = {
    "spot": (Spot, "price_per_gpu_hour=1", "--gpus 1 --spot-price 1"),
    "schedule": (Schedule, "", "--gpus 1 --days 365"),
    "reserve": (Reserve, "price_per_gpu_hour=1.95", "--commitment-discount 1=35"),
}


@pytest.mark.parametrize("case", table(SAME), ids=lambda case: f"{case['step']} of {case['group']}")
def test_plan_with_one_step_agrees_with_its_what_if(case: dict[str, str]) -> None:
    name, _, keys = case["step"].partition(" ")
    kind, more_keys, more_options = KINDS[name]
    group = told(Group, f"name=g price_per_gpu_hour=3 {case['group']}")
    planned = answer_to(group, told(kind, f"groups=g {keys} {more_keys}"))
    found = ask(name, f"--on-demand-price 3 {case['options']} {more_options}")
    assert planned.today.cost == found["today"]["cost"]
    # a plan counts milliseconds
    assert float(planned.scenario.cost) == pytest.approx(found["scenario"]["cost"], rel=1e-8)
    if name == "reserve":
        assert figures(planned, "obligation") == figures(found, "obligation")


# two simultaneous runs on two nodes, a gang; a sweep that starts over; a notebook
MIXED = """
    node | workload            | gpus | hours  | uid | workload_type | resumes
    n0   | PyTorchJob/run      | 8    | 0-60   | a   |               | yes
    n1   | PyTorchJob/run      | 8    | 0-60   | b   |               | yes
    n2   | Job/sweep-1         | 8    | 10-14  | c   | batch         |
    n3   | StatefulSet/jupyter | 8    | 0-100  | d   | development   |
"""


def test_plan_with_one_step_agrees_with_the_what_if_of_stored_usage() -> None:
    nodes = "name | hours | prices\n" + "\n".join(f"n{at} | 0-100 | 24" for at in range(4))
    mixed = fleet(nodes, MIXED)
    rate = Rate(0.05, "plan")
    market = Market(price=Price(D(1), "plan"), price_per=PricePer.gpu, rate=lambda _: rate)
    for pods in (mixed.pods, mixed.pods[:2], mixed.pods[2:3]):
        usage = used(Fleet(mixed.nodes, pods))
        found = spot_answer(SpotQuery(usage, market, Config()))
        context = Context("USD", {"x": usage}, "October 2026", 100)
        planned = answer_to(
            STORED, told(Spot, "groups=x price_per_gpu_hour=1 interruptions_per_hour=0.05"), context=context
        )
        assert found.today.cost == planned.today.cost
        assert 0 < found.saving == pytest.approx(planned.saving, rel=D("1e-7"))
    small = "\n".join(f"n{at // 8} | Job/a | 1 | 0-100 | {at}" for at in range(20))
    there = fleet(nodes, f"node | workload | gpus | hours | uid\n{small}")
    usage = used(Fleet(there.nodes, there.pods[:19]), there.pods[19:])
    levels = {pod.key: Level(1, 1, 0.0, 0.15, 0.15) for pod in usage.fleet.pods}
    shared = share_answer(usage, Sizing(), levels, {})
    planned = answer_to(STORED, STEPS["share"], context=Context("USD", {"x": usage}, "October 2026", 100))
    # 19 pods on 5 GPUs of one node: two of three nodes become empty, and one is needed
    assert figures(shared, "today scenario") == figures(planned, "today scenario") == "5700 3300"


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 99), st.integers(1, 99)), min_size=1, max_size=12),
    st.integers(1, 20),
)
def test_commitment_counts_each_gpu_hour_once(pods: list[tuple[int, int, int]], gpus: int) -> None:
    nodes = [
        Node(str(at), g, a * H, (a + n) * H, (Price(Decimal(g), "plan"),), instance_type="p5")
        for at, (g, a, n) in enumerate(pods)
    ]
    held = tuple(
        Pod(node.name, "Job/a", node.gpus, node.from_ms, node.to_ms, uid=node.name) for node in nodes
    )
    step = Reserve(groups=["x"], price_per_gpu_hour=D("0.5"), gpus=gpus)
    result = answer_to(STORED, step, context=of_store({"x": Fleet(tuple(nodes), held)}, 200))
    levels = [sum(node.gpus for node in nodes if node.from_ms <= at * H < node.to_ms) for at in range(200)]
    over = sum(max(0, level - gpus) for level in levels)
    assert float(result.scenario.gpu_hours) == pytest.approx(gpus * 200 + over)
    assert float(result.scenario.cost) == pytest.approx(gpus * 100 + over)


def test_described_groups_run_at_the_time_of_stored_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = 500_000 * H
    there = fleet("name | hours | prices\nn | 0-10 | 8", "", begin)
    context = replace(of_store({"x": there}), start_ms=begin)
    fleets: list[Fleet] = []

    def costs(fleet: Fleet) -> Costs:
        fleets.append(fleet)
        return fleet_costs(fleet)

    monkeypatch.setattr("gpucost.whatif.plan.fleet_costs", costs)
    groups = [STORED, told(Group, "name=d price_per_gpu_hour=1")]
    answer_to(groups, told(Schedule, "groups=d active_percent=50"), context=context)
    assert {node.from_ms for fleet in fleets for node in fleet.nodes} == {begin}
