"""List prices of tokens: the price of a million, by model, seller and day."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpucost.catalog import facts
from gpucost.records import frozen_dataclass
from gpucost.suggest import did_you_mean

# The usual names of sellers, as globs, and their names in the list. Other names stay as they are.
_SELLERS = {
    "azure*": "azure",
    "az.ai*": "azure",
    "microsoft": "azure",
    "anthropic*": "anthropic",
    "bedrock*": "aws",
    "sagemaker*": "aws",
    "amazon*": "aws",
    "aws*": "aws",
    "vertex_ai*": "gcp",
    "gemini": "gcp",
    "google*": "gcp",
    "gcp*": "gcp",
    "mistral_ai": "mistral",
    "codestral": "mistral",
    "cohere*": "cohere",
    "x_ai": "xai",
    "fireworks": "fireworks_ai",
    "together": "together_ai",
}
# Makers whose models others sell, too.
_MAKERS = ("openai", "anthropic", "mistral", "deepseek", "xai", "cohere")
_OFFERED = 3
# The serving region that Bedrock and Azure put before a model's name. The catalog has a row for it only if
# its price differs.
_PLACE = re.compile(r"(us|eu|global)[./]")
# Bedrock's makers: anthropic.claude-…, but not the first part of qwen3.5-….
_MAKER = re.compile(r"[a-z0-9]+\.(?=[a-z])")
# A release, by its day, month or number: 2024-08-06, 20250929, 0905, 2512, @001.
_RELEASE = re.compile(
    r"[-@](\d{4}-\d\d-\d\d|\d{8}|(?:0[1-9]|1[0-2])[0-3]\d|2\d(?:0[1-9]|1[0-2])|(?<=@)\d{3})$"
)
# Suffixes that add no meaning, and Bedrock's version of an interface.
_NOTHING = re.compile(r"(-latest|@latest|@default|-v?\d+:\d+|-v1)$")


@frozen_dataclass
class TokenPrice:
    """Prices of a million tokens of a model at a seller, in `currency`, as of a day.

    The price of cached input is None if it is unknown.
    """

    provider: str
    model: str
    input_price_per_million: Decimal
    cached_input_price_per_million: Decimal | None
    output_price_per_million: Decimal
    currency: str
    price_as_of: date
    source: str


@frozen_dataclass
class TokenPricesAnswer:
    """The answer of `gpucost prices tokens`.

    Prices are per million tokens, by provider and model, each in its currency.
    """

    today: date
    stale_after_days: int
    rows: Sequence[TokenPrice]


def seller(name: str) -> str:
    """A seller's name in the list: `aws` for bedrock, `gcp` for Vertex AI and gemini."""
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return next((sold for glob, sold in _SELLERS.items() if fnmatchcase(plain, glob)), plain)


def token_prices(at: date, providers: Iterable[str] = (), model: str | None = None) -> list[TokenPrice]:
    """List the prices on a day, by provider and model: the newest up to that day, otherwise the oldest.

    `providers` are names of sellers; `model` is a glob of a model's name, or of its part after a slash, in
    any case.
    """
    sellers, pattern = {seller(name) for name in providers}, (model or "*").strip().lower()
    held = {}
    for price in sorted(
        map(_price, facts("tokens.csv")), key=lambda row: (row.price_as_of <= at, -abs(row.price_as_of - at))
    ):
        name = price.model.lower()
        is_named = fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)
        if is_named and (not sellers or price.provider in sellers):
            held[price.provider, name] = price
    return [held[key] for key in sorted(held)]


def _price(row: dict[str, str]) -> TokenPrice:
    cached = row["cached_input_price_per_million"]
    return TokenPrice(
        row["provider"],
        row["model"],
        Decimal(row["input_price_per_million"]),
        Decimal(cached) if cached else None,
        Decimal(row["output_price_per_million"]),
        row["currency"],
        date.fromisoformat(row["price_as_of"]),
        row["source_id"],
    )


