"""`gpucost whatif tokens`: tokens from own GPUs against an API, by hand, and from a store's servers and bills."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.errors import UsageError
from gpucost.options import number
from gpucost.store.connection import Store
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Position
from gpucost.whatif.fleet import Price
from gpucost.whatif.reserve import ReservedUse
from gpucost.whatif.tokens import Purchase, Replicas, Tokens, buy, serve
from tests.replay import work
from tests.replay.cases.words import fleet, node, pod
from tests.replay.work import counter, put, stored
from tests.text_tables import text_rows, words
from tests.unit.bills import csv_text
from tests.unit.command import answer
from tests.unit.served import on_nodes
from tests.unit.test_api_cost_answers import focus
from tests.unit.whatif_costs import ask, assert_refused, figures, shown

pytestmark = pytest.mark.usefixtures("nowhere")

MILLION = 1_000_000
# ten million prompt tokens and one generated million in each hour
TOKENS = "--prompt-tokens-per-day 240M --generation-tokens-per-day 24M"
PRICES = "--input-price-per-million 1 --output-price-per-million 4"
# two GPUs with 11,000 tokens a second of both kinds: 12.6 million weighted generated tokens an hour, 7.56 at the target
REPLICA = "--gpus-per-replica 2 --replica-tokens-per-second 11000"
NODE = "--on-demand-price 10"
WORDS = f"{TOKENS} --peak-factor 1 {PRICES} {REPLICA} {NODE}"


def purchase(tokens: Tokens, cost: float = 0) -> Purchase:
    return Purchase("m", tokens, Position(Decimal(str(cost)), "USD"), "a test", ())


def hosted(tokens: Tokens, cost: float = 0, **options: Any) -> Answer:
    """Replicas on nodes of $1 an hour, by default filled to 9 million generated tokens an hour, and a spare one."""
    node = ReservedUse("node", 8.0, Price(Decimal(1), "test"))
    known = {"gpus_per_replica": 8, "replica_tokens_per_second": 2500 / 0.6, "peak_factor": 1.0}
    return serve(purchase(tokens, cost), node, Replicas(**known | options))


def generated(millions: float, hours: int = 1) -> Tokens:
    """Only generated tokens, in millions."""
    return Tokens(0.0, millions * MILLION, hours)


def test_even_day_equals_calculation_by_hand() -> None:
    answer = ask("tokens", WORDS)
    # 7,200 million prompt tokens at $1, 720 million generated ones at $4; one replica and a spare one fit on one node
    names = "kind direction today scenario saving replicas_at_peak nodes"
    assert figures(answer, names) == "tokens bought to own 10080 7200 2880 1 1"
    assert answer["prompt_tokens"] == 7_200_000_000
    assert answer["title"].startswith("Own GPUs instead of an API")
    names = "break_even_api_cost_per_million_tokens api_cost_per_million_tokens"
    # for 7,920 million tokens
    assert figures(answer, names) == "0.909090909 1.272727273"
    text = "The API costs less than own GPUs below 0.9091 per million tokens of this mix; it is 1.2727"
    assert answer["break_even"] == [text]
    # half of the throughput: seven million weighted generated tokens an hour fit into 2 x 3.78
    half = ask("tokens", WORDS.replace("11000", "5500").replace("--peak-factor 1", "--peak-factor 2"))
    assert (half["replicas_at_peak"], half["scenario"]["cost"]) == (2, 7200)
    (factor,) = [one["value"] for one in half["assumptions"] if one["name"] == "busiest hour"]
    assert factor == 2


def test_busiest_hour_sets_the_number_of_replicas() -> None:
    # 300 million a day, 24 million in the busiest hour: 2 and 2/3 of a replica
    answer = hosted(generated(300, 24), 1200, peak_factor=1.92)
    assert figures(answer, "scenario nodes replicas_at_peak") == "96 4 3"
    for name in ("peak_factor", "gpus_per_replica", "replica_tokens_per_second"):
        with pytest.raises(UsageError, match="a number of the replicas is missing"):
            hosted(generated(1), **{name: None})


# 2 + 1 replicas of 3 GPUs: two fit on a node of 8; a replica of 12 GPUs has two nodes of its own; at half the target, twice as
# many; and never zero
NODES = """
    18    | 3  | 1 | 0.6 | 2
    18    | 12 | 1 | 0.6 | 6
    18    | 8  | 0 | 0.3 | 4
    0.001 | 8  | 0 | 0.6 | 1
