"""List prices of tokens: the price of a day, matching of names, and the command."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from gpucost.price.tokens import TokenPrice, near_models, token_price, token_prices
from gpucost.questions import prices as command
from tests import own_catalog
from tests.text_tables import text_rows
from tests.unit.command import call

DAY = date(2026, 11, 26)
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
def work(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = own_catalog.write(nowhere / "pricing")
    (directory / "tokens.csv").write_text(SHIPPED)
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "today_in", lambda _: DAY)
    return nowhere


def used(provider: str | None, model: str) -> str:
    found = token_price(provider, model, DAY)
    return f"{found.provider} {found.model}" if found else ""


def test_price_of_a_day_is_the_newest_until_that_day() -> None:
    # before the first known price, the first
    days = ("2020-01-01", "2024-05-13", "2026-11-24", "2026-11-25", "2030-01-01")
    found = [token_price("openai", "gpt-4o", date.fromisoformat(day)) for day in days]
    assert [str(one and one.output_price_per_million) for one in found] == ["15", "15", "15", "10", "10"]


def test_price_has_all_values_of_the_file() -> None:
    prices = (Decimal("2.75"), Decimal("1.375"), Decimal("11"))
    found = token_price("azure", " EU/gpt-4o ", DAY)
    assert found == TokenPrice("azure", "eu/gpt-4o", *prices, "USD", date(2026, 11, 25), "list")


# a seller, a model, and the row with its price. A region without a row has the model's price; unknown regions have none. A
# release has its own row, otherwise the model's, never another release's. Without a seller the model's maker counts, otherwise
# the upper median of 0.8, 0.9 and 1.4
MET = """
openai | gpt-4o | openai gpt-4o
OpenAI |  GPT-4o  | openai gpt-4o
openai | openai/gpt-4o | openai gpt-4o
- | openai/gpt-4o | openai gpt-4o
azure | openai/gpt-4o | azure gpt-4o
Azure OpenAI | gpt-4o | azure gpt-4o
az.ai.openai | gpt-4o | azure gpt-4o
aws.bedrock | claude-opus-5 | aws anthropic.claude-opus-5
azure | eu/gpt-4o | azure eu/gpt-4o
azure | azure/eu/gpt-4o | azure eu/gpt-4o
azure | us/gpt-4o | azure gpt-4o
bedrock | global.anthropic.claude-opus-5 | aws anthropic.claude-opus-5
bedrock | us.anthropic.claude-opus-5-20260401-v1:0 | aws us.anthropic.claude-opus-5
bedrock | au.anthropic.claude-opus-5 |
openai | gpt-4o-2024-05-13 | openai gpt-4o-2024-05-13
openai | gpt-4o-2024-08-06 | openai gpt-4o
openai | gpt-4o-latest | openai gpt-4o
deepseek | deepseek-v3-0324 | deepseek deepseek-v3
aws | claude-sonnet-3-5 | aws anthropic.claude-sonnet-3-5-20241022-v2:0
aws | claude-sonnet-3-5-20240620 | aws anthropic.claude-sonnet-3-5-20240620-v1:0
aws | claude-sonnet-3-5-20250101 |
groq | gpt-oss-120b | groq openai/gpt-oss-120b
fireworks | meta-llama/Llama-70B | fireworks_ai accounts/fireworks/models/llama-70b
fireworks_ai | fireworks_ai/accounts/fireworks/models/llama-70b | fireworks_ai accounts/fireworks/models/llama-70b
- | gpt-4o | openai gpt-4o
- | claude-opus-5 | anthropic claude-opus-5
- | deepseek/deepseek-v3 | deepseek deepseek-v3
- | openai/gpt-oss-120b | together_ai openai/gpt-oss-120b
- | vertex_ai/claude-opus-5 | anthropic claude-opus-5
anthropic | gpt-4o |
absent | gpt-4o |
- | gpt-4 |
- |  |
"""


@pytest.mark.parametrize(("provider", "model", "row"), text_rows(MET))
def test_names_of_sellers_and_models_are_matched(provider: str, model: str, row: str) -> None:
    assert used(None if provider == "-" else provider, model) == row


def test_upper_median_of_sellers_counts_and_name_with_cached_input_price(work: Path) -> None:
    with (work / "pricing" / "tokens.csv").open("a") as file:
        for name, generated in zip("abcd", (4, 1, 3, 2), strict=True):
            file.write(f"{name},plain,1,,{generated},USD,2026-11-01,here\n")
        for name in ("nova-lite-v1,1,", "amazon.nova-lite-v1:0,1,0.2"):
            file.write(f"aws,{name},2,USD,2026-11-01,here\n")
    assert used(None, "plain") == "c plain"
    assert used(None, "meta-llama/Llama-70B") == "fireworks_ai accounts/fireworks/models/llama-70b"
    assert used("aws", "nova-lite") == "aws amazon.nova-lite-v1:0"


def test_similar_names_are_suggested() -> None:
    assert near_models(None, "gpt-4p", DAY) == "did you mean openai/gpt-4o?"
    assert near_models("aws", "claude-opus-6", DAY).startswith("did you mean aws/anthropic.claude-opus-5 or ")
    assert near_models("aws", "gemini", DAY) == "gpucost prices tokens lists the models that have a price"


def test_prices_by_pattern() -> None:
    def named(*providers: str, model: str | None = None) -> list[str]:
        return [f"{found.provider} {found.model}" for found in token_prices(DAY, providers, model)]

    assert len(named()) == len(SHIPPED.splitlines()) - 2  # one model has prices of two days
    assert named(model="GPT-oss*") == ["groq openai/gpt-oss-120b", "together_ai openai/gpt-oss-120b"]
    assert named("bedrock", model="us.*") == ["aws us.anthropic.claude-opus-5"]
    assert named("azure", "openai", model="gpt-4o") == ["azure eu/gpt-4o", "azure gpt-4o", "openai gpt-4o"]
    assert named("absent") == []


tokens = partial(call, "prices", "tokens")


def test_list_shows_prices_days_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = tokens("--model", "gpt-4o", "--provider", "openai", "--provider", "azure")
    shown = [tuple(re.split(r"\s{2,}", line.strip())) for line in out.splitlines() if "gpt" in line]
    assert shown == text_rows("""
        azure | eu/gpt-4o | $2.7500 | $1.3750 | $11.0000 | 2026-11-25 | list
        azure | gpt-4o | $2.6000 | $1.3000 | $10.4000 | 2026-11-25 | list
        openai | gpt-4o | $2.5000 | $1.2500 | $10.0000 | 2026-11-25 | list
    """)
    assert err == ""
    monkeypatch.setattr(command, "today_in", lambda _: date(2027, 3, 1))
    aged = "1 of 1 prices are over 90 days old; a newer gpucost has newer prices"
    assert aged in tokens("--provider", "groq")[0]


def test_error_for_unknown_name_suggests_alternatives() -> None:
    _, err = tokens("--model", "gpt-4p", code=1)
    assert "no price of tokens of gpt-4p is known" in err and "did you mean openai/gpt-4o" in err
    _, err = tokens("--model", "gpt-4o", "--provider", "groq", code=1)
    assert "known at groq" in err and "it is sold by azure, openai" in err
