"""List prices for what-ifs, and prices that options give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, NamedTuple

from gpucost.config.model import Config
from gpucost.errors import UsageError
from gpucost.options import Names, Option, OptionGroup, number
from gpucost.price.discounts import discounted
from gpucost.price.fx import rates
from gpucost.price.listing import ListedPrice, PriceQuery, listing, prices_of
from gpucost.price.tokens import near_models, token_price
from gpucost.questions.request import store_or_empty
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, old_prices
from gpucost.whatif.flags import DEAREST, kept, to_decimal
from gpucost.whatif.fleet import Price


def price(flag: str, text: str, price: str, most: int | None = None) -> Decimal:
    """The money above zero, or up to `most`, that stands at the end of an option's `text`. Raises UsageError."""
    try:
        return number(Decimal, Option("", above=True, most=most), price)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from None


# Prices of an instance type or GPU model in every region, cheapest GPU-hour first; in the config's currency alone. Raises
# GpucostError where the name means nothing (it offers near ones) or nothing is known of it.
ListPrices = Callable[..., list[ListedPrice]]


@contextmanager
def list_prices(settings: Config) -> Iterator[ListPrices]:
    """List prices less discounts, with those of the store where there is one: the catalog answers without."""

    def listed(name: str | list[str] | None, **which: Names) -> list[ListedPrice]:
        """Those of `purchase_options`, `providers` and `regions`; of all instance types without a name."""
        now = datetime.now(settings.tz)
        query = PriceQuery.of(settings, now, **which)
        found = listing(con, name, query).rows if isinstance(name, str) else prices_of(con, name, query)
        return discounted(con, settings, found, now)

    with store_or_empty(settings) as con:
        yield listed


def source_of(price: ListedPrice) -> tuple[str, str]:
    """Where a list price comes from, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())


def named_old(answer: Answer, settings: Config, day: date) -> Answer:
    """The answer, with the old prices among its assumptions named in its title."""
    prices = [one for one in answer.assumptions if one.unit.startswith("money")]
    dated = [(one.name.partition(":")[0], Price(Decimal(0), one.source, one.as_of)) for one in prices]
    return replace(answer, title=answer.title + old_prices(dated, day, settings.prices.stale_after_days))


@record
class ApiOffer(OptionGroup):
    """A model at an API, and its price."""

    model: Annotated[str | None, Option("Model of the tokens; `*` is anything.", "NAME")] = None
    api_model: Annotated[str | None, Option("Model at the API, if not --model.", "NAME")] = None
    api_provider: Annotated[str | None, Option("Seller, for its list price: openai, aws, …", "NAME")] = None
    input_price_per_million: Annotated[
        Decimal | None, Option("Price of a million prompt tokens, cached ones included.", most=DEAREST)
    ] = None
    output_price_per_million: Annotated[
        Decimal | None, Option("Price of a million generated tokens.", most=DEAREST)
    ] = None
    cached_share: Annotated[
        float | None, Option("Prompt tokens that the API has cached, 0 to 1. Default: 0.", most=1)
    ] = None


class ApiPrice(NamedTuple):
    """Money for a million tokens, and its source."""

    name: str
    input: Decimal
    output: Decimal
    cached: Decimal
    source: str
    as_of: str | None = None

    def cost(self, prompts: float, generations: float, cached_share: float) -> Decimal:
        """The cost of tokens."""
        million = 1_000_000
        cached = to_decimal(round(prompts * cached_share))
        prompt = (to_decimal(prompts) - cached) * self.input + cached * self.cached
        return kept(prompt / million) + kept(to_decimal(generations) * self.output / million)

    def assumptions(self) -> list[Assumption]:
        """The three prices."""
        prices = (
            ("prompt tokens", self.input),
            ("cached prompt tokens", self.cached),
            ("generated tokens", self.output),
        )
        return [
            Assumption(f"{self.name}: {kind}", price, "money per million", self.source, self.as_of)
            for kind, price in prices
        ]


def api_price(settings: Config, offer: ApiOffer, models: Sequence[str], day: date) -> ApiPrice:
    """The two prices of the options, otherwise list prices. Raises UsageError if neither has prices."""
    prompt, output = offer.input_price_per_million, offer.output_price_per_million
    both = "--input-price-per-million and --output-price-per-million"
    if (prompt is None) != (output is None):
        raise UsageError("one of the API's two prices is missing", f"give {both}, or neither")
    model = offer.model if offer.model and "*" not in offer.model else None
    name = offer.api_model or model or (models[0] if len(models) == 1 else None)
    if prompt is not None and output is not None:
        return ApiPrice(name or "the model", prompt, output, prompt, "option")
    if name is None:
        known = f"; the models are {', '.join(models)}" if models else ""
        raise UsageError("the API's price is missing", f"give {both}, or --api-model gpt-4o{known}")
    listed = token_price(offer.api_provider, name, day)
    if listed is None:
        seller = f" at {offer.api_provider}" if offer.api_provider else ""
        near = near_models(offer.api_provider, name, day)
        raise UsageError(f"the price of the tokens of {name}{seller} is unknown", f"{near}; or give {both}")
    fx = rates(settings)

    def converted(price: Decimal) -> Decimal:
        return fx.convert(price, listed.currency, day, f"the token price of {name}")

    prompt = converted(listed.input_price_per_million)
    output = converted(listed.output_price_per_million)
    cached = listed.cached_input_price_per_million
    cached = prompt if cached is None else converted(cached)
    title = f"{listed.model} ({listed.provider})"
    as_of = listed.price_as_of.isoformat()
    return ApiPrice(title, prompt, output, cached, listed.source, as_of)
