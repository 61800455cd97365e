"""What tokens are sold for: LiteLLM's map as it is read, the price that holds on a day, names that are met, and the commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import astuple
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucost.cli import prices as command
from gpucost.collect.prices import PriceResult, litellm, public
from gpucost.collect.prices.litellm import SOURCE, read_map
from gpucost.config.model import Config, PriceLists
from gpucost.errors import SourceError
from gpucost.price.tokens import TokenPrice, near_models, token_price, token_prices
from gpucost.store.connection import Store, scratch_store
from gpucost.store.prices import ProviderPrices, load_prices
from tests import own_catalog
from tests.services.price_clouds import Cloud, Reply, check_failure, collected, rows
from tests.services.price_lists import price_lists
from tests.unit.command import call

DAY = date(2026, 11, 26)
NOW = datetime(2026, 11, 26, 9, tzinfo=UTC)
_PRICES = "input_price_per_million,cached_input_price_per_million,output_price_per_million"
HEADER = f"provider,model,{_PRICES},currency,price_as_of,source_id"
SHIPPED = f"""{HEADER}
anthropic,claude-opus-5,5,0.5,25,USD,2026-11-25,list
aws,anthropic.claude-opus-5,5,0.5,25,USD,2026-11-25,list
aws,anthropic.claude-sonnet-3-5-20240620-v1:0,3,,15,USD,2026-11-25,list
aws,anthropic.claude-sonnet-3-5-20241022-v2:0,4,,16,USD,2026-11-25,list
aws,us.anthropic.claude-opus-5,5.5,0.55,27.5,USD,2026-11-25,list
azure,eu/gpt-4o,2.75,1.375,11,USD,2026-11-25,list
azure,gpt-4o,2.6,1.3,10.4,USD,2026-11-25,list
cerebras,Llama-70B,0.7,,1.4,USD,2026-11-25,list
deepseek,deepseek-v3,0.27,0.07,1.1,USD,2026-11-25,list
fireworks_ai,accounts/fireworks/models/llama-70b,0.9,,0.9,USD,2026-11-25,list
groq,openai/gpt-oss-120b,0.15,0.075,0.6,USD,2026-11-25,list
openai,gpt-4o,5,,15,USD,2024-05-13,list
openai,gpt-4o,2.5,1.25,10,USD,2026-11-25,list
openai,gpt-4o-2024-05-13,5,,15,USD,2026-11-25,list
together_ai,meta/Llama-70B,0.8,,0.8,USD,2026-11-25,list
together_ai,openai/gpt-oss-120b,0.2,,0.7,USD,2026-11-25,list
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = own_catalog.write(tmp_path / "pricing")
    (directory / "tokens.csv").write_text(SHIPPED)
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "_today", lambda _: DAY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(work: Path) -> Store:
    return Store(work / "gpucost.duckdb")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with scratch_store() as connection:
        yield connection


def entry(bought: Any = Decimal("2.5E-6"), generated: Any = Decimal("0.00001"), **about: Any) -> dict[str, Any]:
    """A chat model of OpenAI's, unless `about` tells otherwise."""
    prices = {"input_cost_per_token": bought, "output_cost_per_token": generated}
    return {"litellm_provider": "openai", "mode": "chat", **prices, **about}


def read(**models: Any) -> list[TokenPrice]:
    return list(read_map(models, DAY, "again").tokens)


def price(provider: str, model: str, bought: str, generated: str, cached: str | None = None) -> TokenPrice:
    amounts = (Decimal(bought), None if cached is None else Decimal(cached), Decimal(generated))
    return TokenPrice(provider, model, *amounts, "USD", DAY, SOURCE)


def test_a_price_of_a_million_is_exact() -> None:
    cached = {"cache_read_input_token_cost": Decimal("8.75E-9")}
    assert read(**{"gpt-4o": entry(Decimal("1.5E-7"), Decimal("0.0000006"), **cached)}) == [
        price("openai", "gpt-4o", "0.15", "0.6", "0.00875")
    ]


