"""What a node costs per hour at each moment: the price book, else the list prices of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine.local import run_stage
from gpucost.errors import PriceError
from gpucost.model import from_ms, iso
from gpucost.price.book import book_digest, load_book

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config

__all__ = ["book_digest", "load_price_inputs", "stage"]

STALE_AFTER_DAYS = 90


def stage(con: DuckDBPyConnection, config: Config) -> None:
    """Fill node_prices for all rows of nodes, and warn of nodes without a price and of old prices.

    Segments are half-open, do not overlap and lie within a node's life; a moment that has no price has no row.
    Raises PriceError for a price book that cannot be used; then nothing has been written.
    """
    load_price_inputs(con, config)
    run_stage(con, __name__, "20_price_fits")
    run_stage(con, __name__, "30_price_ties")
    _refuse_ties(con, config)
    run_stage(con, __name__, "40_node_prices")
    said = {"currency": config.currency, "book": str(config.prices.book) if config.prices.book else None}
    run_stage(con, __name__, "50_unpriced_nodes", said)
    run_stage(con, __name__, "51_stale_prices", {"days": STALE_AFTER_DAYS})


def load_price_inputs(con: DuckDBPyConnection, config: Config) -> None:
    """Create the temporary tables price_book, price_offers and the catalog's on this connection. Raises PriceError."""
    load_book(con, config)
    load_catalog(con)
    run_stage(con, __name__, "11_price_offers", {"currency": config.currency})


def _refuse_ties(con: DuckDBPyConnection, config: Config) -> None:
    tie = con.execute(
        "SELECT one_line, other_line, node, at_ms FROM price_ties ORDER BY at_ms, node, one_line LIMIT 1"
    ).fetchone()
    if tie is not None:
        one, other, node, at_ms = tie
        raise PriceError(
            f"{config.prices.book}: lines {one} and {other} both price node {node} at {iso(from_ms(at_ms))}, "
            "and neither is more specific",
            "make one of the two node_selectors name more labels, or join them",
        )
