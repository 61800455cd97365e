"""What the collectors of list prices share: what they are asked, what they answer, and how they fail."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel

from gpucost import http, inputs
from gpucost.catalog import facts, spelled
from gpucost.config.model import Config
from gpucost.errors import SourceError
from gpucost.store.prices import ListPrice, ProviderPrices

Tell = Callable[[str], None]

_LONGEST_SECONDS = 3600.0
_JSON_BYTES = inputs.ANSWER
HOURS_PER_YEAR = 8760  # AWS' own year, and Azure's: a 3-year term has 26,280 hours

# A region says by its spelling whose it is: us-east-1, us-central1, eastus2. The others have one price everywhere.
_REGIONS = {"aws": r"[a-z]{2,}(-[a-z]+)+-\d+", "gcp": r"[a-z]+-[a-z]+\d+", "azure": r"[a-z]+\d*[a-z]*"}


@dataclass(frozen=True)
class PriceCollector(ABC):
    """The list prices of one cloud. A subclass says how to ask for them.

    `regions` are those that an option names, `seen` those in which nodes were seen, `day` the UTC day it is; `tell` takes words
    on what is being done.
    """

    provider: ClassVar[str]
    config: Config
    regions: list[str]
    seen: list[str]
    day: date
    tell: Tell

    @abstractmethod
    def fetch(self) -> ProviderPrices:
        """Asks for all prices.

        Raises NoCredentials, or SourceError where any part of the answer is missing.
        """


def again(provider: str) -> str:
    """The command that asks a provider once more."""
    return f"gpucost collect prices --provider {provider}"


def public_list(provider: str, what: str, setting: str, url: str) -> http.JsonServer:
    """The server of a list without a login, called `what` in messages; `setting` is the key of the configuration of its `url`."""
    return http.JsonServer(
        f"{provider}: {what}",
        http.session(url, _LONGEST_SECONDS, _JSON_BYTES),
        login="a proxy may stand between; it needs no login",
        address=f"check {setting}, then {again(provider)}",
        later=f"wait a while, then {again(provider)}",
    )


@contextmanager
def read_as(what: str, fix: str) -> Iterator[None]:
    """Turns what an answer lacks into SourceError: `what` (that cannot be read), and why."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise SourceError(f"{what}: {type(error).__name__} {str(error)[:80]}", fix) from error


def is_region_of(provider: str, region: str) -> bool:
    """Whether a region is spelled as this provider spells its regions."""
    return provider in _REGIONS and re.fullmatch(_REGIONS[provider], region) is not None


def newest(prices: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, Any]:
    """One price (of instances or of their units) per key: the one that began last, and of those the dearest.

    So that an estimate does not fall short.
    """

    def rank(price: Any) -> tuple[str, Decimal]:
        return (price.effective_start.isoformat() if price.effective_start else "", price.price_per_hour)

    best: dict[Any, Any] = {}
    for price in sorted(prices, key=rank, reverse=True):
        best.setdefault(key(price), price)
    return best


def one_of_each(prices: Iterable[ListPrice]) -> list[ListPrice]:
    """One price of each thing, in order of what it is the price of."""
    return sorted(newest(prices, lambda price: price.key).values(), key=lambda price: price.key)


class KnownType(BaseModel, frozen=True):
    """One instance type of the catalog; `gpu_memory_mib` is of one GPU or part of one."""

    instance_type: str
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_mib: int | None = None
    vcpus: Decimal = Decimal(0)
    memory_gib: Decimal = Decimal(0)
    local_ssd_gib: Decimal = Decimal(0)


@cache
def known_types(provider: str) -> Mapping[str, KnownType]:
    """The catalog's instance types of a provider, by name."""
    rows = [
        {name: text for name, text in row.items() if text}
        for row in facts("instances.csv")
        if row["provider"] == provider
    ]
    return {row["instance_type"]: KnownType.model_validate(row) for row in rows}


def gpu_model(*spellings: str) -> str:
    """The one name of a GPU model: that of the first of `spellings` the catalog knows, else the last one, hyphenated."""
    for spelling in spellings:
        if name := _aliases().get(spelled(spelling)):
            return name
    return re.sub(r"\s+", "-", spellings[-1].strip())


def gpu_memory_mib(model: str) -> int | None:
    """Memory of one whole GPU of that model; None where the catalog does not know it."""
    memory = next((row["memory_mib"] for row in facts("gpus.csv") if row["gpu_model"] == model), "")
    return int(memory) if memory else None


@cache
def _aliases() -> Mapping[str, str]:
    return {spelled(row["alias"]): row["gpu_model"] for row in facts("gpu_aliases.csv")}