@given(st.decimals(Decimal("0.000000001"), 10_000, allow_nan=False, places=9))
def test_a_million_times_a_tokens_price_is_the_price(per_million: Decimal) -> None:
    text = (
        json.dumps({"m": entry(0, 0)})
        .replace(": 0,", f": {per_million.scaleb(-6)},")
        .replace(": 0}", f": {per_million.scaleb(-6)}}}")
    )
    (found,) = read(**json.loads(text, parse_float=Decimal))
    assert (found.input_price_per_million, found.output_price_per_million) == (per_million, per_million)


@pytest.mark.parametrize(
    ("name", "of", "provider", "model"),
    [
        ("gpt-4o", "openai", "openai", "gpt-4o"),
        ("azure/gpt-4o", "azure", "azure", "gpt-4o"),
        ("azure/eu/gpt-4o", "azure", "azure", "eu/gpt-4o"),
        ("azure_ai/Phi-4", "azure_ai", "azure", "Phi-4"),
        ("us.anthropic.claude-opus-5", "bedrock_converse", "aws", "us.anthropic.claude-opus-5"),
        ("bedrock/us-east-1/meta.llama3", "bedrock", "aws", "us-east-1/meta.llama3"),
        ("bedrock_mantle/openai.gpt-oss-120b", "bedrock_mantle", "aws", "openai.gpt-oss-120b"),
        ("vertex_ai/claude-opus-5", "vertex_ai-anthropic_models", "gcp", "claude-opus-5"),
        ("gemini/gemini-2.5-pro", "gemini", "gcp", "gemini-2.5-pro"),
        ("gemini-2.5-pro", "vertex_ai-language-models", "gcp", "gemini-2.5-pro"),
        ("groq/openai/gpt-oss-120b", "groq", "groq", "openai/gpt-oss-120b"),
        ("text-completion-codestral/codestral-2405", "text-completion-codestral", "mistral", "codestral-2405"),
        ("sagemaker/meta-llama", "sagemaker_chat", "aws", "meta-llama"),
        ("command-r-08-2024", "cohere_chat", "cohere", "command-r-08-2024"),
        ("nobody-knows/it", "nobody_knows", "nobody_knows", "it"),
    ],
)
def test_who_sells_it_and_what_it_is_called(name: str, of: str, provider: str, model: str) -> None:
    assert [(found.provider, found.model) for found in read(**{name: entry(litellm_provider=of)})] == [(provider, model)]


@pytest.mark.parametrize(
    "about",
    [
        {"mode": "embedding"},
        {"mode": None},
        {"input_cost_per_token": 0},
        {"output_cost_per_token": None},
        {"output_cost_per_token": Decimal("1E-400")},
    ],
)
def test_what_is_not_sold_by_the_token_is_left_out(about: dict[str, Any]) -> None:
    assert [found.model for found in read(m=entry(), other=entry(**about), sample_spec={"mode": "one of: chat"}, odd="text")] == [
        "m"
    ]


def test_a_retired_model_keeps_its_price_unless_it_is_sold_by_another_entry() -> None:
    dear = (Decimal("0.000005"), Decimal("0.000015"))
    ends = {"deprecation_date": "2026-11-26"}
    assert read(**{"gpt-4o": entry(), "gpt-4o-2024-05-13": entry(*dear, **ends)}) == [
        price("openai", "gpt-4o", "2.5", "10"),
        price("openai", "gpt-4o-2024-05-13", "5", "15"),
    ]
    for is_first in (True, False):
        models = {"m": entry(*dear, **ends), "openai/m": entry()}
        (found,) = read(**(models if is_first else dict(reversed(models.items()))))
        assert found == price("openai", "m", "2.5", "10")
    # the last day has not come, or is none
    for unended in ("2026-11-27", "soon"):
        assert read(**{"m": entry(*dear, deprecation_date=unended), "openai/m": entry()}) == [price("openai", "m", "5", "15")]


