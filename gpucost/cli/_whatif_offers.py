"""List prices for what-ifs: the catalog's, those collected, and the newest of the spot history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.price.listing import ListedPrice


class ListPrices:
    """Asks list prices of one connection; in the config's currency alone."""

    def __init__(self, con: DuckDBPyConnection, settings: Config) -> None:
        self._con = con
        self._settings = settings

    def all(
        self, name: str, *, purchase_options: tuple[str, ...], providers: tuple[str, ...] = (), regions: tuple[str, ...] = ()
    ) -> list[ListedPrice]:
        """Prices of an instance type or GPU model in every region, cheapest GPU-hour first.

        Raises GpucostError where the name means nothing (it offers near ones) or nothing is known of it.
        """
        from datetime import datetime

        from gpucost.price.fx import rates
        from gpucost.price.listing import Asked, listing

        asked = Asked(
            today=datetime.now(self._settings.tz).date(),
            currency=self._settings.currency,
            stale_after_days=self._settings.prices.stale_after_days,
            providers=providers,
            regions=regions,
            purchase_options=purchase_options,
            all_regions=True,
        )
        rows = listing(self._con, name, asked, rates(self._settings)).rows
        return [row for row in rows if row.currency == self._settings.currency]

    def some(self, name: str, *, purchase_options: tuple[str, ...], provider: str, region: str) -> list[ListedPrice]:
        """The same in one place, empty where nothing is known."""
        from gpucost.errors import GpucostError

        places = {"providers": (provider,) if provider else (), "regions": (region,) if region else ()}
        try:
            return self.all(name, purchase_options=purchase_options, **places)
        except GpucostError:
            return []


@contextmanager
def store_or_empty(settings: Config) -> Iterator[DuckDBPyConnection]:
    """The store where there is one, else an empty one in memory: the catalog can be asked beside either."""
    from gpucost.store import Store
    from gpucost.store.scratch import scratch_store

    store = Store(settings.store)
    with store.read() if store.exists else scratch_store() as con:
        yield con


@contextmanager
def list_prices(settings: Config) -> Iterator[ListPrices]:
    """List prices, with those of the store where there is one: the catalog answers without."""
    with store_or_empty(settings) as con:
        yield ListPrices(con, settings)


def price_of_region(rows: Sequence[ListedPrice]) -> ListedPrice:
    """Of a region's prices, cheapest first, the one of no certain zone: the region's own, else the lower median of its zones."""
    return next((row for row in rows if row.zone is None), rows[(len(rows) - 1) // 2])


def source_of(price: ListedPrice) -> tuple[str, str]:
    """Where a list price comes from, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())
