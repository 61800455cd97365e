"""Plans: the shipped example to the cent, what is wrong with a file, and that no saving counts twice."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.plan import Context, Group, Plan, Rightsize, Schedule, Share, Spot, Step, answer, read_plan
from tests.unit.whatif_costs import answered, ask, assert_refused

pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")

H = MS_PER_HOUR


@pytest.fixture
def example(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    result = CliRunner().invoke(app, ["whatif", "plan", "--example"])
    assert result.exit_code == 0
    file.write_text(result.stdout)
    return file


def test_the_example_to_the_cent(example: Path) -> None:
    answer = ask("plan", str(example))
    assert round(answer["saving_percent"], 1) == 81.1
    assert [(line["category"], line["before"], line["after"]) for line in answer["tables"]["Before and after"]] == [
        ("inference", 87_600, 21_900),
        ("training", 14_400, 5_616),
        ("notebooks", 54_750, 2_135.25),
        ("total", answer["today"]["cost"], answer["scenario"]["cost"]),
    ]
    assert (answer["today"]["cost"], answer["scenario"]["cost"]) == (156_750.00, 29_651.25)
    assert sum(step["saving"] for step in answer["steps"]) == pytest.approx(answer["saving"])
    assert_refused("plan", f"{example} --month 2026-10", "leave the period out")


def test_the_example_needs_no_configuration_and_goes_into_a_file_too(tmp_path: Path) -> None:
    words = ["whatif", "plan", "--example", "--config", str(tmp_path / "none.toml"), "-o", "x.toml"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert read_plan(tmp_path / "x.toml").days == 30


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ways = 4", "way = 4", r"line 29 in \[\[steps\]\] 1: unknown key 'way'"),
        ("days = 30", "day = 30", r"line 4: unknown key 'day'"),
        ("pods = 25", "pods = 2.5", r"line 22 in \[\[groups\]\] 3: pods: should be a whole number, got 2.5"),
        ("pods = 25", "pods = true", "pods: should be a number"),
        ("pods = 25", 'pods = "25"', "pods: should be a number, got '25'"),
        ("price_per_gpu_hour = 1.17", "price_per_gpu_hour = 1e30", "price_per_gpu_hour: should be less than or equal to"),
        ("price_per_gpu_hour = 1.17", "price_per_gpu_hour = -1", "price_per_gpu_hour: should be greater than 0, got -1"),
        ("price_per_gpu_hour = 1.17", "price_per_gpu_hour = nan", "should be a finite number"),
        ("price_per_gpu_hour = 1.17\n", "", "spot needs price_per_gpu_hour"),
        ("price_per_gpu_hour = 1.17\n", "price_per_gpu_hour = 1.17\ninterruptions_per_hour = 1\n", "needs checkpoint_minutes"),
        ('["training"]', '["trainings"]', "there is no group 'trainings'"),
        ('["training"]', '"training"', "line 34 .* groups: should be a list, got 'training'"),
        ('"schedule"', '"scheduel"', "'scheduel' is no change"),
        ("active_percent = 10", "active_percent = 110", "should be less than or equal to 100"),
        ("active_percent = 10", "active_percent = 10\nactive_hours_per_day = 3", "either active_percent or"),
        ('name = "training"', 'name = "inference"', "two groups called 'inference'"),
        ('name = "training"', 'teams = ["x"]\nname = "training"', "reads training from the store"),
        ("hours_per_run = 2\n", "", "both runs_per_day and hours_per_run"),
        ("hours_per_run = 2\n", "hours_per_run = 2\nhours = 3\n", "twice"),
        ("[[steps]]", "[[step]]", "unknown key 'step'"),
        ("days = 30", "days = = 30", "is no TOML"),
        ("utilization_percent = 15", "utilization_percent = 60", "no two of them share"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(example: Path, old: str, new: str, message: str) -> None:
    text = example.read_text()
    assert old in text
    example.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=message):
        answered(answer(read_plan(example), Context("USD", {})))


def answer_to(groups: list[Group], *steps: Step, context: Context | None = None) -> Answer:
    return answered(answer(Plan(groups=groups, steps=list(steps)), context or Context("USD", {})))


def test_spot_pays_for_interruptions() -> None:
    group = Group(name="g", pods=2, hours=100, price_per_gpu_hour=Decimal(3))
    step = Spot(groups=["g"], price_per_gpu_hour=Decimal(1), interruptions_per_hour=0.1, checkpoint_minutes=60, restart_minutes=6)
    result = answer_to([group], step)
    assert result.today.cost == 600
    assert 200 * 1.05 < result.scenario.cost < 200 * 1.08  # 1 + 0.1 x (0.5 + 0.1), and a little more


def test_a_part_stays_on_demand() -> None:
    group = Group(name="g", pods=2, hours=100, gpus_per_pod=4, price_per_gpu_hour=Decimal(3))
    step = Spot(groups=["g"], price_per_gpu_hour=Decimal(1), on_demand_share=0.25)
    result = answer_to([group], step)
    assert (result.today.cost, result.scenario.cost) == (2400, 600 + 600)
    assert result.scenario.gpu_hours == 800
    assert any(one.name.endswith("on_demand_share") and one.value == 0.25 for one in result.assumptions)


def test_stored_groups_at_their_own_prices_and_no_pod_twice() -> None:
    node = Node("n", 8, 0, 100 * H, (Price(Decimal(24), "price_book"), Price(Decimal(48), "price_book", from_ms=50 * H)))
    one, two = Pod("n", "Job/a", 2, 0, 100 * H, uid="a", team="x"), Pod("n", "Job/b", 1, 0, 10 * H, uid="b", team="x")
    context = Context("USD", {"x": Fleet((node,), (one, two)), "b": Fleet((node,), (two,))}, "October 2026", 744, 31)
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
    st.builds(Schedule, groups=chosen, active_percent=st.floats(0.1, 100)),
    st.builds(Rightsize, groups=chosen, price_per_gpu_hour=price, gpus_per_pod=st.integers(1, 8)),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(group, min_size=3, max_size=3, unique_by=lambda g: g.name), st.lists(step, min_size=1, max_size=5))
def test_a_plan_never_saves_more_than_today_costs(groups: list[Group], steps: list[Step]) -> None:
    result = answer_to(groups, *steps)
    assert result.saving <= result.today.cost
    assert sum(one["saving"] for one in result.figures["steps"]) == result.saving
    *lines, total = (Decimal(str(line[1])) for line in result.tables[0].lines)
    assert sum(lines) == pytest.approx(total)