def test_of_several_entries_for_one_model_the_dearest_counts() -> None:
    bedrock = {"litellm_provider": "bedrock"}
    dear, cheap = (
        entry(Decimal("0.000002"), Decimal("0.000009"), **bedrock),
        entry(Decimal("0.000003"), Decimal("0.000008"), **bedrock),
    )
    for models in ({"m": dear, "bedrock/M": cheap}, {"bedrock/M": cheap, "m": dear}):
        assert read(**models) == [price("aws", "m", "2", "9")]


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"input_cost_per_token": Decimal("-0.000001")}, "-0.000001 dollars a token"),
        ({"output_cost_per_token": Decimal("2.5")}, "2.5 dollars a token"),
        ({"output_cost_per_token": 10**400}, "1.00e+400 dollars a token"),
        ({"output_cost_per_token": Decimal("1E+999999")}, "1e+999999 dollars a token"),
        ({"cache_read_input_token_cost": -1}, "-1 dollars a token"),
        ({"input_cost_per_token": "0.1"}, "a price is no number"),
        ({"input_cost_per_token": float("nan")}, "a price is no number"),
        ({"input_cost_per_token": True}, "a price is no number"),
        ({"litellm_provider": ""}, "its name cannot be"),
        ({"litellm_provider": "a\x1b[2J"}, "its name cannot be"),
    ],
)
def test_a_price_that_cannot_be_is_passed_over_by_name(about: dict[str, Any], why: str) -> None:
    answer = read_map({"good": entry(), "bad": entry(**about)}, DAY, "again")
    assert [found.model for found in answer.tokens] == ["good"]
    assert list(answer.passed_over) == [f"bad ({why})"]


def test_a_map_of_which_most_cannot_be_is_refused_whole() -> None:
    # as where prices of a million stand in the place of those of a token
    wrong = {f"m{number}": entry(Decimal("2.5"), Decimal(10)) for number in range(2)}
    with pytest.raises(SourceError, match=r"most prices of the map cannot be, such as that of m0 \(2\.5 dollars a token\)"):
        read_map({"good": entry(), **wrong}, DAY, "again")
    for nothing, words in (([], "no map"), ({}, "no prices"), ({"m": entry(mode="rerank")}, "no prices"), (None, "no map")):
        with pytest.raises(SourceError, match=words):
            read_map(nothing, DAY, "again")


def used(con: duckdb.DuckDBPyConnection, provider: str | None, model: str, at: date = DAY) -> tuple[str, str] | None:
    found = token_price(con, provider, model, at)
    return None if found is None else (found.provider, found.model)


def test_the_price_of_a_day_is_the_newest_of_it_or_before(con: duckdb.DuckDBPyConnection) -> None:
    def of_output(at: str) -> str:
        found = token_price(con, "openai", "gpt-4o", date.fromisoformat(at))
        assert found is not None
        return str(found.output_price_per_million)

    # before the first that is known, the first
    assert [of_output(at) for at in ("2020-01-01", "2024-05-13", "2026-11-24", "2026-11-25", "2030-01-01")] == [
        *("15", "15", "15", "10", "10")
    ]


def test_what_was_collected_wins_over_the_catalog_of_its_day(store: Store) -> None:
    def put(day: int, generated: str) -> None:
        at = NOW.replace(day=day)
        tokens = [TokenPrice("openai", "GPT-4o", Decimal(2), None, Decimal(generated), "USD", at.date(), SOURCE)]
        load_prices(store, ProviderPrices("litellm", [], [], tokens=tokens), at)

    def holds(day: int) -> tuple[Any, ...]:
        with store.read() as con:
            found = token_price(con, "openai", "gpt-4o", DAY.replace(day=day))
        assert found is not None
        return astuple(found)

    put(24, "9")
    assert holds(24) == ("openai", "GPT-4o", Decimal(2), None, Decimal(9), "USD", date(2026, 11, 24), SOURCE)
    assert holds(25)[4:] == (Decimal(10), "USD", date(2026, 11, 25), "list")
    put(25, "8")
    put(26, "7")
    assert [holds(day)[4] for day in (23, 24, 25, 26, 27)] == [Decimal(15), Decimal(9), Decimal(8), Decimal(7), Decimal(7)]