"""


@pytest.mark.parametrize(("millions", "gpus", "spare", "target", "nodes"), text_rows(NODES))
def test_spare_replicas_and_whole_nodes(
    millions: str, gpus: str, spare: str, target: str, nodes: str
) -> None:
    sizes = {"gpus_per_replica": int(gpus), "spare_replicas": int(spare)}
    found = hosted(generated(float(millions)), target_utilization=float(target), **sizes)
    assert figures(found, "nodes") == nodes


def test_list_prices_of_tokens() -> None:
    rest = WORDS.replace(PRICES, "")
    answer = ask("tokens", f"{rest} --model openai/gpt-4o")
    # $2.50 and $10 a million
    assert answer["today"]["cost"] == 7200 * 2.5 + 720 * 10
    assert "for gpt-4o (openai)" in answer["title"]
    half = f"{rest} --model gpt-4o --output-price-per-million 1"
    assert_refused("tokens", half, "the API's prices are missing")
    assert_refused("tokens", f"{rest} --model gpt-4oo", "the price of the tokens of gpt-4oo is unknown")
    unknown = "the price of the tokens of gpt-4o at absent is unknown"
    assert_refused("tokens", f"{rest} --model gpt-4o --api-provider absent", unknown)


def test_token_prices_are_in_the_configured_currency(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n[prices]\nfx = { USD = 0.5 }\n')
    words = f"{TOKENS} --peak-factor 1 {REPLICA} {NODE} --model gpt-4o"
    answer = ask("tokens", words)
    assert (answer["today"]["currency"], answer["today"]["cost"]) == ("EUR", (7200 * 2.5 + 7200) / 2)
    (tmp_path / "gpucost.toml").write_text('currency = "EUR"\n')
    assert_refused("tokens", words, "there is no rate from USD to EUR", 1)


def test_counts_with_units() -> None:
    scaled = flags.amount("Tokens.")
    for text, count in words("400M=4e8 1.5b=1.5e9 4e8=4e8 12k=12000 2T=2e12 3G=3e9 0=0").items():
        assert number(float, scaled, text) == float(count)
    for text in ("", "M", "-1", "nan", "inf", "1e99", "4 00", "four", "1MM"):
        with pytest.raises(ValueError, match="not a number of at least 0"):
            number(float, scaled, text)


def test_cost_paid_anyway_is_not_a_saving() -> None:
    tokens = generated(73, 73)
    answer = buy(purchase(tokens, 292), Position(Decimal(1000), "USD", 99.0), Decimal(600))
    assert figures(answer, "today scenario today.gpu_hours") == "1000 892 99"
    assert any("600.00 stays on the bill" in text for text in answer.findings)
    # $400 can be saved, for 73 million tokens in a tenth of a month
    assert answer.figures["break_even_api_cost_per_million_tokens"] == pytest.approx(Decimal(400) / 73)
    all_of_it = buy(purchase(tokens, 292), Position(Decimal(1000), "USD"), Decimal(1000))
    assert all_of_it.saving == -292
    assert all_of_it.figures["break_even_api_cost_per_million_tokens"] == 0


# Deployment/llm holds two of the four L4s of a $4 node
COUNTED = """
    generation_token | llm-0 | llama | 1.5 2e6, 2.5 6e6, 20.5 7e6
    prompt_token     | llm-0 | llama | 1.5 8e6, 20.5 12e6
    cached_token     | llm-0 | llama | 1.5 1.2e6
"""
# counts of pods by hour: the pools of a model, and another pod
POOLS = """
    prompt_token     | llm-prefill-0 | m | 1.5 8e6
    prompt_token     | llm-decode-0  | m | 1.5 8e6
    generation_token | llm-decode-0  | m | 1.5 2e6
    prompt_token     | plan-0        | p | 5 4e6
    generation_token | plan-0        | p | 5 1e6
"""


def put_counts(store: Store, counts: str) -> None:
    """Stores the counts of pods at some hours, starting from zero."""
    series = []
    for unit, name, model, points in text_rows(counts):
        samples = [(float(hour), float(count)) for hour, count in map(str.split, points.split(","))]
        series.append((counter(unit, name, "chat", model=model), [(0.0, 0.0), *samples]))
    put(store, series)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """One model, and tokens of an unknown pod."""
    config, store = stored(
        on_nodes({"serve": [("llm-0", [0, 1], 0, 24)]}, 24), tmp_path_factory.mktemp("model")
    )
    put_counts(store, COUNTED)
    away = counter("generation_token", "away-0", "edge", model="gpt-x", kind="event")
    put(store, [(away, [(2, 3 * MILLION), (4, MILLION)])], source="away")
    return config


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The pools of a model, and a pod on a node with a savings plan at $1 an hour."""
    described = on_nodes({"serve": [("llm-prefill-0", [0], 0, 24), ("llm-decode-0", [1, 2, 3], 0, 24)]}, 24)
    plan = pod("plan-0", "plan", [0], 0, 24, namespace="chat", owner=["Deployment", "plan"])
    nodes, pods = [*described["nodes"], node("plan", "g5.xlarge", 0, 24)], [*described["pods"], plan]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "BOOK", work.BOOK + ",,,g5.xlarge,savings_plan,1.00,USD,\n")
        config, store = stored(fleet(24, nodes, pods, {}, scrape=600), tmp_path_factory.mktemp("others"))
    put_counts(store, POOLS)
    assert config.path is not None
    with config.path.open("a") as text:
        text.write('[serving]\nprefill = ["*-prefill"]\ndecode = ["*-decode"]\n')
    return config


