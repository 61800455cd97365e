"""Common parts of list price collectors: queries, answers and failures."""

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

ShowProgress = Callable[[str], None]

_LONGEST_SECONDS = 3600.0
_JSON_BYTES = inputs.ANSWER
HOURS_PER_YEAR = 8760  # AWS' and Azure's year: a 3-year term has 26,280 hours

# The providers whose regions have a recognizable spelling: us-east-1, us-central1, eastus2. The others have
# one price everywhere.
_REGIONS = {"aws": r"[a-z]{2,}(-[a-z]+)+-\d+", "gcp": r"[a-z]+-[a-z]+\d+", "azure": r"[a-z]+\d*[a-z]*"}


@dataclass(frozen=True)
class PriceCollector(ABC):
    """The list prices of one cloud. Subclasses query them.

    `regions`: from the option. `seen`: regions of known nodes. `day`: the current UTC day. `show_progress` receives
    progress messages.
    """

    provider: ClassVar[str]
    config: Config
    regions: list[str]
    seen: list[str]
    day: date
    show_progress: ShowProgress

    @abstractmethod
    def fetch(self) -> ProviderPrices:
        """Query all prices.

        Raises NoCredentials, or SourceError if any part of the answer is missing.
        """


def again(provider: str) -> str:
    """The command that queries a provider again."""
    return f"gpucost collect prices --provider {provider}"


def public_list(provider: str, what: str, setting: str, url: str) -> http.JsonServer:
    """The server of a list without login, named `what` in messages; `setting` is the config key of its `url`."""
    return http.JsonServer(
        f"{provider}: {what}",
        http.session(url, _LONGEST_SECONDS, _JSON_BYTES),
        login="check for a proxy in between; the list needs no login",
        address=f"check {setting}, then {again(provider)}",
        later=f"wait a while, then {again(provider)}",
    )


@contextmanager
def read_as(what: str, fix: str) -> Iterator[None]:
    """Turn errors of reading an answer into SourceError, whose message begins with `what`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise SourceError(f"{what}: {type(error).__name__} {str(error)[:80]}", fix) from error


def is_region_of(provider: str, region: str) -> bool:
    """Whether a region has this provider's spelling."""
    return provider in _REGIONS and re.fullmatch(_REGIONS[provider], region) is not None


def newest(prices: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, Any]:
    """One price per key, of instances or units: the latest to begin, and of these the most expensive.

    So an estimate is not too low.
    """

    def rank(price: Any) -> tuple[str, Decimal]:
        return (price.effective_start.isoformat() if price.effective_start else "", price.price_per_hour)

    best: dict[Any, Any] = {}
    for price in sorted(prices, key=rank, reverse=True):
        best.setdefault(key(price), price)
    return best


def without_duplicates(prices: Iterable[ListPrice]) -> list[ListPrice]:
    """One price per item, ordered by item."""
    return sorted(newest(prices, lambda price: price.key).values(), key=lambda price: price.key)


class CatalogType(BaseModel, frozen=True):
    """One instance type of the catalog; `gpu_memory_mib` is per GPU, or per fraction of one."""

    instance_type: str
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_mib: int | None = None
    vcpus: Decimal = Decimal(0)
    memory_gib: Decimal = Decimal(0)
    local_ssd_gib: Decimal = Decimal(0)


@cache
def types_in_catalog(provider: str) -> Mapping[str, CatalogType]:
    """The catalog's instance types of a provider, by name."""
    rows = [
        {name: text for name, text in row.items() if text}
        for row in facts("instances.csv")
        if row["provider"] == provider
    ]
    return {row["instance_type"]: CatalogType.model_validate(row) for row in rows}


def gpu_model(*spellings: str) -> str:
    """The canonical name of a GPU model: of the first known spelling, otherwise the last one, hyphenated."""
    for spelling in spellings:
        if name := _aliases().get(spelled(spelling)):
            return name
    return re.sub(r"\s+", "-", spellings[-1].strip())


def gpu_memory_mib(model: str) -> int | None:
    """Memory of one whole GPU of that model; None if it is not in the catalog."""
    memory = next((row["memory_mib"] for row in facts("gpus.csv") if row["gpu_model"] == model), "")
    return int(memory) if memory else None


@cache
def _aliases() -> Mapping[str, str]:
    return {spelled(row["alias"]): row["gpu_model"] for row in facts("gpu_aliases.csv")}
