"""`gpucost whatif spot`: the published figures from options, and described fleets moved, of which some is not priced."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.whatif.answer import Answer
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.covered import Existing
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage, fleet_of
from gpucost.whatif.reserve import Terms, uses_of
from gpucost.whatif.rightsize import fleet_offers
from gpucost.whatif.spot import answer as stored
from gpucost.whatif.spot.advice import advise
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, PriceChanges
from gpucost.whatif.spot.moves import SpotOptions, SpotQuery, Target, gangs
from tests.unit.whatif_costs import ask, assert_refused

# assumptions of the worked figures
PLAIN = "--checkpoint-write-minutes 0 --restart-minutes 0 --notice-seconds 0 --capacity-wait-minutes 0"
EXAMPLE = "--on-demand-price 32 --spot-price 12 --interruptions-per-hour 0.3333333333 --checkpoint-minutes 30"


pytestmark = pytest.mark.usefixtures("nowhere")


@cache
def ask_once(arguments: str) -> dict[str, Any]:
    """The answer, which no test may change: it is asked once."""
    return ask("spot", f"{PLAIN} {arguments}")


def test_one_interruption_in_three_hours() -> None:
    answer = ask_once(EXAMPLE)
    assert answer["effective_price_first_order"] == 13.0
    assert answer["effective_price_exact"] == pytest.approx(13.05795)
    assert round(answer["saving_percent"]) == 59
    assert answer["today"]["cost"] == 23_360.0
    assert answer["scenario"]["cost_first_order"] == pytest.approx(13 * 730, abs=0.005)
    assert answer["optimal_checkpoint_minutes"] is None
    assert answer["break_even_interruptions_per_hour_first_order"] == pytest.approx(20 / 12 / 0.25)
    # a checkpoint twice as often halves what is lost
    assert ask_once(EXAMPLE.replace("minutes 30", "minutes 15"))["effective_price_first_order"] == 12.5


@pytest.mark.parametrize(
    ("arguments", "cost", "node_hours"),
    [
        ("--on-demand-price 3 --price-per gpu --gpus 16 --hours 168", 8_064.0, 168),
        ("--on-demand-price 98.32 --hours 8760 --nodes 32", 27_561_062.40, 8760 * 32),
        ("--on-demand-price 32 --active-hours-per-day 10 --days 20 --nodes 2", 32 * 200 * 2, 200 * 2),
    ],
)
def test_cost_is_price_times_hours(arguments: str, cost: float, node_hours: float) -> None:
    answer = ask_once(f"{arguments} --spot-price 1 --interruptions-per-hour 0")
    spot = node_hours * (16 if "gpu" in arguments else 1)
    assert (answer["today"]["cost"], answer["today"]["node_hours"], answer["scenario"]["cost"]) == (
        cost,
        node_hours,
        spot,
    )


def test_a_nodes_price_is_not_a_gpus() -> None:
    often = "--interruptions-per-hour 0.25 --checkpoint-minutes 30"
    per_node = ask_once(f"--on-demand-price 32.77 --spot-price 12.50 {often}")
    assert per_node["lost_per_interruption"] == 3.125
    assert per_node["saved_between_interruptions"] == 81.08
    per_gpu = ask_once(f"--on-demand-price 4.09625 --spot-price 1.5625 --price-per gpu --gpus 8 {often}")
    assert (per_gpu["lost_per_interruption"], per_gpu["saved_between_interruptions"]) == (3.125, 81.08)
    assert per_gpu["today"] == per_node["today"]
    assert per_gpu["scenario"]["cost"] == per_node["scenario"]["cost"]
    assert per_gpu["price_per"] == "gpu"
    assert per_gpu["effective_price_exact"] == pytest.approx(per_node["effective_price_exact"] / 8, abs=1e-6)


def test_a_gang_of_four_stops_twice_as_often_as_one_node_and_four_times_at_the_high_end() -> None:
    one, four = ask_once(EXAMPLE), ask_once(EXAMPLE + " --nodes 4")
    assert four["effective_price_first_order"] == pytest.approx(12 * (1 + 2 / 12), abs=1e-6)
    assert four["break_even_interruptions_per_hour"] == pytest.approx(
        one["break_even_interruptions_per_hour"] / 2
    )
    lines = four["tables"]["What moves, by how often it is interrupted"]
    for line, hits in zip(lines, (1, 2, 4), strict=True):
        assert line["cost"] == pytest.approx(4 * 730 * 12 * exact(Work(0.3333333333, 0.5, hits=hits)))


def test_the_break_even_does_not_move_with_the_rate() -> None:
    rates = (0.001, 0.05, 0.3333333333)
    answers = [ask_once(EXAMPLE.replace("0.3333333333", str(rate))) for rate in rates]
    even = answers[0]["break_even_interruptions_per_hour"]
    assert exact(Work(even, 0.5)) == pytest.approx(32 / 12)
    assert [answer["break_even_interruptions_per_hour"] for answer in answers] == [even] * 3
    assert all(answer["break_even"][0] == answers[0]["break_even"][0] for answer in answers)


def test_savings_stand_at_five_rates_with_and_without_checkpoints() -> None:
    lines = ask_once(EXAMPLE + " --hours 10")["tables"]["Saving by rate of interruptions"]
    assert [line["interruptions per node-hour"] for line in lines] == [0.001, 0.01, 0.05, 0.15, 0.5]
    for line in lines:
        rate = line["interruptions per node-hour"]
        for name, checkpoint in (("saving with checkpoints", 0.5), ("saving without", 10)):
            assert line[name] == pytest.approx(320 - 120 * exact(Work(rate, checkpoint)), rel=1e-6)


def test_a_checkpoint_that_fits_the_notice_saves_the_loss() -> None:
    saved = ask_once(EXAMPLE + " --notice-seconds 120 --checkpoint-write-minutes 0")
    assert saved["effective_price_first_order"] == 12.0
    too_short = ask_once(EXAMPLE + " --notice-seconds 30 --checkpoint-write-minutes 1")
    unnoticed = ask_once(EXAMPLE + " --checkpoint-write-minutes 1")
    assert too_short["effective_price_exact"] == unnoticed["effective_price_exact"]


def test_waits_for_capacity_cost_no_money() -> None:
    plain, waiting = ask_once(EXAMPLE), ask_once(EXAMPLE + " --capacity-wait-minutes 60")
    assert waiting["scenario"]["cost"] == plain["scenario"]["cost"]
    interruptions = plain["makespan_hours"]["expected_interruptions"]
    assert waiting["makespan_hours"]["expected"] == pytest.approx(
        plain["makespan_hours"]["expected"] + interruptions, abs=1e-5
    )


def test_the_reverse_swaps_sides() -> None:
    to_spot, back = ask_once(EXAMPLE), ask_once(EXAMPLE + " --move-to on-demand")
    assert back["today"]["cost"] == to_spot["scenario"]["cost"]
    assert back["saving"] == -to_spot["saving"]


def test_spot_at_the_on_demand_price_is_no_discount() -> None:
    answer = ask_once("--on-demand-price 12 --spot-price 12 --interruptions-per-hour 0.1")
    assert answer["has_discount"] is False
    assert answer["break_even_interruptions_per_hour"] is None
    assert any("no discount" in finding for finding in answer["findings"])


def test_the_catalog_knows_prices_and_interruptions_of_an_instance_type() -> None:
    answer = ask_once("--instance-type P4D.24xlarge --region us-east-1")
    sources = {item["name"]: item for item in answer["assumptions"]}
    assert sources["on-demand price"]["source"].startswith("catalog")
    assert sources["spot price"]["as_of"]
    # the Spot Instance Advisor's band of the type in that region
    assert "Advisor band 10-15 % a month" in sources["interruptions"]["source"]
    assert answer["interruptions_per_hour"] == 0.068
    assert answer["today"]["gpu_hours"] == 8 * 730
    assert (
        "prices over 90 days old: p4d.24xlarge of 20" in answer["title"]
        and "old" not in ask_once(EXAMPLE)["title"]
    )


def test_lines_take_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["whatif", "spot", *PLAIN.split(), *EXAMPLE.split()]
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = CliRunner().invoke(app, words).stdout
        assert max(map(len, text.splitlines())) <= columns and "13.0000 by first order" in text
    markdown = CliRunner().invoke(app, [*words, "--format", "markdown"]).stdout
    assert max(map(len, markdown.splitlines())) > 80


HOUR = MS_PER_HOUR
TYPICAL = Rate(0.1, "test")


def node(name: str, hours: int, price: str, capacity_type: str = "on_demand", gpus: int = 8) -> Node:
    return Node(
        name, gpus, 0, hours * HOUR, (Price(Decimal(price), "price_book"),), capacity_type, provider="aws", region="us-east-1",
        zone="us-east-1a", instance_type="p4d.24xlarge",
    )  # fmt: skip


def moved(
    fleet: Fleet,
    market: Market | None = None,
    *,
    is_narrowed: bool = False,
    price: str | None = None,
    to: Target = Target.spot,
) -> Answer:
    amount = Price(Decimal(price), "option") if price else None
    usage = Usage(fleet, "USD", "a period", "a team", is_narrowed)
    query = SpotQuery(usage, market or Market("USD"), TYPICAL, amount)
    # --checkpoint-minutes is given: training goes on from its checkpoints
    given = {
        "checkpoint_write_minutes": 0.0,
        "restart_minutes": 0.0,
        "notice_seconds": 0.0,
        "given": ("checkpoint_minutes",),
    }
    return stored.answer(SpotOptions(to=to, **given), query)


def test_the_break_even_is_of_all_work_that_suits_spot_whatever_its_rate() -> None:
    """The long run would cost more than on demand at its own rate and stays; the break-even counts it all the same."""
    pods = (
        Pod("a", "Job/eval-short", 8, 0, HOUR, uid="1"),
        Pod("b", "Job/eval-long", 8, 0, 100 * HOUR, uid="2"),
    )
    fleet = Fleet((node("a", 1, "10"), node("b", 100, "10")), pods)
    evens = []
    for rate in (0.001, 0.1):
        usage = Usage(fleet, "USD", "a period", "a team", is_narrowed=True)
        options = SpotOptions(checkpoint_write_minutes=0.0, restart_minutes=0.0, notice_seconds=0.0)
        query = SpotQuery(usage, Market("USD"), Rate(rate, "test"), Price(Decimal(5), "option"))
        answer = stored.answer(options, query)
        evens.append(answer.figures["break_even_interruptions_per_hour"])
    assert evens[0] == evens[1]
    # at the break-even both cost together what they cost on demand
    there = sum(5 * hours * exact(Work(evens[0], hours)) for hours in (1, 100))
    assert there == pytest.approx(10 * 101, rel=1e-9)
    assert float(answer.saving) == pytest.approx(10 - 5 * exact(Work(0.1, 1)), rel=1e-6)


def test_spot_steps_of_the_nodes_own_zone_times_what_interruptions_cost() -> None:
    fleet = Fleet((node("a", 10, "20"),), (Pod("a", "Job/train", 8, 0, 10 * HOUR, uid="1"),))
    own = PriceChanges("us-east-1", "us-east-1a", (-HOUR, 4 * HOUR), (Decimal(6), Decimal(9)), 100 * HOUR)
    other = PriceChanges("us-east-1", "us-east-1b", (-HOUR,), (Decimal(1),), 100 * HOUR)
    market = Market("USD", history={"p4d.24xlarge": [("aws", other), ("aws", own)]})
    answer = moved(fleet, market)
    assert answer.today.cost == 200
    assert float(answer.scenario.cost) == pytest.approx((4 * 6 + 6 * 9) * exact(Work(0.1, 0.5)), rel=1e-9)
    assert answer.figures["spot_price"] == pytest.approx(7.8)
    assert answer.figures["effective_price_per_gpu_hour_exact"] == pytest.approx(
        7.8 * exact(Work(0.1, 0.5)) / 8, abs=1e-6
    )


def test_a_price_of_the_option_comes_first_then_history_own_nodes_and_the_list() -> None:
    fleet = Fleet((node("a", 10, "20"),), (Pod("a", "Job/train", 8, 0, 10 * HOUR, uid="1"),))
    listed = {
        ("p4d.24xlarge", "spot"): [("aws", "us-east-1", "*", Price(Decimal(3), "catalog", "2025-01-01"))]
    }
    own = {("p4d.24xlarge", "spot"): Decimal(4)}
    history = {
        "p4d.24xlarge": [("aws", PriceChanges("us-east-1", "us-east-1a", (0,), (Decimal(5),), 100 * HOUR))]
    }
    late = {
        "p4d.24xlarge": [("aws", PriceChanges("us-east-1", "us-east-1a", (1,), (Decimal(5),), 100 * HOUR))]
    }
    for market, price, expected in (
        (Market("USD", listed), None, 30),
        (Market("USD", listed, late, own), None, 40),  # history that begins too late prices nothing
        (Market("USD", listed, history, own), None, 50),
        (Market("USD", listed, history, own), "6", 60),
    ):
        assert float(moved(fleet, market, price=price).scenario.cost) == pytest.approx(
            expected * exact(Work(0.1, 0.5)), rel=1e-9
        )


def test_nodes_under_a_commitment_stay() -> None:
    plan = (Price(Decimal(20), "bill", is_committed=True),)
    pods = (Pod("a", "Job/train", 8, 0, 10 * HOUR, uid="1"), Pod("b", "Job/train", 8, 0, 10 * HOUR, uid="2"))
    fleet = Fleet((node("a", 10, "20"), replace(node("b", 10, "20"), prices=plan)), pods)
    answer = moved(fleet, price="6")
    assert answer.figures["moved_nodes"] == 1
    assert "1 node(s) stay as they are: under a commitment, which is paid in any case" in answer.findings
    with pytest.raises(GpucostError, match="under a commitment"):
        moved(replace(fleet, nodes=fleet.nodes[1:], pods=pods[1:]), price="6")


def test_reserved_nodes_stay_and_the_reverse_takes_spot_nodes_back() -> None:
    fleet = Fleet((node("a", 10, "20"), node("b", 10, "11", "reserved"), node("c", 10, "7", "spot")))
    there = moved(fleet, price="6")
    # GPUs that nobody holds are no reason to buy spot: what they would save is told apart
    assert there.today.cost == there.scenario.cost == 380
    assert there.figures["saving_by_suitability"] == {"safe": 0, "needs_work": 0, "not": 140}
    assert there.figures["moved_nodes"] == 1
    back = moved(fleet, price="20", to=Target.on_demand)
    assert back.scenario.cost == 510
    with pytest.raises(GpucostError, match="bought as reserved"):
        moved(Fleet((node("b", 10, "11", "reserved"),)), price="6")


def test_a_team_pays_its_share_of_nodes_that_others_hold_too() -> None:
    fleet = Fleet((node("a", 10, "20"),), (Pod("a", "Job/train", 2, 0, 5 * HOUR, uid="1"),))
    answer = moved(fleet, price="10", is_narrowed=True)
    assert answer.today.cost == 25
    assert answer.today.node_hours == pytest.approx(1.25)
    assert answer.figures["moved_gpu_hours"] == 10
    # what others hold, or nobody, does not thin the interruptions of its own work
    assert float(answer.scenario.cost) == pytest.approx(12.5 * exact(Work(0.1, 0.5)), rel=1e-9)


def test_a_workload_over_several_nodes_stops_when_any_of_them_does() -> None:
    nodes = tuple(node(name, 10, "20") for name in "abc")
    pods = (
        Pod("a", "Job/gang", 8, 0, 10 * HOUR, uid="1"),
        Pod("b", "Job/gang", 8, 0, 10 * HOUR, uid="2"),
        Pod("c", "Job/one", 4, 0, 5 * HOUR, uid="3"),
        Pod("c", "Job/one", 4, 5 * HOUR, 10 * HOUR, uid="4"),
    )
    fleet = Fleet(nodes, pods)
    assert gangs(fleet) == {("default", "default", "Job/gang"): 2, ("default", "default", "Job/one"): 1}
    answer = moved(fleet, price="10")
    # half of c is free, and stays as it is
    expected = 100 * 2 * exact(Work(0.1, 0.5, hits=math.sqrt(2))) + 50 * exact(Work(0.1, 0.5)) + 100
    assert float(answer.scenario.cost) == pytest.approx(expected, rel=1e-9)


def test_only_what_suits_spot_is_in_the_headline() -> None:
    pods = (
        Pod("a", "Job/train-1", 3, 0, 10 * HOUR, uid="1"),
        Pod("a", "Pod/try", 1, 0, 10 * HOUR, uid="2"),
        Pod("a", "Deployment/api", 2, 0, 10 * HOUR, uid="3"),
        Pod("a", "StatefulSet/jupyter-ann", 1, 0, 10 * HOUR, uid="4"),
    )
    answer = moved(Fleet((node("a", 10, "20"),), pods), price="10")
    dear = moved(Fleet((node("a", 10, "20"),), pods), price="19.9")
    assert (
        dear.saving == 0 and dear.figures["saving_by_suitability"]["not"] < 0
    )  # costs more than on demand: nothing moves
    savings, there = answer.figures["saving_by_suitability"], exact(Work(0.1, 0.5))
    assert answer.saving == savings["safe"]
    # per GPU of the eight; one is free, and nothing stretches its time
    expected = {
        "safe": 3 * (25 - 12.5 * there),
        "needs_work": 25 - 12.5 * there,
        "not": 3 * (25 - 12.5 * there) + 12.5,
    }
    assert {name: float(saving) for name, saving in savings.items()} == pytest.approx(expected, rel=1e-9)
    left = next(table for table in answer.tables if table.title.startswith("Left on demand"))
    assert {str(line[3]).partition(":")[0] for line in left.lines if line[0] == "not"} == {
        "serving", "a notebook", "GPUs that nobody held"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "workload_type", "checkpoints", "suits"),
    [
        ("Job/llama-sft-03", "training", "", "needs_work"), ("Job/llama-sft-03", "training", "seen", "safe"),
        ("PyTorchJob/eval-pretrain", "", "", "needs_work"), ("PyTorchJob/pretrain", "", "seen", "safe"),
        ("Job/lr-sweep-7", "", "", "safe"), ("CronJob/nightly", "batch", "", "safe"), ("Job/ide-7", "development", "seen", "not"),
        ("Deployment/chat-api", "", "", "not"), ("InferenceService/bert", "", "", "not"),
        ("StatefulSet/jupyter-ann", "", "", "not"),
        ("Notebook/ann", "", "seen", "not"), ("Pod/try", "", "", "needs_work"), ("Widget/x", "", "", "needs_work"),
    ],
)  # fmt: skip
def test_advice(workload: str, workload_type: str, checkpoints: str, suits: str) -> None:
    assert advise(workload, "", workload_type, checkpoints).suits == suits


def test_what_is_known_of_checkpoints_makes_training_safe() -> None:
    def saving(pod: Pod, **more: Any) -> Decimal:
        usage = Usage(Fleet((node("a", 10, "20"),), (pod,)), "USD", "a period", "a team")
        query = SpotQuery(usage, Market("USD"), TYPICAL, Price(Decimal(10), "option"), **more)
        return stored.answer(SpotOptions(), query).saving

    pod = Pod("a", "PyTorchJob/pretrain", 8, 0, 10 * HOUR, uid="1")
    assert saving(pod) == 0
    assert saving(replace(pod, resumes=True)) == saving(pod, interruptible=["pretrain"]) > 0
    # replicas to spare are known from the config alone
    serving = replace(pod, workload="Deployment/api")
    assert saving(serving) == 0 < saving(serving, interruptible=["Deployment/*"])


def test_low_middle_and_high_are_three_lines_of_cost_and_time() -> None:
    answer = ask_once(
        "--instance-type p3.2xlarge --region us-east-1 --hours 100 --on-demand-price 3.06 --spot-price 1"
    )
    low, middle, high = answer["tables"]["What moves, by how often it is interrupted"]
    # p3 is in the Advisor's highest band
    assert [line["per node-hour"] for line in (low, middle, high)] == [0.06, 0.26, 0.74]
    for line in (low, middle, high):
        times = exact(Work(line["per node-hour"], 0.5))
        assert line["cost"] == pytest.approx(100 * times, rel=1e-6)
        assert (line["node-hours"], line["% longer"]) == (
            pytest.approx(100 * times, abs=0.06),
            pytest.approx((times - 1) * 100, abs=0.01),
        )
    assert middle["cost"] == answer["scenario"]["cost"]
    assert [(one["low"], one["high"]) for one in answer["ranges"]][-1] == (low["cost"], high["cost"])
    # a gang of 32, each node interrupted alone at the high end, never ends: no figure is made up
    gang = ask_once("--on-demand-price 32 --spot-price 12 --nodes 32 --interruptions-per-hour 1")
    assert [
        line["cost"] is None for line in gang["tables"]["What moves, by how often it is interrupted"]
    ] == [False, False, True]
    assert any("never end" in finding for finding in gang["findings"]) and not gang["ranges"]


def test_defaults_are_above_zero_and_have_sources() -> None:
    answer = ask("spot", "--on-demand-price 32 --spot-price 12")
    known = {item["name"]: item for item in answer["assumptions"]}
    for name in ("interruptions", "writing a checkpoint", "restart (provision, pull, load)", "notice of an interruption",
                 "wait for capacity (time, not paid)"):  # fmt: skip
        assert known[name]["value"] > 0 and len(known[name]["source"]) > len("default"), name
    assert SpotOptions().notice("aws")[0] == 120 and SpotOptions().notice("azure")[0] == 30
    assert answer["makespan_hours"]["expected"] > answer["makespan_hours"]["expected_paid"] > 730


def test_a_part_stays_on_demand() -> None:
    whole, none = ask_once(EXAMPLE), ask_once(EXAMPLE + " --on-demand-share 0.25")
    today, spot = whole["today"]["cost"], whole["scenario"]["cost"]
    assert none["scenario"]["cost"] == pytest.approx(0.25 * today + 0.75 * spot, rel=1e-9)
    assert none["break_even_interruptions_per_hour"] == whole["break_even_interruptions_per_hour"]
    # four nodes of one job: the anchors on demand go on, the others lose their own work alone
    gang = ask_once(EXAMPLE + " --nodes 4 --on-demand-share 0.25")
    factor = exact(Work(0.3333333333, 0.5))
    assert gang["scenario"]["cost"] == pytest.approx(4 * 730 * (0.25 * 32 + 0.75 * 12 * factor), rel=1e-9)
    assert gang["effective_price_exact"] == pytest.approx(8 + 9 * factor, abs=1e-6)
    # what moves takes longer, what stays does not
    (line,), (more,) = (one["tables"]["What moves, by how often it is interrupted"] for one in (whole, none))
    assert more["node-hours"] - 730 == pytest.approx(0.75 * (line["node-hours"] - 730), abs=0.1)
    assert_refused("spot", EXAMPLE + " --on-demand-share 1", "nothing would move")


def test_list_price_of_a_zone_else_the_lower_median_of_its_regions() -> None:
    def price(amount: int) -> Price:
        return Price(Decimal(amount), "catalog", "2025-01-01")

    rows = [("aws", "r1", f"z{amount}", price(amount)) for amount in (1, 2, 3, 4)] + [
        ("aws", "r2", "", price(9))
    ]
    rows += [("aws", "r1", "*", price(2))]  # as list_prices.sql has it
    market = Market("USD", {("t", "spot"): rows})
    find = partial(market.list_price, option="spot")
    for place, amount in (
        (Place("T", "aws", "r1", "z3"), 3),
        (Place("t", "aws", "r1", "elsewhere"), 2),
        (Place("t", "aws", "r1", "z1", "z4"), 4),
        (Place("t", None, "R2"), 9),
    ):
        listed_price = find(place)
        assert listed_price is not None and listed_price.per_node_hour == amount
    assert find(Place("t")) is None  # regions differ
    assert find(Place("t", "gcp", "r1")) is None


ROW = {
    "node_id": 1, "cluster": "c", "node": "a", "gpu_count": 8.0, "from_ms": 0, "to_ms": 10 * HOUR, "capacity_type": "on_demand",
    "provider": "aws", "region": "us-east-1", "zone": None, "zone_id": None, "instance_type": "p4d.24xlarge",
    "gpu_model": "A100-SXM4-40GB", "has_users": True,
}  # fmt: skip


def priced(*segments: tuple[int, int, int]) -> Fleet:
    """A node of the store with these (from hour, to hour, price)."""
    keys = ("from_ms", "to_ms", "price_per_hour", "node_id", "price_source", "price_as_of", "is_committed")
    values = (
        (start * HOUR, end * HOUR, Decimal(price), 1, "price_book", None, False)
        for start, end, price in segments
    )
    return fleet_of([ROW], [dict(zip(keys, row, strict=True)) for row in values], [])


@pytest.mark.parametrize(
    ("segments", "cost", "is_priced"),
    [
        ([(0, 10, 20)], 200, True),
        ([(0, 4, 20), (6, 10, 20)], 160, False),
        ([(2, 5, 20)], 60, False),
        ([(-5, 3, 20), (3, 20, 10)], 130, True),
        ([], 0, False),
    ],
)
def test_a_stretch_without_a_price_costs_nothing(
    segments: list[tuple[int, int, int]], cost: int, is_priced: bool
) -> None:
    fleet = priced(*segments)
    assert (fleet_costs(fleet).node_cost, fleet.nodes[0].is_priced) == (cost, is_priced)


def test_what_is_not_priced_does_not_move_and_is_no_offer() -> None:
    known, unknown = priced((0, 10, 20)), priced()
    pods = (Pod("a", "Job/train", 8, 0, 10 * HOUR, uid="1", cluster="c"),)
    answer = moved(Fleet((known.nodes[0], replace(unknown.nodes[0], name="b")), pods), price="5")
    assert 0 < answer.saving < answer.today.cost == 200
    assert any("what p4d.24xlarge cost now is not known" in finding for finding in answer.findings)
    with pytest.raises(GpucostError, match="not known"):
        moved(unknown, price="5")
    assert fleet_offers(unknown.nodes) == []
    assert [one.price_per_gpu_hour for one in fleet_offers(known.nodes)] == [2.5]
    # commitments fall back on the list price
    listed, period = Price(Decimal(32), "catalog"), Period(from_ms(0), from_ms(10 * HOUR))
    offers = {Terms("on_demand", 0, ""): listed}
    (use,) = uses_of(unknown, period, Existing(False), lambda _: offers, is_narrowed=False)
    assert use.on_demand == listed