def copied(config: Config, folder: Path) -> Config:
    """A copy with its own store, which a test may change."""
    assert config.path is not None
    for path in (config.store, config.path, config.path.with_name("prices.csv")):
        shutil.copyfile(path, folder / path.name)
    return load_config(folder / config.path.name, environ={}, cwd=folder)


WHEN = "--from 2026-03-10 --to 2026-03-11"


def of_store(config: Config, words: str) -> dict[str, Any]:
    return ask("tokens", f"--config {config.path} {WHEN} {words}")


def test_stored_tokens_of_own_replicas_are_bought(config: Config) -> None:
    found = of_store(config, f"--workload Deployment/llm {PRICES}")
    assert figures(found, "today scenario today.gpu_hours paid_anyway_cost") == "48 40 48 0"
    assert found["assumptions"][0]["value"] == "llama"
    listed = of_store(config, "--workload Deployment/llm --model gpt-4o")
    assert "for gpt-4o (openai)" in listed["title"]
    assert listed["scenario"]["cost"] == pytest.approx(12 * 2.5 + 7 * 10)


def test_own_cost_equals_the_report_and_commitments_are_paid_anyway(others: Config) -> None:
    words = f"--config {others.path} {WHEN} --workload Deployment/plan"

    tokens, reported = (answer(f"{command} {words}")["totals"] for command in ("unit tokens", "report"))
    found = ask("tokens", f"{words} {PRICES}")
    assert found["today"]["cost"] == tokens["cost"] == reported["cost"] == 24
    assert found["today"]["gpu_hours"] == tokens["allocated_gpu_hours"] == reported["allocated_gpu_hours"]
    assert (found["paid_anyway_cost"], found["saving"]) == (24, -8)
    for name in ("prompt_tokens", "generation_tokens"):
        assert found[name] == tokens[name]


def test_hours_across_midnight_are_complete(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    assert config.path
    text = config.path.read_text()
    config.path.write_text(
        'timezone = "Asia/Kolkata"\n' + "\n".join(row for row in text.splitlines() if "timezone" not in row)
    )
    words = f"--config {config.path} --from 2026-03-10 --to 2026-03-12 --workload Deployment/llm {PRICES}"
    found = ask("tokens", words)
    # local days are half an hour off: the pod held its GPUs in 24 hours of UTC from 05:30 on
    assert figures(found, "today prompt_tokens") == "48 12000000"


def test_bought_tokens_of_bills_on_own_replicas(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    rows = [focus(*row) for row in (("input", "11.2345"), ("cached input", "4"), ("output", "2.5"))]
    # charges without a number of tokens do not count
    images = focus("input", "1", "images") | dict.fromkeys(("ConsumedQuantity", "ConsumedUnit"), "")
    images |= dict.fromkeys(("SkuMeter", "SkuId"), "images")
    (tmp_path / "openai.csv").write_text(csv_text([*rows, images]))
    assert not collect_bills(Store(config.store), [LocalTree(tmp_path / "openai.csv")], None).errors
    found = of_store(config, f"--peak-factor 2 {REPLICA} {NODE}")
    reported = answer(f"report --config {config.path} {WHEN} --by team")["rows"]
    # $2.50, cached $1.25, and $10 a million
    cost = 11.2345 * 2.5 + 4 * 1.25 + 2.5 * 10
    assert sum(row["api_cost"] for row in reported if row["kind"] == "api") == cost + 2.5
    names = "today scenario prompt_tokens generation_tokens scenario.node_hours"
    assert figures(found, names) == shown(cost, 240, 15_234_500, 2_500_000, 24)
    assert "for gpt-4o" in found["title"]
    # bills do not contain namespaces
    where = f"--config {config.path} {WHEN} --namespace chat --peak-factor 2 {REPLICA} {NODE}"
    assert_refused("tokens", where, "bills have tokens by team and model", 1)


UNKNOWN = f"""
    --from 2026-03-10T05 --to 2026-03-10T06 {PRICES}  | tokens of the whole fleet are missing | 1
    {REPLICA} {NODE} --peak-factor 1                  | no bill of 2026-03-10 contains tokens | 1
    {REPLICA} {NODE} --peak-factor 1 {PRICES}         | bills have the prices of tokens       | 2
"""


@pytest.mark.parametrize(("words", "message", "code"), text_rows(UNKNOWN))
def test_missing_data_in_the_store_is_named(config: Config, words: str, message: str, code: str) -> None:
    assert_refused("tokens", f"--config {config.path} {WHEN} {words}", message, int(code))
