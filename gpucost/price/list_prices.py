"""THE list prices: what an instance type costs in a place, bought so, at a moment. All who ask for one read list_prices.sql."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine import run_stage
from gpucost.periods import local_midnight, to_ms
from gpucost.price.fx import load_rates, rates

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_PACKAGE = "gpucost.price"


def load_vocabulary(con: DuckDBPyConnection) -> None:
    """Create region_of(zone), place_rank(...) and purchase_fits: where a price holds, and which nodes it is for."""
    for name in ("region_of", "place_rank", "purchase_fits"):
        run_stage(con, _PACKAGE, name)


def load_price_list(con: DuckDBPyConnection, instance_types: Collection[str] | None = None) -> None:
    """Create the temporary table price_list of all instance types, or of these (in lower case), and the vocabulary.

    Expects the catalog's tables on this connection.
    """
    load_vocabulary(con)
    names = None if instance_types is None else sorted(instance_types)
    run_stage(con, _PACKAGE, "list_prices", {"instance_types": names})


def load_offers(con: DuckDBPyConnection, config: Config, day: date | None = None) -> None:
    """Create the temporary table price_offers: price_list as of a local day (today), in the config's currency at its rate.

    Loads the catalog. Raises PriceError for rates that cannot be used.
    """
    day = day or datetime.now(config.tz).date()
    load_catalog(con)
    load_price_list(con)
    load_rates(con, config, rates(config))
    run_stage(con, _PACKAGE, "price_offers", {"day": day, "midnight_ms": to_ms(local_midnight(day, config.tz))})