def test_a_price_is_what_the_file_says(con: duckdb.DuckDBPyConnection) -> None:
    found = token_price(con, "azure", "eu/gpt-4o", DAY)
    assert found == TokenPrice(
        "azure", "eu/gpt-4o", Decimal("2.75"), Decimal("1.375"), Decimal(11), "USD", date(2026, 11, 25), "list"
    )
    assert str(found.output_price_per_million) == "11" and str(found.input_price_per_million) == "2.75"


@pytest.mark.parametrize(
    ("provider", "model", "row"),
    [
        ("openai", "gpt-4o", "openai gpt-4o"),
        ("OpenAI", " GPT-4o ", "openai gpt-4o"),
        ("openai", "openai/gpt-4o", "openai gpt-4o"),
        (None, "openai/gpt-4o", "openai gpt-4o"),
        ("azure", "openai/gpt-4o", "azure gpt-4o"),
        ("Azure OpenAI", "gpt-4o", "azure gpt-4o"),
        ("az.ai.openai", "gpt-4o", "azure gpt-4o"),
        ("aws.bedrock", "claude-opus-5", "aws anthropic.claude-opus-5"),
        ("azure", "eu/gpt-4o", "azure eu/gpt-4o"),
        ("azure", "azure/eu/gpt-4o", "azure eu/gpt-4o"),
        # a place without a row costs as the model does, and others are not known
        ("azure", "us/gpt-4o", "azure gpt-4o"),
        ("bedrock", "global.anthropic.claude-opus-5", "aws anthropic.claude-opus-5"),
        ("bedrock", "us.anthropic.claude-opus-5-20260401-v1:0", "aws us.anthropic.claude-opus-5"),
        ("bedrock", "au.anthropic.claude-opus-5", None),
        # a release: its own row, else the model's, but never another's
        ("openai", "gpt-4o-2024-05-13", "openai gpt-4o-2024-05-13"),
        ("openai", "gpt-4o-2024-08-06", "openai gpt-4o"),
        ("openai", "gpt-4o-latest", "openai gpt-4o"),
        ("deepseek", "deepseek-v3-0324", "deepseek deepseek-v3"),
        ("aws", "claude-sonnet-3-5", "aws anthropic.claude-sonnet-3-5-20241022-v2:0"),
        ("aws", "claude-sonnet-3-5-20240620", "aws anthropic.claude-sonnet-3-5-20240620-v1:0"),
        ("aws", "claude-sonnet-3-5-20250101", None),
        # makers before a name, and folders
        ("groq", "gpt-oss-120b", "groq openai/gpt-oss-120b"),
        ("fireworks", "meta-llama/Llama-70B", "fireworks_ai accounts/fireworks/models/llama-70b"),
        ("fireworks_ai", "fireworks_ai/accounts/fireworks/models/llama-70b", "fireworks_ai accounts/fireworks/models/llama-70b"),
        # without a seller: who makes it, else the upper median of 0.8, 0.9 and 1.4
        (None, "gpt-4o", "openai gpt-4o"),
        (None, "claude-opus-5", "anthropic claude-opus-5"),
        (None, "deepseek/deepseek-v3", "deepseek deepseek-v3"),
        (None, "openai/gpt-oss-120b", "together_ai openai/gpt-oss-120b"),
        (None, "vertex_ai/claude-opus-5", "anthropic claude-opus-5"),
        ("anthropic", "gpt-4o", None),
        ("nobody", "gpt-4o", None),
        (None, "gpt-4", None),
        (None, "", None),
    ],
)
def test_names_that_are_met(con: duckdb.DuckDBPyConnection, provider: str | None, model: str, row: str | None) -> None:
    found = used(con, provider, model)
    assert (found and " ".join(found)) == row


