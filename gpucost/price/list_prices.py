"""List prices by instance type, place, purchase option and time.

All code that needs a list price reads list_prices.sql.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine import run_stage
from gpucost.periods import local_midnight, to_ms
from gpucost.price.fx import load_fx_rates

if TYPE_CHECKING:
    from collections.abc import Collection

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_PACKAGE = "gpucost.price"


def load_vocabulary(con: DuckDBPyConnection) -> None:
    """Create region_of(zone), place_rank(...) and purchase_fits: the places and nodes of a price."""
    run_stage(con, _PACKAGE, "vocabulary")


def load_price_list(con: DuckDBPyConnection, instance_types: Collection[str] | None = None) -> None:
    """Create the temporary table price_list, vocabulary and catalog.

    The list has all instance types, or these (in lower case).
    """
    load_catalog(con)
    load_vocabulary(con)
    names = None if instance_types is None else sorted(instance_types)
    run_stage(con, _PACKAGE, "list_prices", {"instance_types": names})


# is_of_region marks the price for a region without a known zone: the region's own price or the median of its
# zones.
_OFFERS = """
CREATE OR REPLACE TEMP TABLE price_offers AS
SELECT p.* EXCLUDE (price_per_hour, currency, from_ms, to_ms), (p.price_per_hour * r.rate)::DECIMAL(24, 12) AS price_per_hour,
    row_number() OVER (
        PARTITION BY provider, region, instance_type, purchase_option, term_years, payment_option, offering
        ORDER BY CASE WHEN zone IS NULL THEN 0 WHEN zone = '*' THEN 1 ELSE 2 END) = 1 AS is_of_region
FROM price_list AS p
JOIN fx_rates AS r ON r.currency = p.currency AND r.from_ms <= $midnight_ms AND $midnight_ms < r.to_ms
WHERE p.from_ms <= epoch_ms($day::DATE) AND epoch_ms($day::DATE) < p.to_ms AND r.rate IS NOT NULL"""


def load_offers(con: DuckDBPyConnection, config: Config) -> None:
    """Create the temporary table price_offers: price_list as of today, in the config's currency.

    Raises PriceError for rates that cannot be used.
    """
    day = datetime.now(config.tz).date()
    load_price_list(con)
    load_fx_rates(con, config)
    con.execute(_OFFERS, {"day": day, "midnight_ms": to_ms(local_midnight(day, config.tz))})
