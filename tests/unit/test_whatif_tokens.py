"""`gpucost whatif tokens`: a model's tokens from own GPUs against an API's, by hand."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.errors import UsageError
from gpucost.options import number
from gpucost.questions.units import reading as units
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Position
from gpucost.whatif.fleet import Price
from gpucost.whatif.tokens import Node, OwnServing, Purchase, Replicas, Tokens, buy, serve
from tests.text_tables import text_rows
from tests.unit.whatif_costs import ask, assert_refused, figures

pytestmark = pytest.mark.usefixtures("nowhere")

MILLION = 1_000_000
# ten million prompt tokens and one generated million in each hour
TOKENS = "--prompt-tokens-per-day 240M --generation-tokens-per-day 24M"
PRICES = "--input-price-per-million 1 --output-price-per-million 4"
# two GPUs that do 11,000 tokens of both kinds a second: 12.6 million generated ones an hour by weight, of which 7.56 are used
REPLICA = "--gpus-per-replica 2 --replica-tokens-per-second 11000"
NODE = "--on-demand-price 10"
WORDS = f"{TOKENS} --peak-factor 1 {PRICES} {REPLICA} {NODE}"


def own(per_second: float = 2500, gpus_per_replica: int = 8, **plan: Any) -> OwnServing:
    """One replica a node, of 9 million generated tokens an hour at a target of 1, $1 an hour."""
    given = {"target_utilization": 1.0, "spare_replicas": 0, "gpus_per_replica": gpus_per_replica} | plan
    return OwnServing(Node("node", 8.0, Price(Decimal(1), "test")), Replicas(**given), per_second)


def purchase(tokens: Tokens, cost: float = 0) -> Purchase:
    return Purchase("m", tokens, Position(Decimal(str(cost)), "USD"), "a test", ())


def hosted(tokens: Tokens, serving: OwnServing, cost: float = 0) -> Answer:
    return serve(purchase(tokens, cost), serving.node, serving.plan, serving.per_second, "test")


def generated(millions: float, hours: int = 1, peak_factor: float = 1.0) -> Tokens:
    """Generated tokens alone, so many million in all."""
    return Tokens(0.0, millions * MILLION, hours, peak_factor)


def test_an_even_day_by_hand() -> None:
    answer = ask("tokens", WORDS)
    # 7,200 million prompt tokens at $1, 720 million generated ones at $4; one replica and a spare one fit on one node
    names = "kind direction today scenario saving replicas_at_peak nodes"
    assert figures(answer, names) == "tokens bought to own 10080 7200 2880 1 1"
    assert answer["prompt_tokens"] == 7_200_000_000
    assert answer["title"].startswith("Own GPUs instead of an API")
    names = "own_cost_per_million_tokens break_even_api_cost_per_million_tokens api_cost_per_million_tokens"
    # of 7,920 million tokens
    assert figures(answer, names) == "0.909090909 0.909090909 1.272727273"
    # $7,300 a month at 14/11 of a dollar per million
    assert answer["break_even_tokens_per_month"] == pytest.approx(7300 * 11 / 14 * MILLION, rel=1e-9)
    # half of the throughput: seven million generated tokens an hour by weight fit into 2 x 3.78
    half = ask("tokens", WORDS.replace("11000", "5500").replace("--peak-factor 1", "--peak-factor 2"))
    assert (half["replicas_at_peak"], half["scenario"]["cost"]) == (2, 7200)
    (factor,) = [one["value"] for one in half["assumptions"] if one["name"] == "busiest hour"]
    assert factor == 2


def test_the_busiest_hour_decides() -> None:
    # 300 million a day, of which the busiest hour has 24 million: 2 and 2/3 of a replica
    answer = hosted(generated(300, 24, 1.92), own(), 1200)
    assert (answer.scenario.cost, answer.scenario.more) == (72, {"nodes": 3, "replicas": 3})
    assert answer.figures["tokens_per_month"] == pytest.approx(300 * MILLION * 730 / 24, abs=1e-3)
    with pytest.raises(UsageError, match="--peak-factor is missing"):
        hosted(Tokens(1.0, 1.0, 1), own())


# 2 + 1 replicas of 3 GPUs: two fit on a node of 8; a replica of 12 GPUs takes two nodes, each alone; at a target of half, twice
# as many; and never none
NODES = """
    18    | 3  | 1 | 1   | 2
    18    | 12 | 1 | 1   | 6
    18    | 8  | 0 | 0.5 | 4
    0.001 | 8  | 0 | 1   | 1