def test_of_several_sellers_the_upper_median_counts(con: duckdb.DuckDBPyConnection) -> None:
    assert used(con, None, "meta-llama/Llama-70B") == ("fireworks_ai", "accounts/fireworks/models/llama-70b")
    sold = "unnest(['a', 'b', 'c', 'd']), 'plain', 1, NULL, unnest([4, 1, 3, 2]), 'USD', DATE '2026-11-01', 'here'"
    con.execute(f"INSERT INTO token_prices SELECT {sold}")
    assert used(con, None, "plain") == ("c", "plain")


def test_of_two_names_of_one_seller_the_one_with_a_price_of_cached_input_counts(con: duckdb.DuckDBPyConnection) -> None:
    names = "unnest(['nova-lite-v1', 'amazon.nova-lite-v1:0']), 1, unnest([NULL, 0.2]), 2, 'USD', DATE '2026-11-01', 'here'"
    con.execute(f"INSERT INTO token_prices SELECT 'aws', {names}")
    assert used(con, "aws", "nova-lite") == ("aws", "amazon.nova-lite-v1:0")


def test_near_names_are_offered(con: duckdb.DuckDBPyConnection) -> None:
    assert near_models(con, None, "gpt-4p", DAY) == "did you mean openai/gpt-4o?"
    assert near_models(con, "aws", "claude-opus-6", DAY).startswith("did you mean aws/anthropic.claude-opus-5 or ")
    assert near_models(con, "aws", "gemini", DAY) == "gpucost prices tokens lists the models that have a price"


def test_prices_of_a_pattern(con: duckdb.DuckDBPyConnection) -> None:
    def named(*providers: str, model: str | None = None) -> list[str]:
        return [f"{found.provider} {found.model}" for found in token_prices(con, DAY, providers, model)]

    assert len(named()) == len(SHIPPED.splitlines()) - 2  # one is of two days
    assert named(model="GPT-oss*") == ["groq openai/gpt-oss-120b", "together_ai openai/gpt-oss-120b"]
    assert named("bedrock", model="us.*") == ["aws us.anthropic.claude-opus-5"]
    assert named("azure", "openai", model="gpt-4o") == ["azure eu/gpt-4o", "azure gpt-4o", "openai gpt-4o"]
    assert named("nobody") == []


