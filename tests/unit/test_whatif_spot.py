"""`gpucost whatif spot`: the published figures from options, and described fleets, some of them without a price."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from gpucost.config.model import Config, SpotSettings
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.whatif.answer import Answer
from gpucost.whatif.covered import Existing
from gpucost.whatif.fleet import Fleet, Price, Usage
from gpucost.whatif.reserve import Terms, uses_of
from gpucost.whatif.rightsize import merge
from gpucost.whatif.spot import answer as stored
from gpucost.whatif.spot.advice import advise
from gpucost.whatif.spot.answer import advised_to_stay
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market
from gpucost.whatif.spot.moves import SpotOptions, SpotQuery
from gpucost.whatif.spot.parts import gangs
from tests.text_tables import table, text_rows
from tests.unit.test_costing import priced
from tests.unit.whatif_costs import ask, figures, fleet, shown

# assumptions of the published figures
PLAIN = "--checkpoint-write-minutes 0 --restart-minutes 0 --capacity-wait-minutes 0"
JOB = "--on-demand-price 32 --spot-price 12 --checkpoint-minutes 30"
RATE = 0.3333333333
EXAMPLE = f"{JOB} --interruptions-per-hour {RATE}"

pytestmark = pytest.mark.usefixtures("nowhere")


@cache
def ask_once(arguments: str) -> dict[str, Any]:
    """The cached answer; tests must not change it."""
    return ask("spot", f"{PLAIN} {arguments}")


# One interruption in three hours: price times (e^(rate (c + w)) - 1) / (rate c). Four nodes are interrupted twice as
# often as one, and waiting costs no money
EXAMPLES = """
    job                         | more                                               | today | scenario    | even
    one node                    |                                                    | 23360 | 9532.3033   | 3.4414646
    a checkpoint twice as often | --checkpoint-minutes 15                            | 23360 | 9135.3537   | 6.8829291
    a gang of four              | --nodes 4                                          | 93440 | 41586.7781  | 1.7207323
    checkpoints take a minute   | --checkpoint-write-minutes 1                       | 23360 | 9878.2205   | 3.2304919
    waits for capacity          | --capacity-wait-minutes 60                         | 23360 | 9532.3033   | 3.4414646
"""


@pytest.mark.parametrize("case", table(EXAMPLES), ids=lambda case: case["job"])
def test_figures_at_one_interruption_in_three_hours(case: dict[str, str]) -> None:
    answer = ask_once(f"{EXAMPLE} {case.get('more', '')}")
    names = "today scenario break_even_interruptions_per_hour"
    expected = [float(case[name]) if case[name] != "None" else None for name in ("today", "scenario", "even")]
    for value, right in zip(figures(answer, names).split(), expected, strict=True):
        assert (None if value == "None" else float(value)) == (right and pytest.approx(right, rel=1e-6))


def test_wait_for_capacity_takes_time_per_interruption() -> None:
    answer = ask_once(EXAMPLE)
    assert round(answer["saving_percent"]) == 59 and answer["optimal_checkpoint_minutes_daly"] is None
    # waiting takes time: an hour for each interruption
    waiting, plain = (
        float(one["time"][0].split()[3])
        for one in (ask_once(EXAMPLE + " --capacity-wait-minutes 60"), answer)
    )
    assert waiting - plain == pytest.approx(100 * RATE * (1 + plain / 100), abs=0.01)


CALCULATED = """
    --on-demand-price 3 --price-per gpu --gpus 16 --hours 168                 | 8064 168 2688
    --on-demand-price 98.32 --hours 8760 --nodes 32                           | 27561062.4 280320 280320
    --on-demand-price 32 --hours 200 --nodes 2                                | 12800 400 400
