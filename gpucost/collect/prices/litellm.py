"""List prices of tokens: LiteLLM's public map of models, from its server or from a file."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost import inputs
from gpucost.catalog import seller
from gpucost.collect.prices.base import PriceCollector
from gpucost.collect.prices.public import PublicList
from gpucost.errors import SourceError
from gpucost.store.prices import ProviderPrices, TokenPrice
from gpucost.texts import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

SOURCE = "litellm price map"
MAP_BYTES = 32 * inputs.MIB  # about nine times as much as it has
_MODES = ("chat", "responses")
_MOST_PER_TOKEN = Decimal("0.01")  # about fifteen times what the dearest model asks
_LONGEST_NAME = 200
_BILLIONTH = Decimal("1e-9")  # as finely as the store keeps the price of a million


class LitellmPrices(PriceCollector):
    """What sellers of tokens ask for chat models, by LiteLLM's map: `[price_lists] litellm`, a URL or a file."""

    provider = "litellm"

    def fetch(self) -> ProviderPrices:
        place = self.config.price_lists.litellm
        self.tell("prices of tokens")
        if "://" in place:
            public = PublicList(self.provider, "the map of token prices", "[price_lists] litellm", limit=MAP_BYTES)
            models, again = public.json(place), public.again
        else:
            models, again = _of_file(Path(place)), "name another file, or fetch the map again"
        return read_map(models, self.day, again)


def _of_file(path: Path) -> Any:
    fix = "fetch the map again, or name another file"
    try:
        return inputs.parse_json(inputs.text(path, MAP_BYTES), Decimal)
    except OSError as error:
        raise SourceError(f"litellm: {path} cannot be read: {error.strerror or error}", fix) from None
    except (ValueError, ArithmeticError) as error:
        raise SourceError(f"litellm: {path} is no map of token prices, or half of one: {error}", fix) from None


def read_map(models: Any, day: date, again: str) -> ProviderPrices:
    """The prices of the map as of `day`, one for each seller and model.

    Those of chat models that are bought by the token: both prices are above 0. Retired models are among them: tokens of the time
    before are priced, too, and not by another release. The first tier counts where a price rises with the context. Of several
    entries for one model at one seller the dearest of those that are not retired counts, so that an estimate does not fall
    short. Prices that cannot be are passed over, by name; where most are so, the map is none.

    Raises SourceError, with `again` as what to do, for anything that is no such map.
    """
    if not isinstance(models, dict):
        raise SourceError("litellm: the answer is no map of token prices", again)
    prices: dict[tuple[str, str], TokenPrice] = {}
    retired: dict[tuple[str, str], TokenPrice] = {}
    passed_over = []
    for name, about in models.items():
        if not isinstance(about, dict) or about.get("mode") not in _MODES:
            continue
        try:
            price = _price(name, about, day)
        except ValueError as error:
            passed_over.append(f"{_short(name)} ({error})")
            continue
        if price is not None:
            key = (price.provider, price.model.lower())
            some = retired if _is_retired(about, day) else prices
            some[key] = max(price, some.get(key, price), key=_dearness)
    prices = retired | prices
    if len(passed_over) > len(prices):
        raise SourceError(f"litellm: most prices of the map cannot be, such as that of {passed_over[0]}", again)
    if not prices:
        raise SourceError("litellm: the map has no prices of tokens", again)
    return ProviderPrices("litellm", [], [], tokens=[prices[key] for key in sorted(prices)], passed_over=passed_over)


def _is_retired(about: Mapping[str, Any], day: date) -> bool:
    ends = str(about.get("deprecation_date") or "")
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", ends)) and ends <= day.isoformat()


def _price(name: str, about: Mapping[str, Any], day: date) -> TokenPrice | None:
    """The price of one entry; None where it is not sold by the token. Raises ValueError for one that cannot be."""
    fields = ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
    bought, cached, generated = (_per_million(about.get(field)) for field in fields)
    if bought is None or generated is None:
        return None
    provider = seller(str(about.get("litellm_provider") or ""))
    head, _, rest = name.partition("/")
    model = rest if rest and seller(head) == provider else name
    for word in (provider, model):
        if not word or len(word) > _LONGEST_NAME or not word.isprintable() or word != word.strip():
            raise ValueError("its name cannot be")
    return TokenPrice(provider, model, bought, cached, generated, "USD", day, SOURCE)


def _per_million(per_token: Any) -> Decimal | None:
    """None where there is none, or it is 0. Raises ValueError for what no token costs."""
    if per_token is None:
        return None
    if isinstance(per_token, bool) or not isinstance(per_token, int | Decimal):
        raise ValueError("a price is no number")
    price = Decimal(per_token)
    if not 0 <= price <= _MOST_PER_TOKEN:
        raise ValueError(f"{price:.3g} dollars a token")
    return (price * 1_000_000).quantize(_BILLIONTH) or None


def _dearness(price: TokenPrice) -> tuple[Decimal, Decimal, bool]:
    return (price.output_price_per_million, price.input_price_per_million, price.cached_input_price_per_million is not None)


def _short(name: str) -> str:
    return one_line(name)[:_LONGEST_NAME]