collect = partial(call, "collect", "prices")
MAP = {
    "sample_spec": {"mode": "one of: chat", "input_cost_per_token": 0.0},
    "gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06},
    "azure/gpt-4o": {
        "litellm_provider": "azure",
        "mode": "chat",
        "input_cost_per_token": 2.6e-06,
        "output_cost_per_token": 1.04e-05,
    },
    "groq/new": {"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1.1e-06},
    "bad": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": -1e-07, "output_cost_per_token": 1e-06},
}
TOKENS = "SELECT provider, model, input_price_per_million, output_price_per_million FROM token_prices ORDER BY ALL"


def test_a_map_from_a_file(work: Path) -> None:
    (work / "map.json").write_text(json.dumps(MAP))
    out, err = collect("--token-prices", "map.json")
    today = datetime.now(UTC).date()
    assert out.splitlines() == [
        f"litellm: 3 prices of tokens, by 3 sellers, as of {today}",
        "litellm: 1 replace another price, 1 confirm it, 1 are new",
        "  openai/gpt-4o: 2.5 in, 10 out (2026-11-25) → 2 in, 8 out, USD per million tokens",
    ]
    assert err == "  note: passed over, for their prices cannot be: bad (-1e-7 dollars a token)\n"
    store = Store(work / "gpucost.duckdb")
    expected = [
        ("azure", "gpt-4o", Decimal("2.6"), Decimal("10.4")),
        ("groq", "new", Decimal("0.1"), Decimal("1.1")),
        ("openai", "gpt-4o", Decimal(2), Decimal(8)),
    ]
    assert rows(store, TOKENS) == expected
    # the same day asked again replaces what it names, and loses nothing else
    (work / "map.json").write_text(json.dumps({"groq/NEW": MAP["groq/new"] | {"output_cost_per_token": 2e-06}}))
    assert "litellm: 1 replace another price, 0 confirm it, 0 are new" in collect("--token-prices", "map.json")[0]
    assert rows(store, TOKENS) == [expected[0], ("groq", "NEW", Decimal("0.1"), Decimal(2)), expected[2]]


def test_a_price_of_cached_input_that_changed_is_another_price(work: Path) -> None:
    same = {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05}
    (work / "map.json").write_text(json.dumps({"gpt-4o": same | {"cache_read_input_token_cost": 2.5e-07}}))
    assert collect("--token-prices", "map.json")[0].splitlines()[1:] == [
        "litellm: 1 replace another price, 0 confirm it, 0 are new",
        "  openai/gpt-4o: 2.5 in, 1.25 cached, 10 out (2026-11-25) → 2.5 in, 0.25 cached, 10 out, USD per million tokens",
    ]
    # what is not known is no other price
    (work / "map.json").write_text(json.dumps({"gpt-4o": same}))
    assert "litellm: 0 replace another price, 1 confirm it" in collect("--token-prices", "map.json")[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no map of token prices, or half of one"),
        (json.dumps(MAP).encode()[:-40], "is no map of token prices, or half of one"),
        (b'{"m": ' * 100_000, "nested too deeply"),
        (b'{"m": 1e99999999999999999999}', "is no map of token prices, or half of one"),
        (b"\xff\xfe", "is no map of token prices, or half of one"),
        (b"[]", "the answer is no map of token prices"),
        (b"{}", "the map has no prices of tokens"),
        (b'{"bad": ' + json.dumps(MAP["bad"]).encode() + b"}", "most prices of the map cannot be"),
    ],
)
def test_a_file_that_is_no_map_is_refused_in_one_line(work: Path, content: bytes, words: str) -> None:
    (work / "map.json").write_bytes(content)
    out, err = collect("--token-prices", "map.json", code=1)
    assert out == "" and words in err and len(err.splitlines()) == 2 and "fix: " in err
    assert not (work / "gpucost.duckdb").exists()


def test_a_file_that_is_not_there_or_too_long(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "map.json cannot be read: No such file" in collect("--token-prices", "map.json", code=1)[1]
    monkeypatch.setattr(litellm, "MAP_BYTES", 2**20)
    (work / "map.json").write_bytes(b" " * (2**20 + 1))
    assert "holds more than 1 MiB" in collect("--token-prices", "map.json", code=1)[1]
    assert "goes without --provider and --region" in collect("--token-prices", "map.json", "--region", "eastus", code=2)[1]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with price_lists({"/map.json": MAP}) as running:
        yield running


def asked(server: Cloud, store: Store) -> PriceResult:
    return collected("litellm", Config(price_lists=PriceLists(litellm=f"{server.url}/map.json")), store, now=NOW)


def test_a_map_from_its_server(server: Cloud, store: Store) -> None:
    result = asked(server, store)
    assert (result.prices, result.sellers, result.unchanged, len(result.replaced_tokens)) == (3, 3, 1, 1)
    assert result.replaced_tokens[0].change == Decimal("-0.2")
    assert rows(store, "SELECT DISTINCT price_as_of, source FROM token_prices") == [(DAY, SOURCE)]
    assert rows(store, "SELECT kind, source, rows FROM loads") == [("prices", "litellm", 3)]
    server.trick = lambda _path, number: Reply(503, b"") if number == 2 else None
    again = asked(server, store)
    assert (again.prices, again.unchanged, server.count("/map.json")) == (3, 3, 3)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            Reply(200, b'{"gpt-4o": {"litellm_provider"'),
            "litellm: half an answer, cut off or no answer of the map of token prices",
        ),
        (Reply(200, MAP, cut=1000), "litellm: half an answer, the connection broke off"),
        (Reply(200, b"<html>Log in to the proxy</html>"), "litellm: half an answer, cut off or no answer of the map"),
        (Reply(200, b"[" * 100_000), "litellm: half an answer, cut off or no answer of the map"),
        (Reply(200, b'{"m": 1e99999999999999999999}'), "litellm: half an answer, cut off or no answer of the map"),
        (Reply(200, [MAP]), "litellm: the answer is no map of token prices"),
        (Reply(200, {"m": {"mode": "chat"}}), "litellm: the map has no prices of tokens"),
        (
            Reply(200, {"m": MAP["bad"]}),
            "litellm: most prices of the map cannot be, such as that of m (-1e-7 dollars a token)",
        ),
        (Reply(404, b"404: Not Found"), "litellm: HTTP 404: 404: Not Found"),
    ],
)
def test_a_server_without_a_map_changes_nothing(server: Cloud, store: Store, reply: Reply, message: str) -> None:
    assert asked(server, store).ok
    before = rows(store, TOKENS)
    server.trick = lambda _path, _number: reply
    check_failure(asked(server, store), message)
    assert rows(store, TOKENS) == before