def token_price(provider: str | None, model: str, at: date) -> TokenPrice | None:
    """Find the price of `model` on a day at `provider`; None if the list has none.

    The answer names the row. Names match in any case, with or without the provider before them
    (`openai/gpt-4o`). If no row matches, ignore a maker (`meta-llama/`), a place (`us.`) and a release
    (`-2024-08-06`): a release has the price of the model without one, a model without one has the price of
    its newest release; two different releases never match. Without a provider: the price of the model's
    maker, otherwise the upper median of the sellers' prices.
    """
    sold = token_prices(at)
    readings = list(_readings(provider, model.strip().lower(), {price.provider for price in sold}))
    for is_same in (str.__eq__, _is_like):
        for who, name in readings:
            fitting = [
                price
                for price in sold
                if who in (None, price.provider) and is_same(name, price.model.lower())
            ]
            if fitting:
                return _best(name, fitting)
    return None


def near_models(provider: str | None, model: str, at: date) -> str:
    """The suggestion for a model without a price: `did you mean openai/gpt-4o or …?`.

    Otherwise the command that lists all models.
    """
    sold = token_prices(at, [provider] if provider else ())
    by_length = sorted(sold, key=lambda price: len(price.model), reverse=True)
    names = {_named(price.model.lower()).model: f"{price.provider}/{price.model}" for price in by_length}
    fix = "gpucost prices tokens lists the models that have a price"
    return did_you_mean(
        _named(model.strip().lower()).model, names, fix, most=_OFFERED, shown=names.__getitem__
    )


def _readings(provider: str | None, name: str, sellers: set[str]) -> Iterator[tuple[str | None, str]]:
    """Possible sellers (None: any) and the model's name there, the likelier first."""
    head, _, rest = name.partition("/")
    before = seller(head) if rest and seller(head) in sellers else None
    if provider is not None:
        yield seller(provider), name
    if before is not None:
        yield seller(provider) if provider is not None else before, rest
    if provider is None:
        yield None, name


class _Named(NamedTuple):
    """The parts of a model's name; `place` and `release` may be empty."""

    place: str
    model: str
    release: str


def _named(name: str) -> _Named:
    found = _PLACE.match(name)
    place = found[1] if found else ""
    model = name.rpartition("/")[2].removeprefix(f"{place}.")
    model = _NOTHING.sub("", _MAKER.sub("", model, count=1) if _MAKER.match(model) else model)
    release = _RELEASE.search(model)
    return _Named(place, model[: release.start()], release[1]) if release else _Named(place, model, "")


def _is_like(name: str, list_name: str) -> bool:
    wanted, other = _named(name), _named(list_name)
    return wanted.model == other.model and (
        wanted.release == other.release or "" in (wanted.release, other.release)
    )


def _best(name: str, fitting: Sequence[TokenPrice]) -> TokenPrice:
    """Pick one of the matching prices.

    Takes the most similar price of each seller; among these the maker's, otherwise the upper median.
    """
    wanted = _named(name)

    def unlike(price: TokenPrice) -> tuple[bool, bool, bool, int, bool, int, str]:
        there = _named(price.model.lower())
        released = int(re.sub(r"\D", "", there.release) or 0)
        is_part = price.cached_input_price_per_million is None
        differs = (there.place != wanted.place, there.release != wanted.release, there.place != "")
        return (*differs, -released, is_part, len(price.model), price.model)

    of_each: dict[str, TokenPrice] = {}
    for price in sorted(fitting, key=unlike):
        of_each.setdefault(price.provider, price)
    for maker in _MAKERS:
        if maker in of_each:
            return of_each[maker]
    ranked = sorted(
        of_each.values(), key=lambda price: (price.output_price_per_million, price.input_price_per_million)
    )
    # the upper median: a default should not understate the cost
    return ranked[len(ranked) // 2]
