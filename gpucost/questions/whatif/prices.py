"""List prices for what-ifs, and prices that options give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.options import Option, number
from gpucost.questions.request import store_or_empty

if TYPE_CHECKING:
    from gpucost.config.model import Config
    from gpucost.price.listing import ListedPrice


def price(flag: str, text: str, price: str, most: int | None = None) -> Decimal:
    """The money above zero, or up to `most`, that stands at the end of an option's `text`. Raises UsageError."""
    try:
        return number(Decimal, Option("", above=True, most=most), price)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from None


# Prices of an instance type or GPU model in every region, cheapest GPU-hour first; in the config's currency alone. Raises
# GpucostError where the name means nothing (it offers near ones) or nothing is known of it.
ListPrices = Callable[..., "list[ListedPrice]"]


@contextmanager
def list_prices(settings: Config) -> Iterator[ListPrices]:
    """List prices, with those of the store where there is one: the catalog answers without."""
    from gpucost.price.fx import rates
    from gpucost.price.listing import PriceQuery, listing, prices_of

    def listed(name: str | list[str], **which: tuple[str, ...]) -> list[ListedPrice]:
        """Those of `purchase_options`, `providers` and `regions`; instance types may be without any price."""
        query = PriceQuery(
            today=datetime.now(settings.tz).date(),
            currency=settings.currency,
            stale_after_days=settings.prices.stale_after_days,
            all_regions=True,
            **which,
        )
        found = (
            listing(con, name, query, rates(settings)).rows
            if isinstance(name, str)
            else prices_of(con, name, query, rates(settings))
        )
        return [row for row in found if row.currency == settings.currency]

    with store_or_empty(settings) as con:
        yield listed


def price_of_region(rows: Sequence[ListedPrice]) -> ListedPrice:
    """Of a region's prices, cheapest first, the one of no certain zone: the region's own, else the lower median of its zones."""
    return next((row for row in rows if row.zone is None), rows[(len(rows) - 1) // 2])


def source_of(price: ListedPrice) -> tuple[str, str]:
    """Where a list price comes from, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())