def test_a_map_without_end_is_left(server: Cloud, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "MAP_BYTES", 1000)
    server.trick = lambda _path, _number: Reply(200, b" " * 2000)
    check_failure(asked(server, store), "litellm: the map of token prices is longer than it may be")
    assert public._JSON_BYTES > litellm.MAP_BYTES  # other lists may have more


tokens = partial(call, "prices", "tokens")


def test_the_list_says_prices_days_and_sources() -> None:
    out, err = tokens("--model", "gpt-4o", "--provider", "openai", "--provider", "azure")
    shown = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if "gpt" in line]
    assert shown == [
        ["azure", "eu/gpt-4o", "$2.7500", "$1.3750", "$11.0000", "2026-11-25", "list"],
        ["azure", "gpt-4o", "$2.6000", "$1.3000", "$10.4000", "2026-11-25", "list"],
        ["openai", "gpt-4o", "$2.5000", "$1.2500", "$10.0000", "2026-11-25", "list"],
    ]
    assert err == ""


def test_the_list_as_json_and_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(tokens("--model", "deepseek*", "--format", "json")[0])
    assert document == {
        "schema": "gpucost.prices.tokens/1",
        "today": "2026-11-26",
        "stale_after_days": 90,
        "rows": [
            {
                "provider": "deepseek", "model": "deepseek-v3", "input_price_per_million": 0.27,
                "cached_input_price_per_million": 0.07, "output_price_per_million": 1.1, "currency": "USD",
                "price_as_of": "2026-11-25", "source": "list",
            }
        ],
    }  # fmt: skip
    assert tokens("--provider", "groq", "--format", "csv")[0].splitlines() == [
        HEADER.replace("source_id", "source"), "groq,openai/gpt-oss-120b,0.15,0.075,0.6,USD,2026-11-25,list",
    ]  # fmt: skip
    monkeypatch.setattr(command, "_today", lambda _: date(2027, 3, 1))
    assert "1 of 1 prices are over 90 days old; gpucost collect prices asks for new ones" in tokens("--provider", "groq")[0]


def test_a_name_without_a_price_is_told_what_there_is() -> None:
    _, err = tokens("--model", "gpt-4p", code=1)
    assert "no price of tokens of gpt-4p is known" in err and "did you mean openai/gpt-4o" in err
    _, err = tokens("--model", "gpt-4o", "--provider", "groq", code=1)
    assert "no price of tokens of gpt-4o is known at groq" in err and "those who have it: azure, openai" in err
