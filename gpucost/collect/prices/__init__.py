"""List prices of the clouds, asked for and written: one file per provider, each a PriceCollector."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial

from gpucost.catalog import load_catalog
from gpucost.clouds import NoCredentials
from gpucost.collect.prices.aws import AwsPrices
from gpucost.collect.prices.azure import AzurePrices
from gpucost.collect.prices.base import PriceCollector, Tell, is_region_of
from gpucost.collect.prices.gcp import GcpPrices
from gpucost.collect.prices.gpu_clouds import RunpodPrices, VastPrices
from gpucost.collect.prices.oci import OciPrices
from gpucost.config.model import Config
from gpucost.engine import answer_rows
from gpucost.errors import GpucostError, StoreError
from gpucost.records import record
from gpucost.store.connection import Store, scratch_store
from gpucost.store.prices import ListPrice, ProviderPrices, load_prices, node_regions
from gpucost.store.sqlfiles import columns_of

_COLLECTORS = (AwsPrices, GcpPrices, AzurePrices, OciPrices, RunpodPrices, VastPrices)
PROVIDERS: dict[str, type[PriceCollector]] = {collector.provider: collector for collector in _COLLECTORS}


# Sources round differently: prices nearer to each other than this part are one price.
_SAME = Decimal("0.0005")


@record
class ReplacedPrices:
    """A price that a new one of the same thing takes the place of, both per hour of the whole instance."""

    region: str
    instance_type: str
    purchase_option: str
    term_years: int
    payment_option: str
    offering: str
    currency: str
    new_price_per_hour: Decimal
    old_price_per_hour: Decimal
    old_price_as_of: date

    @property
    def change(self) -> Decimal:
        """By which part of the old price the new one is higher."""
        return self.new_price_per_hour / self.old_price_per_hour - 1


@record
class PriceResult:
    """What came of one provider: its counts, or why it was skipped or failed. Of `replaced` the largest change is first."""

    provider: str
    as_of: date
    regions: tuple[str, ...] = ()
    prices: int = 0
    priced_types: int = 0
    components: int = 0
    replaced: tuple[ReplacedPrices, ...] = ()
    unchanged: int = 0
    skipped: NoCredentials | None = None
    error: GpucostError | None = None

    @property
    def ok(self) -> bool:
        """Whether prices were written."""
        return self.skipped is None and self.error is None


def collect_prices(
    config: Config, store: Store, providers: Sequence[str], regions: Sequence[str], now: datetime, tell: Tell
) -> list[PriceResult]:
    """Asks `providers` for their list prices and writes them, each whole or not at all.

    Without `regions` each provider takes those of its configuration; with them, those that are spelled as its own.
    One that fails does not keep the others from being collected. `tell` takes words on what is being done.
    Raises StoreError where the store cannot be used.
    """
    seen = node_regions(store)
    results = []
    for provider in providers:

        def say(words: str, provider: str = provider) -> None:
            tell(f"{provider}: {words}")

        result = partial(PriceResult, provider, now.date())
        named, near = (
            [one for one in dict.fromkeys(some) if is_region_of(provider, one)] for some in (regions, seen)
        )
        try:
            answer = PROVIDERS[provider](config, named, near, now.date(), say).fetch()
            say("writing")
            replaced, unchanged = _compared(store, answer)
            load_prices(store, answer, now)
        except NoCredentials as error:
            results.append(result(skipped=error))
        except StoreError:
            raise
        except GpucostError as error:
            results.append(result(error=error))
        else:
            regions_priced = {price.region for price in answer.prices}
            types = {price.instance_type for price in answer.prices}
            counts = len(answer.prices), len(types), len(answer.components)
            results.append(result(tuple(sorted(regions_priced)), *counts, replaced, unchanged))
    return results


def _compared(store: Store, answer: ProviderPrices) -> tuple[tuple[ReplacedPrices, ...], int]:
    """What of the store and the catalog the prices in `answer` replace, and how many stand there already."""
    with store.read() if store.exists else scratch_store() as con:
        load_catalog(con)
        columns = columns_of(ListPrice, answer.prices)
        del columns["source"], columns["effective_start"]
        rows = answer_rows(con, __name__, "replaced_prices", {"provider": answer.provider, **columns})
    known = [ReplacedPrices(**row) for row in rows if row["old_price_per_hour"]]
    changed = sorted(
        (price for price in known if abs(price.change) >= _SAME), key=lambda price: -abs(price.change)
    )
    return tuple(changed), len(known) - len(changed)
