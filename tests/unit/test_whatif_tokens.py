"""`gpucost whatif selfhost` and `whatif api`: a model's tokens from own GPUs against an API's, by hand."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpucost.errors import UsageError
from gpucost.questions.units import reading as units
from gpucost.whatif.answer import Answer
from gpucost.whatif.cost import CostBlock, charge
from gpucost.whatif.fleet import Price
from gpucost.whatif.reserve import Terms
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.tokens import (
    ApiPrice,
    DescribedTokens,
    Growth,
    OwnCost,
    OwnServing,
    PacedHour,
    Purchase,
    Replicas,
    Throughput,
    TokenHours,
    api,
    described_tokens,
    measured_throughput,
    paced_throughput,
    parse_count,
    selfhost,
)
from tests.unit.whatif_costs import ask, assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

MILLION, DAY = 1_000_000, date(2026, 11, 20)
PRICE = ApiPrice("m", Decimal(1), Decimal(4), "test")
# ten million prompt tokens and one generated million in each hour
TOKENS = "--prompt-tokens-per-day 240M --generation-tokens-per-day 24M"
PRICES = "--input-price-per-million 1 --output-price-per-million 4"
# two GPUs that do 11,000 tokens of both kinds a second: 12.6 million generated ones an hour by weight, of which 7.56 are used
REPLICA = "--gpus-per-replica 2 --replica-tokens-per-second 11000"
NODE = "--on-demand-price 10"
WORDS = f"{TOKENS} --peak-factor 1 {PRICES} {REPLICA} {NODE}"


def own(per_second: float = 2500, **changes: Any) -> OwnServing:
    """One replica a node, of 9 million generated tokens an hour at a target of 1, $1 an hour."""
    plan = Replicas(**{"target_utilization": 1.0, "spare_replicas": 0} | changes.pop("plan", {}))
    rest: dict[str, Any] = {
        "gpus": 8.0,
        "gpus_per_replica": 8,
        "on_demand": Price(Decimal(1), "test"),
    } | changes
    return OwnServing(
        "node", throughput=Throughput(per_second, per_second, per_second, "test"), plan=plan, **rest
    )


def purchase(tokens: TokenHours, price: ApiPrice, percent: float | None = None, **more: Any) -> Purchase:
    return Purchase(tokens, price, Growth(percent, "test", DAY), "USD", "a test", DAY, **more)


def hosted(
    tokens: TokenHours, serving: OwnServing, price: ApiPrice = PRICE, percent: float | None = None
) -> Answer:
    return selfhost(purchase(tokens, price, percent), serving)


def generated(*millions: float) -> TokenHours:
    """Hours of generated tokens alone."""
    return TokenHours((0.0,) * len(millions), tuple(one * MILLION for one in millions))


def ways(answer: Answer) -> dict[str, Any]:
    return {row["way"]: row for row in answer.figures["ways"]}


def test_an_even_day_by_hand() -> None:
    answer = ask("selfhost", WORDS)
    # 7,200 million prompt tokens at $1, 720 million generated ones at $4; one replica and a spare one fit on one node
    assert (answer["today"]["cost"], answer["scenario"]["cost"], answer["saving"]) == (10080, 7200, 2880)
    assert (answer["replicas_at_peak"], answer["nodes"], answer["prompt_tokens"]) == (1, 1, 7_200_000_000)
    # a node has room for four replicas of 12.6 million an hour, and 3.5 million are done
    assert answer["utilization_percent"] == pytest.approx(3.5 / (4 * 12.6) * 100, abs=1e-6)
    bought, always = answer["ways"][:2]
    assert (bought["cost_per_million_prompt_tokens"], bought["cost_per_million_generation_tokens"]) == (1, 4)
    # prompts are 2.5 of 3.5 parts of the work
    assert always["cost_per_million_tokens"] == pytest.approx(7200 / 7920, abs=1e-9)
    assert always["cost_per_million_prompt_tokens"] == pytest.approx(2.5 / 3.5, abs=1e-9)
    assert always["cost_per_million_generation_tokens"] == pytest.approx(10 / 3.5, abs=1e-9)
    # $7,300 a month at 14/11 of a dollar per million
    assert answer["break_even_tokens_per_month"] == pytest.approx(7300 * 11 / 14 * MILLION, rel=1e-9)
    assert (
        answer["break_even_on"] is None
        and "--growth-percent-per-month" in answer["break_even_on_is_null_because"]
    )


def test_the_busiest_hour_decides_and_others_stand_beside_it() -> None:
    """A factor of 1.92 makes hour k of a day have k / 300 of its tokens."""
    described = DescribedTokens(
        prompt_tokens_per_day="0", generation_tokens_per_day="300M", peak_factor=1.92, days=1
    )
    tokens, name = described_tokens(described)
    assert name == "1 days" and tokens.generated == pytest.approx([hour * MILLION for hour in range(1, 25)])
    offers = {Terms("reserved", 1, "no_upfront"): Price(Decimal("0.6"), "test"), Terms("reserved", 3, "no_upfront"):
              Price(Decimal("0.99"), "test")}  # fmt: skip
    spot = {"spot": Price(Decimal("0.4"), "test"), "rate": Rate(0.5, "test", low=0.25, high=1.0)}
    answer = hosted(tokens, own(offers=offers, **spot))
    cost = {name: row["cost"] for name, row in ways(answer).items()}
    # 1 replica to the 9th hour, 2 to the 18th, then 3: 45 node-hours and two starts of 12 minutes; two nodes are in use in
    # 60 % of the hours and more, and a node over them in a quarter; the start of it is on demand
    assert cost == {
        "API: m": 1200,
        "on demand, always on": 72,
        "on demand, by the hour": Decimal("45.4"),
        "reserved, 1 year, no upfront": Decimal("0.6") * 48 + 6 + Decimal("0.2"),
        "reserved, 3 years, no upfront": Decimal("0.99") * 24 + 21 + Decimal("0.4"),
        "spot, by the hour": Decimal("45.4") * Decimal("1.1") * Decimal("0.4"),
    }
    assert (answer.scenario.cost, answer.scenario.more) == (72, {"nodes": 3, "replicas": 3})
    assert answer.figures["replicas_mean"] == 45 / 24
    (spot_range,) = answer.ranges
    assert (spot_range.low, spot_range.high) == (Decimal("19.068"), Decimal("21.792"))


def test_spare_replicas_and_whole_nodes() -> None:
    # 2 + 1 replicas of 3 GPUs: two fit on a node of 8
    packed = hosted(generated(18), own(gpus_per_replica=3, plan={"spare_replicas": 1}))
    assert packed.figures["nodes"] == 2
    # a replica of 12 GPUs takes two nodes, each alone
    wide = hosted(generated(18), own(gpus_per_replica=12, plan={"spare_replicas": 1}))
    assert wide.figures["nodes"] == 6
    assert wide.figures["utilization_percent"] == pytest.approx(18 / (3 * 9) * 100)
    # at a target of half, twice as many
    assert hosted(generated(18), own(plan={"target_utilization": 0.5})).figures["nodes"] == 4


def test_scale_to_zero_pays_for_starts_and_says_who_waits() -> None:
    tokens = generated(0, 9, 0, 18)
    answer = hosted(tokens, own(plan={"min_replicas": 0, "spare_replicas": 1, "start_minutes": 30.0}))
    # 2 nodes, then 3, each started for half an hour
    assert ways(answer)["on demand, by the hour"]["cost"] == Decimal("7.5")
    assert ways(answer)["on demand, always on"]["cost"] == 12
    assert "In 2 of 4 hours there is no replica" in answer.time[-1]
    kept = hosted(tokens, own(plan={"spare_replicas": 1, "start_minutes": 30.0}))
    # two nodes stay; one more is started once
    assert ways(kept)["on demand, by the hour"]["cost"] == Decimal("9.5") and len(kept.time) == 2


def test_own_nodes_never_pay_where_each_further_replica_costs_more() -> None:
    # a full replica makes 9 million tokens for $1, which the API sells for 99 cents
    cheap = ApiPrice("m", Decimal(0), Decimal("0.11"), "test")
    answer = hosted(generated(90), own(), cheap, 10.0)
    assert (answer.figures["break_even_tokens_per_month"], answer.figures["break_even_on"]) == (None, None)
    assert answer.saving < 0 and "at any volume" in answer.break_even[0]
    assert answer.findings[0].startswith("At this volume buying")
    free = hosted(generated(90), own(), ApiPrice("m", Decimal(0), Decimal(0), "test"))
    assert free.figures["break_even_tokens_per_month"] is None and free.saving_percent is None


@given(
    millions=st.lists(st.floats(0, 100), min_size=1, max_size=5).filter(lambda one: max(one) > 0.01),
    price=st.floats(0.01, 5),
    gpus_per_replica=st.integers(1, 20),
    plan=st.fixed_dictionaries({"spare_replicas": st.integers(0, 3), "min_replicas": st.integers(0, 3)}),
    operations=st.integers(0, 5000),
)
def test_below_the_break_even_the_api_costs_less_and_above_it_never(
    millions: list[float], price: float, gpus_per_replica: int, plan: dict[str, int], operations: int
) -> None:
    tokens = generated(*millions)
    serving = own(gpus_per_replica=gpus_per_replica, plan=plan, operations=Decimal(operations))
    even = serving.break_even(tokens, price / MILLION)

    def loss(volume: float) -> float:
        """What own nodes cost more than the API, with so many times these tokens in a month."""
        work = [one * volume / tokens.per_month for one in tokens.generated]
        nodes = serving.nodes(max(1, *serving.replicas(work)) + serving.plan.spare_replicas)
        return nodes * 730 + operations - price * volume / MILLION

    full = tokens.per_month / max(tokens.generated) * 9 * MILLION  # what a replica can do, full at the peak
    # where a full replica is worth little more than it costs, each further one crosses the line again
    assume(abs(price * full / MILLION / (730 * serving.nodes_per_replica) - 1) > 1e-2)
    if even is None:
        assert price * full / MILLION <= 730 * serving.nodes_per_replica * (1 + 1e-3)
        return
    assert loss(even * (1 - 1e-6)) > -1e-3
    steps = range(math.floor(even / full), math.floor(even / full) + 200)
    assert all(loss(full * step * (1 + 1e-7)) <= 1e-2 for step in steps if full * step > even)
    assert loss(even * (1 + 1e-6)) <= 1e-2


@pytest.mark.parametrize(
    ("percent", "volume", "target", "day", "why"),
    [
        (10.0, 100, 121, DAY + timedelta(hours=2 * 730), ""),
        (-50.0, 400, 100, DAY + timedelta(hours=2 * 730), ""),
        (10.0, 200, 100, None, "tokens grow, and never pass it"),
        (-10.0, 100, 200, None, "tokens shrink, and never pass it"),
        (0.0, 100, 200, None, "tokens stay as they are, and never pass it"),
        (0.01, 1, 1e9, None, "it is more than 50 years away"),
        (None, 100, 200, None, "how tokens grow is not known: --growth-percent-per-month"),
        (10.0, 100, None, None, "there is no break-even"),
    ],
)
def test_the_day_of_the_break_even(
    percent: float | None, volume: float, target: float | None, day: date | None, why: str
) -> None:
    assert Growth(percent, "test", DAY).reaches(volume, target) == (day, why)


def test_growth_passes_the_break_even_of_hand() -> None:
    # 14/11 of a dollar per million, as of an even day; $7,300 a month are 5,735.7 million
    words = WORDS.replace("240M", "120M").replace("24M", "12M")
    answer = ask("selfhost", f"{words} --growth-percent-per-month 20")
    months = math.log(7300 * 11 / 14 / (5.5 * 730)) / math.log(1.2)
    expected = datetime.now(UTC).date() + timedelta(hours=months * 730)
    assert abs(date.fromisoformat(answer["break_even_on"]) - expected) <= timedelta(days=1)


def test_list_prices_of_tokens() -> None:
    rest = WORDS.replace(PRICES, "")
    answer = ask("selfhost", f"{rest} --model openai/gpt-4o --cached-share 0.5")
    # $2.50, cached $1.25, and $10 a million
    assert answer["today"]["cost"] == 3600 * 2.5 + 3600 * 1.25 + 720 * 10
    assert "for gpt-4o (openai)" in answer["title"]
    own_price = ask("selfhost", f"{rest} --model gpt-4o --api-provider azure --output-price-per-million 1")
    assert own_price["today"]["cost"] == 7200 * 2.5 + 720
    sources = {one["name"]: one["source"] for one in own_price["assumptions"]}
    assert sources["gpt-4o (azure), generated tokens"].endswith("but for what options give")
    assert_refused("selfhost", f"{rest} --model gpt-4oo", "no price of the tokens of gpt-4oo is known")
    assert_refused(
        "selfhost",
        f"{rest} --model gpt-4o --api-provider nobody",
        "no price of the tokens of gpt-4o at nobody is known",
    )


def test_prices_of_tokens_are_in_the_currency_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n[prices]\nfx = { USD = 0.5 }\n')
    words = f"{TOKENS} --nodes 1 {NODE} --api-model gpt-4o"
    answer = ask("api", words)
    assert (answer["scenario"]["currency"], answer["scenario"]["cost"]) == ("EUR", (7200 * 2.5 + 7200) / 2)
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n')
    assert_refused("api", words, "there is no rate from USD to EUR", 1)


def test_operations_and_cached_tokens_are_counted_where_they_are_told() -> None:
    plain, told = (
        ask("selfhost", f"{WORDS} {more}")
        for more in ("", "--operations-cost-per-month 1460 --cached-share 0.5")
    )
    # 720 hours of 730; half of the prompt tokens at a tenth
    assert told["scenario"]["cost"] == 7200 + 1440
    assert told["today"]["cost"] == 10080
    cached = ask("selfhost", f"{WORDS} --cached-share 0.5 --cached-input-price-per-million 0.1")
    assert cached["today"]["cost"] == 10080 - 3600 * 0.9
    assert any("--operations-cost-per-month" in text for text in plain["findings"])
    assert not any(
        "--operations-cost-per-month" in text or "--cached-share" in text for text in told["findings"]
    )


def test_the_lowest_throughput_counts_and_others_are_a_range() -> None:
    answer = ask("selfhost", f"{WORDS} --replica-tokens-per-second 1100 --spare-replicas 0")
    # a tenth: 5 replicas of 1.26 million x 0.6 on 2 nodes, against one
    assert (answer["replicas_at_peak"], answer["scenario"]["cost"]) == (5, 14400)
    cost, volume = answer["ranges"]
    assert (cost["low"], cost["high"]) == (7200, 14400)
    assert volume["low"] == pytest.approx(7300 * 11 / 14, abs=1e-3) and volume["high"] > volume["low"]


def test_the_percentile_is_a_value_that_was_seen() -> None:
    hours = [(float(work), 2.0) for work in range(1, 101)]
    full = units.full_gpu([(0.0, 2.0), *hours, (7.0, 0.0)])
    assert full is not None and full.active_hours == 100 and units.full_gpu([(0.0, 2.0)]) is None
    measured = measured_throughput(full.work, full.mean_work, 4, "store")
    assert measured.high == measured.per_second == 95 / 2 * 4 / 3600
    assert measured.low == pytest.approx(50.5 / 2 * 4 / 3600)


def test_hours_in_which_hardly_a_gpu_was_held_say_little_of_a_full_one() -> None:
    full = units.full_gpu([*[(1e6, 4.0)] * 10, (30_000, 0.01)])
    assert full is not None and full.work == 250_000


def paced_hours(*pace_ms: float) -> list[PacedHour]:
    """Hours that did 100, 200, … tokens on one GPU, each token in so many milliseconds."""
    return [PacedHour(100.0 * at, 1.0, 100.0 * at, 0.1 * at * pace) for at, pace in enumerate(pace_ms, 1)]


@pytest.mark.parametrize(
    ("most_ms", "low", "high", "source"),
    [
        (10, 100, 200, "store, the busiest that held the target"),
        (25, 200, 300, "store, the busiest that held the target"),
        # busier ones that held it again do not count
        (59, 400, 500, "store, the busiest that held the target"),
        # the busiest took 50 ms, whatever the 95th percentile is
        (60, 600, 600, "store, the busiest; none missed the target"),
    ],
)
def test_a_target_of_latency_takes_the_busiest_hours_that_held_it(
    most_ms: float, low: int, high: int, source: str
) -> None:
    hours = paced_hours(10, 20, 30, 40, 60, 50)
    held = paced_throughput(list(reversed(hours)), most_ms, 2, "store")
    assert (held.per_second, held.low, held.high) == pytest.approx(
        (low * 2 / 3600, low * 2 / 3600, high * 2 / 3600)
    )
    assert held.source == source
    with pytest.raises(
        UsageError, match=r"took 10 ms in the calmest hours, over --time-per-output-token-ms 9"
    ):
        paced_throughput(hours, 9, 2, "store")


def test_many_hours_are_told_by_twentieths() -> None:
    # three hours each; the 11th twentieth missed it on the whole, though its calmest hour did not
    hours = paced_hours(*[20] * 30, 20, 50, 50, *[20] * 27)
    held = paced_throughput(hours, 30, 1, "store")
    assert (held.low, held.high) == pytest.approx((2900 / 3600, 3200 / 3600))


@pytest.mark.parametrize(("given", "share"), [((), 1.0), (("target_utilization",), 0.6)])
def test_what_held_a_target_needs_no_further_room(given: tuple[str, ...], share: float) -> None:
    plan = Replicas(time_per_output_token_ms=50.0, given=given)
    assert plan.filled_to == share and plan.fill()[-1].value == share
    assert Replicas().filled_to == 0.6 and len(Replicas().fill()) == 1


def test_counts() -> None:
    counts = {"400M": 4e8, "1.5b": 1.5e9, "4e8": 4e8, "12k": 12000, "2T": 2e12, "0": 0}
    assert {text: parse_count("--x", text) for text in counts} == counts
    for text in ("", "M", "-1", "nan", "inf", "1e99", "4 00", "four"):
        with pytest.raises(UsageError, match="no number of tokens"):
            parse_count("--x", text)


@given(factor=st.floats(1, 24))
def test_a_described_day_has_its_tokens_and_its_busiest_hour(factor: float) -> None:
    described = DescribedTokens(
        prompt_tokens_per_day="2400", generation_tokens_per_day="240", peak_factor=factor, days=2
    )
    tokens, _ = described_tokens(described)
    assert tokens.prompts == pytest.approx(4800) and tokens.generations == pytest.approx(480)
    assert max(tokens.prompt) == pytest.approx(100 * factor, rel=1e-6)


def test_list_prices_of_a_type_and_of_a_gpu() -> None:
    rest = WORDS.replace(NODE, "")
    answer = ask("selfhost", f"{rest} --instance-type p4d.24xlarge --region us-east-1")
    names = [row["way"] for row in answer["ways"]]
    assert names[:3] == ["API: the model", "on demand, always on", "on demand, by the hour"]
    assert any(name.startswith("reserved, 3 years") for name in names) and "spot, by the hour" in names
    assert answer["scenario"]["gpu_hours"] == 8 * 720
    places = ask("selfhost", f"{rest} --gpu-model H200")
    costs = [row["cost"] for row in places["tables"]["the same nodes of other clouds, on demand, always on"]]
    # no assumption is the kindest: the upper median of what clouds ask, which of an even number is another than the lower one
    assert (
        costs == sorted(costs)
        and len(costs) % 2 == 0
        and places["scenario"]["cost"] == costs[len(costs) // 2]
    )
    assert (places["ranges"][0]["low"], places["ranges"][0]["high"]) == (costs[0], costs[-1])


def test_old_prices_are_in_the_title() -> None:
    old = ApiPrice("m", Decimal(1), Decimal(4), "test", as_of="2026-01-01")
    assert "(prices over 90 days old: m of 2026-01-01)" in hosted(generated(9), own(), old).title
    assert "days old" not in hosted(generated(9), own()).title


def bought(
    own: OwnCost, tokens: TokenHours, price: ApiPrice = PRICE, operations: Decimal = Decimal(0), **more: Any
) -> Answer:
    return api(own, purchase(tokens, price, **more), operations)


def test_api_by_hand() -> None:
    answer = ask("api", f"--nodes 2 {NODE} {TOKENS} {PRICES}")
    assert (answer["today"]["cost"], answer["scenario"]["cost"], answer["saving"]) == (14400, 10080, 4320)
    assert answer["today"]["gpu_hours"] == 2 * 8 * 720
    # $14,600 a month buy so many at 14/11
    assert answer["break_even_tokens_per_month"] == pytest.approx(14600 * 11 / 14 * MILLION, rel=1e-9)
    assert answer["ways"][0]["cost_per_million_prompt_tokens"] == pytest.approx(
        14400 * 2.5 / 3.5 / 7200, abs=1e-9
    )
    grown = bought(OwnCost((CostBlock(730, Decimal(1), 8),)), generated(*([0.25] * 730)), percent=100.0)
    # $4 a million: what is served today costs as much as $1 an hour, twice as much in a month at a growth of 100 %
    assert grown.figures["break_even_tokens_per_month"] == 182.5 * MILLION
    assert (
        bought(OwnCost((CostBlock(730, Decimal(2), 8),)), generated(*([0.25] * 730)), percent=100.0).figures[
            "break_even_on"
        ]
        == (DAY + timedelta(hours=730)).isoformat()
    )


def test_what_is_paid_anyway_is_no_saving() -> None:
    tokens = generated(*([1.0] * 73))
    answer = bought(OwnCost((charge(Decimal(1000)),), 99.0, Decimal(600)), tokens, operations=Decimal(100))
    # 73 million at $4, and a tenth of a month of operations
    assert (answer.today.cost, answer.scenario.cost, answer.today.gpu_hours) == (1010, 892, 99)
    assert any("600.00 is reserved or committed" in text for text in answer.findings)
    # what is left to save is $410 for 73 million in a tenth of a month
    assert answer.figures["break_even_api_cost_per_million_tokens"] == pytest.approx(Decimal(410) / 73)
    assert answer.figures["break_even_tokens_per_month"] == pytest.approx(4100 / 4 * MILLION)
    all_of_it = bought(OwnCost((charge(Decimal(1000)),), 99.0, Decimal(1000)), tokens)
    assert all_of_it.saving == -292 and all_of_it.figures["break_even_tokens_per_month"] is None


def test_cache_hits_of_own_servers_are_a_range_and_no_promise() -> None:
    tokens = TokenHours((10.0 * MILLION,), (0.0,), 0.4)
    price = ApiPrice("m", Decimal(1), Decimal(4), "test", Decimal("0.5"))
    answer = bought(OwnCost((charge(Decimal(20)),)), tokens, price)
    (cached,) = answer.ranges
    assert (answer.scenario.cost, cached.low, cached.high) == (10, 8, 10)
    given_share = bought(OwnCost((charge(Decimal(20)),)), tokens, price, cached_share=0.4)
    assert given_share.scenario.cost == 8 and not given_share.ranges
