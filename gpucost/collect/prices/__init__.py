"""List prices of the clouds, asked for and written: one file per provider, each a PriceCollector."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from gpucost.collect.login import NoCredentials
from gpucost.collect.prices.base import PriceCollector, is_region_of
from gpucost.errors import GpucostError, StoreError
from gpucost.store.list_prices import load_prices, node_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpucost.config import Config
    from gpucost.store import Store

PROVIDERS = ("aws", "gcp", "azure")


@dataclass(frozen=True, slots=True)
class PriceResult:
    """What came of one provider: its counts, or why it was skipped or failed."""

    provider: str
    as_of: date
    regions: tuple[str, ...] = ()
    prices: int = 0
    priced_types: int = 0
    components: int = 0
    instance_types: int = 0
    skipped: NoCredentials | None = None
    error: GpucostError | None = None

    @property
    def ok(self) -> bool:
        """Whether prices were written."""
        return self.skipped is None and self.error is None


def collect_prices(
    config: Config,
    store: Store,
    providers: Sequence[str],
    regions: Sequence[str],
    now: datetime,
    tell: Callable[[str], None] | None = None,
) -> list[PriceResult]:
    """Asks `providers` for their list prices and writes them, each whole or not at all.

    Without `regions` each provider takes those of its configuration; with them, those that are spelled as its own.
    One that fails does not keep the others from being collected. `tell` takes words on what is being done.
    Raises StoreError where the store cannot be used.
    """
    seen = node_regions(store)
    results = []
    for provider in providers:
        own = [region for region in regions if is_region_of(provider, region)]

        def told(words: str, provider: str = provider) -> None:
            if tell is not None:
                tell(f"{provider}: {words}")

        near = [region for region in seen if is_region_of(provider, region)]
        collector = _collectors()[provider](config, own, near, now.date(), told)
        try:
            found = collector.fetch()
            told("writing")
            load_prices(store, found, now)
        except NoCredentials as error:
            results.append(PriceResult(provider, now.date(), skipped=error))
        except StoreError:
            raise
        except GpucostError as error:
            results.append(PriceResult(provider, now.date(), error=error))
        else:
            results.append(
                PriceResult(
                    provider,
                    now.date(),
                    tuple(sorted({price.region for price in found.prices})),
                    len(found.prices),
                    len({price.instance_type for price in found.prices}),
                    len(found.components),
                    len(found.instance_types),
                )
            )
    return results


def _collectors() -> dict[str, type[PriceCollector]]:
    from gpucost.collect.prices.aws import AwsPrices
    from gpucost.collect.prices.azure import AzurePrices
    from gpucost.collect.prices.gcp import GcpPrices

    return {collector.provider: collector for collector in (AwsPrices, GcpPrices, AzurePrices)}