"""


@pytest.mark.parametrize(("millions", "gpus", "spare", "target", "nodes"), text_rows(NODES))
def test_spare_replicas_and_whole_nodes(
    millions: str, gpus: str, spare: str, target: str, nodes: str
) -> None:
    serving = own(gpus_per_replica=int(gpus), spare_replicas=int(spare), target_utilization=float(target))
    assert figures(hosted(generated(float(millions)), serving), "nodes") == nodes


def test_own_nodes_never_pay_where_each_further_replica_costs_more() -> None:
    # a full replica makes 9 million tokens for $1, which the API sells for 99 cents
    answer = hosted(generated(90), own(), 9.9)
    assert answer.figures["break_even_tokens_per_month"] is None
    assert answer.saving < 0 and "at any volume" in answer.break_even[0]
    free = hosted(generated(90), own())
    assert free.figures["break_even_tokens_per_month"] is None and free.saving_percent is None


def test_the_last_volume_at_which_the_api_costs_less() -> None:
    serving, full = (
        own(spare_replicas=3),
        730 * 9 * MILLION,
    )  # tokens a month of a full replica, on a node of $730
    # 40 replicas and 3 spare ones cost as much as 39.09 full replicas at 1.1 times the price of a node
    even = serving.break_even(generated(9), 803 / full)
    assert even == pytest.approx(43 * 730 / 803 * full, rel=1e-9)
    # a full replica that costs exactly its tokens, or hardly less, pays for no spare one
    assert serving.break_even(generated(9), 730 / full) is None
    assert serving.break_even(generated(9), 730 / full * (1 + 1e-7)) is None


def test_list_prices_of_tokens() -> None:
    rest = WORDS.replace(PRICES, "")
    answer = ask("tokens", f"{rest} --model openai/gpt-4o --cached-share 0.5")
    # $2.50, cached $1.25, and $10 a million
    assert answer["today"]["cost"] == 3600 * 2.5 + 3600 * 1.25 + 720 * 10
    assert "for gpt-4o (openai)" in answer["title"] and answer["cached_tokens"] == 3600 * MILLION
    own_price = ask("tokens", f"{rest} --model gpt-4o --api-provider azure --output-price-per-million 1")
    assert own_price["today"]["cost"] == 7200 * 2.5 + 720
    sources = {one["name"]: one["source"] for one in own_price["assumptions"]}
    assert sources["gpt-4o (azure): generated tokens"].endswith("but for what options give")
    assert_refused("tokens", f"{rest} --model gpt-4oo", "no price of the tokens of gpt-4oo is known")
    assert_refused(
        "tokens",
        f"{rest} --model gpt-4o --api-provider nobody",
        "no price of the tokens of gpt-4o at nobody is known",
    )


def test_cached_tokens_at_a_price_of_options() -> None:
    cached = ask("tokens", f"{WORDS} --cached-share 0.5 --cached-input-price-per-million 0.1")
    assert cached["today"]["cost"] == 10080 - 3600 * 0.9
    assert ask("tokens", f"{WORDS} --cached-share 0.5")["today"]["cost"] == 10080


def test_prices_of_tokens_are_in_the_currency_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n[prices]\nfx = { USD = 0.5 }\n')
    words = f"{TOKENS} --nodes 1 {NODE} --api-model gpt-4o"
    answer = ask("tokens", words)
    assert (answer["scenario"]["currency"], answer["scenario"]["cost"]) == ("EUR", (7200 * 2.5 + 7200) / 2)
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n')
    assert_refused("tokens", words, "there is no rate from USD to EUR", 1)


def test_the_percentile_is_a_value_that_was_seen() -> None:
    hours = [(float(work), 2.0) for work in range(1, 101)]
    full = units.full_gpu([(0.0, 2.0), *hours, (7.0, 0.0)])
    assert full is not None and full.active_hours == 100 and units.full_gpu([(0.0, 2.0)]) is None
    assert full.work == 95 / 2


def test_hours_in_which_hardly_a_gpu_was_held_say_little_of_a_full_one() -> None:
    full = units.full_gpu([*[(1e6, 4.0)] * 10, (30_000, 0.01)])
    assert full is not None and full.work == 250_000


def test_counts_with_units() -> None:
    counts = {"400M": 4e8, "1.5b": 1.5e9, "4e8": 4e8, "12k": 12000, "2T": 2e12, "3G": 3e9, "0": 0}
    scaled = flags.amount("Tokens.")
    assert {text: number(float, scaled, text) for text in counts} == counts
    for text in ("", "M", "-1", "nan", "inf", "1e99", "4 00", "four", "1MM"):
        with pytest.raises(ValueError, match="no number from 0"):
            number(float, scaled, text)


def test_own_tokens_bought_by_hand() -> None:
    answer = ask("tokens", f"--nodes 2 {NODE} {TOKENS} {PRICES}")
    names = "kind direction today scenario saving today.gpu_hours"
    assert figures(answer, names) == "tokens own to bought 14400 10080 4320 11520"
    assert answer["title"].startswith("An API instead of own GPUs")
    # $14,600 a month buy so many at 14/11
    assert answer["break_even_tokens_per_month"] == pytest.approx(14600 * 11 / 14 * MILLION, rel=1e-9)
    assert "node of 8 GPUs" in {one["name"] for one in answer["assumptions"]}


def test_what_is_paid_anyway_is_no_saving() -> None:
    tokens = generated(73, 73)
    answer = buy(purchase(tokens, 292), Position(Decimal(1000), "USD", 99.0), Decimal(600))
    assert figures(answer, "today scenario today.gpu_hours") == "1000 892 99"
    assert any("600.00 stays on the bill" in text for text in answer.findings)
    # what is left to save is $400 for 73 million in a tenth of a month
    assert answer.figures["break_even_api_cost_per_million_tokens"] == pytest.approx(Decimal(400) / 73)
    assert answer.figures["break_even_tokens_per_month"] == pytest.approx(4000 / 4 * MILLION)
    all_of_it = buy(purchase(tokens, 292), Position(Decimal(1000), "USD"), Decimal(1000))
    assert all_of_it.saving == -292 and all_of_it.figures["break_even_tokens_per_month"] is None