"""


@pytest.mark.parametrize(("arguments", "costs"), text_rows(CALCULATED))
def test_cost_is_price_times_hours(arguments: str, costs: str) -> None:
    answer = ask_once(f"{arguments} --spot-price 1 --interruptions-per-hour 0")
    assert figures(answer, "today today.node_hours scenario") == costs


def test_node_price_and_gpu_price_give_the_same_figures() -> None:
    often = "--interruptions-per-hour 0.25 --checkpoint-minutes 30"
    per_node = ask_once(f"--on-demand-price 32.77 --spot-price 12.50 {often}")
    per_gpu = ask_once(f"--on-demand-price 4.09625 --spot-price 1.5625 --price-per gpu --gpus 8 {often}")
    names = "today scenario break_even_interruptions_per_hour"
    assert figures(per_gpu, names) == figures(per_node, names)


def test_gang_of_four_stops_twice_as_often_and_four_times_at_the_high_end() -> None:
    one, four = ask_once(EXAMPLE), ask_once(EXAMPLE + " --nodes 4")
    even = one["break_even_interruptions_per_hour"] / 2
    assert four["break_even_interruptions_per_hour"] == pytest.approx(even)
    cost = four["ranges"][0]
    costs = (cost["low"], four["scenario"]["cost"], cost["high"])
    assert costs == pytest.approx([4 * 730 * 12 * exact(Work(RATE, 0.5, hits=hits)) for hits in (1, 2, 4)])


def test_break_even_does_not_depend_on_the_rate() -> None:
    answers = [ask_once(f"{JOB} --interruptions-per-hour {rate}") for rate in (0.001, 0.05, RATE)]
    evens = {(one["break_even_interruptions_per_hour"], one["break_even"][0]) for one in answers}
    ((even, _),) = evens
    assert exact(Work(even, 0.5)) == pytest.approx(32 / 12)
    none = ask_once("--on-demand-price 12 --spot-price 12 --interruptions-per-hour 0.1")
    assert none["break_even_interruptions_per_hour"] is None
    assert any("no discount" in finding for finding in none["findings"])


def test_savings_are_listed_at_five_rates_with_and_without_checkpoints() -> None:
    lines = ask_once(EXAMPLE + " --hours 10")["tables"]["Saving by rate of interruptions"]
    assert [line["interruptions per node-hour"] for line in lines] == [0.001, 0.01, 0.05, 0.15, 0.5]
    for line in lines:
        rate = line["interruptions per node-hour"]
        for name, checkpoint in (("saving with checkpoints", 0.5), ("saving without", 10)):
            assert line[name] == pytest.approx(320 - 120 * exact(Work(rate, checkpoint)), rel=1e-6)


def test_catalog_has_prices_and_interruptions_of_an_instance_type() -> None:
    answer = ask_once("--instance-type P4D.24xlarge --region us-east-1")
    sources = {item["name"]: item for item in answer["assumptions"]}
    assert sources["on-demand price"]["source"].startswith("catalog")
    assert sources["spot price of p4d.24xlarge"]["as_of"]
    # the Spot Instance Advisor's band of the type in this region
    assert "Advisor band 10-15 % a month" in sources["interruptions of p4d.24xlarge"]["source"]
    assert figures(answer, "interruptions_per_hour today.gpu_hours") == "0.068 5840"
    assert "prices over 90 days old: p4d.24xlarge of 20" in answer["title"]
    assert "old" not in ask_once(EXAMPLE)["title"]


HOUR = MS_PER_HOUR
TYPICAL = Rate(0.1, "test")
# time factor of work with a checkpoint every half hour
OFTEN = exact(Work(0.1, 0.5))


def on_nodes(rows: str, pods: str = "a | Job/train | 8 | 0-10 | 1") -> Fleet:
    nodes = f"name | hours | prices | capacity_type\n{rows}"
    held = f"node | workload | gpus | hours | uid\n{pods}" if pods else ""
    return fleet(nodes, held, gpu_model="A100-SXM4-40GB")


ONE = "a | 0-10 | 20 | on_demand"


def moved(
    there: Fleet, price: str | None = None, market: Market | None = None, rate: Rate = TYPICAL, **more: Any
) -> Answer:
    """The answer of a move to spot; training resumes from checkpoints, as with --checkpoint-minutes."""
    usage = Usage(there, "USD", "a period", "a team", more.pop("is_narrowed", False))
    given: dict[str, Any] = {"checkpoint_write_minutes": 0.0, "restart_minutes": 0.0} | more
    config = Config(spot=SpotSettings(interruptible=list(given.pop("interruptible", ()))))
    options = SpotOptions(**{"explicit_options": ("checkpoint_minutes",)} | given)
    own_price = Price(Decimal(price), "option") if price else None
    market = replace(market or Market(), rate=lambda _: rate, price=own_price)
    return stored.answer(SpotQuery(usage, market, config, options))


def test_break_even_covers_all_work_that_suits_spot_at_any_rate() -> None:
    """At its own rate the long run costs more than on demand and stays; the break-even includes it."""
    there = on_nodes(
        "a | 0-1 | 10 | on_demand\nb | 0-100 | 10 | on_demand",
        "a | Job/eval-short | 8 | 0-1 | 1\nb | Job/eval-long | 8 | 0-100 | 2",
    )
    answers = [
        moved(there, "5", rate=Rate(rate, "test"), explicit_options=(), is_narrowed=True)
        for rate in (0.001, 0.1)
    ]
    evens = [answer.figures["break_even_interruptions_per_hour"] for answer in answers]
    assert evens[0] == evens[1]
    # at the break-even both together cost the same as on demand
    both = sum(5 * hours * exact(Work(evens[0], hours)) for hours in (1, 100))
    assert both == pytest.approx(10 * 101, rel=1e-9)
    assert float(answers[1].saving) == pytest.approx(10 - 5 * exact(Work(0.1, 1)), rel=1e-6)


def test_changing_prices_are_multiplied_by_the_interruption_factor() -> None:
    columns = ["from_ms", "to_ms", "price_per_hour"]
    rows = [dict(zip(columns, row, strict=True)) for row in ((0, 4 * HOUR, 6), (4 * HOUR, 10 * HOUR, 9))]
    known = {"price_source": "spot history", "price_as_of": None, "is_committed": False, "is_listed": False}
    market = Market(segments={("default", "a"): [known | row for row in rows]})
    answer = moved(on_nodes(ONE), market=market)
    assert figures(answer, "today scenario") == shown(200, (4 * 6 + 6 * 9) * OFTEN)
    assert figures(moved(on_nodes(ONE), "6", market), "scenario") == shown(60 * OFTEN)


def test_nodes_under_a_commitment_stay() -> None:
    both = on_nodes(
        f"{ONE}\nb | 0-10 | 20 committed | on_demand",
        "a | Job/train | 8 | 0-10 | 1\nb | Job/train | 8 | 0-10 | 2",
    )
    answer = moved(both, "6")
    assert figures(answer, "today scenario") == shown(
        400, 200 + 60 * exact(Work(0.1, 0.5, hits=math.sqrt(2)))
    )
    assert "1 node stays: under a commitment, which is paid in any case" in answer.findings
    with pytest.raises(GpucostError, match="under a commitment"):
        moved(replace(both, nodes=both.nodes[1:], pods=both.pods[1:]), "6")
    # nor does a node move that is under a commitment for a part of its time
    price = both.nodes[1].prices[0]
    later = replace(price, from_ms=5 * MS_PER_HOUR, is_committed=False)
    partly = replace(both.nodes[1], prices=(price, later))
    with pytest.raises(GpucostError, match="under a commitment"):
        moved(replace(both, nodes=(partly,), pods=both.pods[1:]), "6")


def test_reserved_nodes_and_spot_nodes_stay() -> None:
    there = on_nodes(f"{ONE}\nb | 0-10 | 11 | reserved\nc | 0-10 | 7 | spot", "")
    # unallocated GPUs are not a reason to buy spot: their saving is reported separately
    suits = "saving_by_suitability.safe saving_by_suitability.needs_work saving_by_suitability.not"
    assert figures(moved(there, "6"), f"today scenario {suits}") == "380 380 0 0 140"
    with pytest.raises(GpucostError, match="capacity type is reserved"):
        moved(replace(there, nodes=there.nodes[1:2]), "6")


def test_team_pays_its_share_of_shared_nodes() -> None:
    answer = moved(on_nodes(ONE, "a | Job/train | 2 | 0-5 | 1"), "10", is_narrowed=True)
    # GPUs of others, or unallocated ones, do not reduce the interruptions of its own work
    assert figures(answer, "today today.node_hours scenario") == shown(25, 1.25, 12.5 * OFTEN)


def test_workload_on_several_nodes_stops_with_any_of_them() -> None:
    there = on_nodes(
        "\n".join(f"{name} | 0-10 | 20 | on_demand" for name in "abc"),
        """a | Job/gang | 8 | 0-10 | 1
        b | Job/gang | 8 | 0-10 | 2
        c | Job/one | 4 | 0-5 | 3
        c | Job/one | 4 | 5-10 | 4""",
    )
    assert {name: count for (*_, name), count in gangs(there).items()} == {"Job/gang": 2, "Job/one": 1}
    # half of c is unallocated and unchanged
    expected = 100 * 2 * exact(Work(0.1, 0.5, hits=math.sqrt(2))) + 50 * OFTEN + 100
    assert figures(moved(there, "10"), "scenario") == shown(expected)


def test_only_suitable_work_is_in_the_headline() -> None:
    there = on_nodes(
        ONE,
        """a | Job/train-1 | 3 | 0-10 | 1
        a | Pod/try | 1 | 0-10 | 2
        a | Deployment/api | 2 | 0-10 | 3
        a | StatefulSet/jupyter-ann | 1 | 0-10 | 4""",
    )
    answer, costly = moved(there, "10"), moved(there, "19.9")
    # more expensive than on demand: no work moves
    assert costly.saving == 0 and costly.figures["saving_by_suitability"]["not"] < 0
    savings = answer.figures["saving_by_suitability"]
    assert answer.saving == savings["safe"]
    # per GPU of the eight; one is unallocated, with no time factor
    one = 25 - 12.5 * OFTEN
    assert figures(savings, "safe needs_work not") == shown(3 * one, one, 3 * one + 12.5)
    left = next(shown.lines for shown in answer.tables if shown.title.startswith("Workloads"))
    reasons = {str(line[-1]).partition(":")[0] for line in left if line[2] == "not"}
    assert reasons == {"serving", "a notebook", "unallocated GPUs"}


def test_own_machines_stay_at_any_spot_price() -> None:
    own = on_nodes(ONE, "a | Job/train | 8 | 0-10 | 1").with_nodes(
        lambda node: replace(node, provider=None, instance_type=None)
    )
    with pytest.raises(GpucostError, match="own machines"):
        moved(own, "10")
    # so policies do not ask for it
    query = SpotQuery(Usage(own, "USD", "", ""), Market(), Config())
    assert advised_to_stay(query) == {pod.owner for pod in own.pods} != set()


@pytest.mark.parametrize(("workload", "count"), [("StatefulSet/jupyter-ann", 1), ("Job/train-2", 0)])
def test_nodes_that_other_pods_keep_up_are_named(workload: str, count: int) -> None:
    answer = moved(on_nodes(ONE, f"a | Job/train-1 | 3 | 0-10 | 1\na | {workload} | 1 | 0-10 | 2"), "10")
    named = [text for text in answer.findings if "Other pods stay on" in text]
    assert answer.saving > 0 and len(named) == count


def test_unallocated_cost_of_an_over_allocated_node_is_in_the_table() -> None:
    """Twelve GPUs of eight are held for five hours, four for the next five: half of the node is unallocated then."""
    there = on_nodes(ONE, "a | Job/train-1 | 8 | 0-5 | 1\na | Job/train-2 | 4 | 0-10 | 2")
    answer = moved(there, "10")
    (table,) = [shown for shown in answer.tables if shown.title.startswith("Workloads")]
    costs = {line[1]: line[4] for line in table.lines}
    assert costs["unallocated"] == 50 and sum(costs.values()) == answer.today.cost == 200


def test_title_names_old_prices_of_suitable_work() -> None:
    there = on_nodes(
        f"{ONE}\nb | 0-10 | 20 | on_demand", "a | Job/train | 8 | 0-10 | 1\nb | Deployment/api | 8 | 0-10 | 2"
    )
    old = Price(Decimal(6), "catalog", "1969-01-01")
    kinds = {"a": "p4d.24xlarge", "b": "p5.48xlarge"}
    there = there.with_nodes(lambda node: replace(node, instance_type=kinds[node.name]))
    answer = moved(there, market=Market(own_prices=dict.fromkeys(kinds.values(), old)))
    assert answer.title.endswith("(prices over 90 days old: p4d.24xlarge of 1969-01-01)")


ADVICE = """
    workload               | type        | checkpoints | suits
    Job/llama-sft-03       | training    |             | needs_work
    Job/llama-sft-03       | training    | seen        | safe
    PyTorchJob/eval-pretrain |           |             | needs_work
    PyTorchJob/pretrain    |             | seen        | safe
    Job/lr-sweep-7         |             |             | safe
    CronJob/nightly        | batch       |             | safe
    Job/ide-7              | development | seen        | not
    Deployment/chat-api    |             |             | not
    InferenceService/bert  |             |             | not
    StatefulSet/jupyter-ann|             |             | not
    Notebook/ann           |             | seen        | not
    Pod/try                |             |             | needs_work
    Widget/x               |             |             | needs_work
