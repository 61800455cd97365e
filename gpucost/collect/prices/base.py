"""What the collectors of list prices share: what they are asked, what they answer, and how they fail."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from datetime import date

    from gpucost.config import Config
    from gpucost.store.list_prices import ListPrice, ProviderPrices

Tell = Callable[[str], None]

# A region says by its spelling whose it is: us-east-1, us-central1, eastus2. The others have one price everywhere.
_REGIONS = {"aws": r"[a-z]{2,}(-[a-z]+)+-\d+", "gcp": r"[a-z]+-[a-z]+\d+", "azure": r"[a-z]+\d*[a-z]*"}


class PriceCollector(ABC):
    """The list prices of one cloud. A subclass says how to ask for them."""

    provider: ClassVar[str]

    def __init__(self, config: Config, regions: Sequence[str], seen: Sequence[str], day: date, tell: Tell) -> None:
        """`regions` are those asked for by option, `seen` those in which nodes were seen, `day` the UTC day it is.

        `tell` takes words on what is being done.
        """
        self.config = config
        self.regions = list(dict.fromkeys(regions))
        self.seen = list(seen)
        self.day = day
        self.tell = tell

    @abstractmethod
    def fetch(self) -> ProviderPrices:
        """Asks for all prices.

        Raises NoCredentials, or SourceError where any part of the answer is missing.
        """


def is_region_of(provider: str, region: str) -> bool:
    """Whether a region is spelled as this provider spells its regions."""
    return provider in _REGIONS and re.fullmatch(_REGIONS[provider], region) is not None


def one_of_each(prices: Iterable[ListPrice]) -> list[ListPrice]:
    """One price per key: the one that began last, and of those the dearest, lest an estimate falls short."""
    best: dict[tuple[object, ...], ListPrice] = {}
    for price in prices:
        had = best.get(price.key)
        if had is None or _rank(price) > _rank(had):
            best[price.key] = price
    return sorted(best.values(), key=lambda price: price.key)


def _rank(price: ListPrice) -> tuple[str, object]:
    return (price.effective_start.isoformat() if price.effective_start else "", price.price_per_hour)
