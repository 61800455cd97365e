"""What GPUs cost where, by list prices: the catalog's, those collected, and the newest of the spot history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gpucost.catalog import load_catalog
from gpucost.engine.local import run_stage
from gpucost.errors import GpucostError
from gpucost.price.fx import FxRates
from gpucost.price.list_prices import load_price_list
from gpucost.price.listing.names import FIX_UNPRICED, Meant, nearest, not_sold_on_demand, resolve
from gpucost.price.listing.view import (
    ListedPrice,
    Listing,
    Overview,
    by_price,
    cheapest_regions,
    converted,
    spot_discount_percent,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Asked", "ListedPrice", "Listing", "Overview", "listing", "overview"]

_OVERVIEW_OPTIONS = ("on_demand", "spot")
_ALL_OFFERED = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, and what it is seen against. Empty tuples mean any; regions may hold * and ?."""

    today: date
    currency: str
    stale_after_days: int
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    purchase_options: tuple[str, ...] = ()
    all_regions: bool = False


def listing(con: DuckDBPyConnection, name: str, asked: Asked, fx: FxRates) -> Listing:
    """The prices of a GPU or an instance type, cheapest GPU-hour first.

    `con` is a store's, which may be empty; temporary tables are made on it. Other currencies are converted at today's rate of
    `fx`, where there is one. Raises GpucostError for a name that means
    nothing, offering the nearest ones, and where nothing fits the other words.
    """
    _prepare(con, asked)
    meant = resolve(con, name)
    rows = _rows(con, meant, asked, fx)
    current = by_price((row for row in rows if row.status == "current"), asked.currency)
    if not current:
        raise _nothing(con, name, meant, asked)
    if not asked.all_regions and not asked.regions:
        current = cheapest_regions(current)
    return Listing(
        name=name,
        gpu_models=tuple(sorted({row.gpu_model for row in current if row.gpu_model})),
        today=asked.today,
        currency=asked.currency,
        stale_after_days=asked.stale_after_days,
        rows=tuple(current),
        superseded=tuple(by_price((row for row in rows if row.status != "current"), asked.currency)),
        not_sold_on_demand=not_sold_on_demand(con, meant.instance_types),
    )


def overview(con: DuckDBPyConnection, asked: Asked, fx: FxRates) -> Overview:
    """Every GPU model that has a price, with the cheapest GPU-hour of each purchase option: on demand and spot, if none is asked.

    Prices that cannot be converted to the config's currency are left out. Models by their cheapest price. Raises GpucostError
    where nothing fits.
    """
    _prepare(con, asked)
    options = asked.purchase_options or _OVERVIEW_OPTIONS
    found: dict[str, dict[str, ListedPrice]] = {}
    for row in by_price(_rows(con, Meant(), asked, fx, options, superseded=False), asked.currency):
        if row.gpu_model and row.currency == asked.currency:
            found.setdefault(row.gpu_model, {}).setdefault(row.purchase_option, row)
    if not found:
        raise _nothing(con, "any GPU", Meant(), asked)
    return Overview(asked.today, asked.currency, asked.stale_after_days, options, tuple(found.items()))


def _prepare(con: DuckDBPyConnection, asked: Asked) -> None:
    load_catalog(con)
    load_price_list(con)
    run_stage(con, __name__, "10_listed_facts", {"today": asked.today})
    run_stage(con, __name__, "20_listed_instances")
    run_stage(con, __name__, "30_listed_prices", {"today": asked.today})


def _rows(
    con: DuckDBPyConnection,
    meant: Meant,
    asked: Asked,
    fx: FxRates,
    purchase_options: tuple[str, ...] | None = None,
    *,
    superseded: bool = True,
) -> list[ListedPrice]:
    words = {
        "gpu_models": list(meant.gpu_models),
        "instance_types": list(meant.instance_types),
        "providers": [word.lower() for word in asked.providers],
        "regions": [word.lower() for word in asked.regions],
        "purchase_options": list(asked.purchase_options if purchase_options is None else purchase_options),
        "superseded": superseded,
    }
    run_stage(con, __name__, "40_asked_prices", words)
    oldest_fresh = asked.today - timedelta(days=asked.stale_after_days)
    rows = []
    answer = con.execute("FROM asked_prices")
    names = [str(column[0]) for column in answer.description or []]
    for record in answer.fetchall():
        fields = dict(zip(names, record, strict=True))
        rows.append(_price(fields, fx.rate(fields["currency"], asked.today), asked.currency, oldest_fresh))
    return rows


def _price(fields: dict[str, Any], rate: Decimal | None, currency: str, oldest_fresh: date) -> ListedPrice:
    on_demand = fields.pop("on_demand_price_per_hour")
    listed, listed_currency = Decimal(fields.pop("price_per_hour")).normalize(), str(fields.pop("currency"))
    fields["gpu_count"] = fields["gpu_count"] and fields["gpu_count"].normalize()
    is_spot = fields["purchase_option"] == "spot" and on_demand is not None
    for name in ("region", "zone", "term_years", "payment_option", "offering"):
        fields[name] = fields[name] or None
    return ListedPrice(
        **fields,
        price_per_hour=listed if rate is None else converted(listed, rate),
        currency=listed_currency if rate is None else currency,
        listed_price_per_hour=listed,
        listed_currency=listed_currency,
        spot_discount_percent=spot_discount_percent(listed, on_demand) if is_spot else None,
        is_stale=fields["price_as_of"] < oldest_fresh,
    )


def _nothing(con: DuckDBPyConnection, name: str, meant: Meant, asked: Asked) -> GpucostError:
    """Which of the words asked for leaves no price, and what there is instead."""
    left = _rows(con, meant, replace(asked, providers=(), regions=(), purchase_options=()), FxRates(asked.currency, {}))
    left = [row for row in left if row.status == "current"]
    if not left:
        return GpucostError(f"no list price of {name} is known", FIX_UNPRICED)
    for what, words, field in (
        ("provider", asked.providers, "provider"),
        ("region", asked.regions, "region"),
        ("purchase option", asked.purchase_options, "purchase_option"),
    ):
        known = sorted({getattr(row, field) or "" for row in left})
        fitting = [
            row for row in left if not words or any(fnmatchcase((getattr(row, field) or "").lower(), w.lower()) for w in words)
        ]
        if not fitting:
            facts = not_sold_on_demand(con, meant.instance_types)
            if facts and "on_demand" in words:
                return GpucostError("; ".join(facts), f"gpucost prices {name} lists what it is sold as")
            there = [value for value in known if value]
            some = f"; there are {len(there)}, such as " if len(there) > _ALL_OFFERED else "; there is " if there else ""
            offered = nearest(words[0], there) if len(there) > _ALL_OFFERED else there
            missing = f"no price of {name} is known for the {what} {' or '.join(words)}{some}{', '.join(offered)}"
            return GpucostError(
                "; ".join((missing, *facts)), "name one of these, or gpucost collect prices asks the clouds for more"
            )
        left = fitting
    return GpucostError(f"no price of {name} is known in {asked.currency}", "[prices] fx gives the rates of other currencies")