"""


@pytest.mark.parametrize("case", table(ADVICE), ids=lambda case: case["workload"])
def test_suitability_of_a_workload(case: dict[str, str]) -> None:
    advice = advise(case["workload"], "", case.get("type", ""), case.get("checkpoints", ""))
    assert advice.suits == case["suits"]


def test_known_checkpoints_make_training_safe() -> None:
    there = on_nodes(ONE, "a | PyTorchJob/pretrain | 8 | 0-10 | 1")

    def saving(interruptible: tuple[str, ...] = (), **changed: Any) -> Decimal:
        fleet = replace(there, pods=(replace(there.pods[0], **changed),))
        return moved(fleet, "10", explicit_options=(), interruptible=interruptible).saving

    assert saving() == 0 < saving(resumes=True) == saving(("pretrain",))
    # spare replicas are known only from the config
    assert saving(workload="Deployment/api") == 0 < saving(("Deployment/*",), workload="Deployment/api")


def test_cost_has_a_low_and_a_high_end() -> None:
    answer = ask_once(
        "--instance-type p3.2xlarge --region us-east-1 --hours 100 --on-demand-price 3.06 --spot-price 1"
    )
    (cost,) = answer["ranges"]
    # p3 is in the Advisor's highest band
    for end, rate in (("low", 0.06), ("high", 0.74)):
        times = exact(Work(rate, 0.5))
        assert cost[end] == pytest.approx(100 * times, rel=1e-6)
    assert answer["scenario"]["cost"] == pytest.approx(100 * exact(Work(0.26, 0.5)), rel=1e-6)
    # a gang of 32 with separate interruptions at the high end never finishes: no figure is given
    gang = ask_once("--on-demand-price 32 --spot-price 12 --nodes 32 --interruptions-per-hour 1")
    assert "never end" in gang["time"][1] and not gang["ranges"]


def test_on_demand_share_stays_on_demand() -> None:
    whole, part = ask_once(EXAMPLE), ask_once(EXAMPLE + " --on-demand-share 0.25")
    cost = 0.25 * whole["today"]["cost"] + 0.75 * whole["scenario"]["cost"]
    assert part["scenario"]["cost"] == pytest.approx(cost, rel=1e-9)
    assert part["break_even_interruptions_per_hour"] == whole["break_even_interruptions_per_hour"]
    # four nodes of one job: the on-demand anchors continue, the others lose only their own work
    gang, factor = ask_once(EXAMPLE + " --nodes 4 --on-demand-share 0.25"), exact(Work(RATE, 0.5))
    assert gang["scenario"]["cost"] == pytest.approx(4 * 730 * (0.25 * 32 + 0.75 * 12 * factor), rel=1e-9)
    nothing = ask_once(EXAMPLE + " --on-demand-share 1")
    assert nothing["saving"] == 0 and nothing["break_even_interruptions_per_hour"] is None


def test_work_without_a_price_does_not_move_and_is_not_offered() -> None:
    known, unknown = on_nodes(ONE), priced("").with_nodes(lambda node: replace(node, name="b"))
    answer = moved(Fleet(known.nodes + unknown.nodes, known.pods), "5")
    assert 0 < answer.saving < answer.today.cost == 200
    assert any("the price of p4d.24xlarge is unknown" in finding for finding in answer.findings)
    with pytest.raises(GpucostError, match="is unknown"):
        moved(unknown, "5")
    offers = [len(merge(there.nodes, ())) for there in (known, unknown)]
    assert offers == [1, 0]
    # commitments use the list price
    price, period = Price(Decimal(32), "catalog"), Period(from_ms(0), from_ms(10 * HOUR))
    terms = {Terms("on_demand", 0, ""): price}
    offers_of = {("aws", "us-east-1", "p4d.24xlarge"): terms}
    (use,) = uses_of(unknown, period, Existing(False), offers_of, is_narrowed=False)
    assert use.on_demand == price
