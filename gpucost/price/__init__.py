"""The price per hour of each node at each moment.

It comes from the bill, the price book, spot price history or list prices, in this order.

The numbered .sql files do all of it: inputs (1x), their meaning for each node (3x), one price for each moment
(4x), stored prices and warnings (5x, 6x), and the sources to collect (7x). The stages in bill/ run first and
read machines from bills. list_prices.sql makes the list prices; all callers read its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine import answer_rows, run_stage
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_DAY, Period, from_ms, iso, to_ms
from gpucost.price.book import book_digest, load_book
from gpucost.price.discounts import load_discounts
from gpucost.price.fx import fx_digest, load_fx_rates as load_fx_rates
from gpucost.price.list_prices import load_price_list, load_vocabulary
from gpucost.store.bill_rules import STORED, billed_twice, compare
from gpucost.store.sqlfiles import column

if TYPE_CHECKING:
    from datetime import datetime

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

_BILL = "gpucost.price.bill"
_DISCOUNTS = "FROM bill_rows WHERE kind = 'discount' LIMIT 1"
_GAPS = "FROM coverage_gaps WHERE kind IN ('not_collected', 'bridged') LIMIT 1"
_TWICE = """INSERT INTO warnings BY NAME
SELECT 'billed_twice' AS code, min(source) AS subject, epoch_ms($first) AS from_ms, epoch_ms($last) + 86400000 AS to_ms,
    string_agg(coalesce(file, source), ' and ' ORDER BY side DESC) || ': ' || $text AS message,
    format('gpucost collect {} --replace PATH keeps only the export at PATH',
        min(CASE WHEN provider IN ('aws', 'gcp', 'azure') THEN provider ELSE 'focus' END)) AS fix
FROM told_sides
WHERE side IN ($one, $other)"""

# Price book rows that tie do not price a moved node.
_UNDECIDED = """DELETE FROM book_fits AS fit USING book_fits AS other
WHERE other.node_id = fit.node_id AND other.specificity = fit.specificity AND other.selector <> fit.selector"""


def stage(con: DuckDBPyConnection, config: Config) -> None:
    """Fill node_prices for all nodes, and warn of nodes without a price and of old prices.

    Segments are half-open, do not overlap and stay within a node's life; a moment without a price has no row.
    Raises PriceError for a price book, rate or discount that cannot be used, before anything is written.
    """
    _bills(con, config)
    price_nodes(con, config)
    run_stage(con, __name__, "50_node_prices")
    book = str(config.prices.book) if config.prices.book else None
    run_stage(
        con,
        __name__,
        "60_price_warnings",
        {"currency": config.currency, "book": book, "days": config.prices.stale_after_days},
    )


def warn_of_unlisted(con: DuckDBPyConnection, config: Config) -> None:
    """Warn of resources that no table lists, with their part of the nodes' cost.

    Runs after inventory and `stage`.
    """
    run_stage(con, __name__, "62_unlisted_resources", {"currency": config.currency})


def price_nodes(
    con: DuckDBPyConnection,
    config: Config,
    node_id: int | None = None,
    moved_to: tuple[str, Period] | None = None,
) -> None:
    """Create the temporary tables price_candidates and price_segments.

    They cover all nodes or one; the store is only read. `moved_to`: price the nodes of a period as nodes of
    another capacity type, without bills and commitments. A currency without a rate and a tie in the price
    book leave such nodes without a price.

    Raises PriceError for a price book, rate or discount that cannot be used, and for a price in a currency
    without a rate.
    """
    fx = load_fx_rates(con, config)
    load_catalog(con)
    # inventory makes this table; a caller that asks for one node has none
    con.execute("CREATE TEMP TABLE IF NOT EXISTS unlisted_nodes AS FROM nodes LIMIT 0")
    load_vocabulary(con)
    capacity_type, period = moved_to or (None, None)
    span = period.bounds if period else {"from_ms": None, "to_ms": None}
    run_stage(con, __name__, "10_priced_nodes", {"node_id": node_id, "capacity_type": capacity_type} | span)
    load_book(con, config, fx)
    load_price_list(
        con, column(con, "SELECT DISTINCT instance_type FROM priced_nodes WHERE instance_type IS NOT NULL")
    )
    run_stage(con, __name__, "13_spot_steps", {"carried_ms": config.prices.stale_after_days * MS_PER_DAY})
    load_discounts(con, config)
    run_stage(con, __name__, "30_book_fits")
    if moved_to is None:
        _refuse_ties(con, config)
    else:
        con.execute(_UNDECIDED)
    for name in ("35_bill_candidates", "40_price_candidates", "41_price_winners", "43_price_segments"):
        run_stage(con, __name__, name)
    unconverted = con.execute(
        "SELECT s.currency, n.node, s.origin, s.from_ms FROM price_segments AS s JOIN priced_nodes AS n USING (node_id) "
        "WHERE s.price_per_hour IS NULL ORDER BY s.from_ms, n.node LIMIT 1"
    ).fetchone()
    if unconverted is not None and moved_to is None:
        currency, node, origin, at_ms = unconverted
        day = from_ms(at_ms).astimezone(config.tz).date()
        raise fx.missing(currency, f"node {node} is priced in {currency} ({origin})", day)


def _bills(con: DuckDBPyConnection, config: Config) -> None:
    """Match billed machines with nodes, price their hours, settle unknown capacity types."""
    run_stage(con, _BILL, "10_billed_nodes")
    has_rows = con.execute("SELECT 1 FROM bill_rows LIMIT 1").fetchall()
    if has_rows and con.execute(_DISCOUNTS).fetchall():
        run_stage(con, _BILL, "11_borne_discounts", {"is_spread": config.bills.spread_discounts})
        run_stage(con, _BILL, "14_discount_rates")
    else:
        con.execute("DELETE FROM discount_rates; DELETE FROM amortized_discounts")
    if has_rows:
        load_catalog(con)
        load_fx_rates(con, config)
        run_stage(con, _BILL, "15_billed_rows")
        run_stage(con, _BILL, "30_billed_hours", {"is_pooled": config.prices.commitment_sharing == "pooled"})
    else:
        con.execute("DELETE FROM billed_hours")
    run_stage(con, _BILL, "35_capacity_types")
    run_stage(con, _BILL, "40_billed_warnings")
    if has_rows:
        compare(con, STORED)
        for twice in billed_twice(con, is_strict=False):
            if twice.is_small:
                continue
            sides = {"one": twice.one, "other": twice.other, "first": twice.days[0], "last": twice.days[-1]}
            con.execute(_TWICE, sides | {"text": str(twice)})
    if has_rows and con.execute(_GAPS).fetchall():
        run_stage(con, _BILL, "55_covered_hours")
        run_stage(con, _BILL, "60_unbilled_time")
        run_stage(con, _BILL, "65_node_stops")


def missing_price_sources(
    con: DuckDBPyConnection, period: Period, now: datetime, stale_after_days: int
) -> list[tuple[str, str]]:
    """The clouds whose current prices would improve the prices of nodes in `period`.

    Pairs of 'spot' or 'prices' and the provider.
    """
    span = period.bounds | {"now_ms": to_ms(now), "days": stale_after_days}
    return [(row["what"], row["provider"]) for row in answer_rows(con, __name__, "70_wanting_prices", span)]


def inputs_digest(config: Config) -> str:
    """All settings and files that determine prices.

    Raises PriceError for a file that cannot be read.
    """
    settings = config.prices.model_dump_json(exclude={"book", "fx_rates"})
    return "\n".join(
        (
            settings,
            config.bills.model_dump_json(include={"spread_discounts"}),
            book_digest(config),
            fx_digest(config),
        )
    )


def _refuse_ties(con: DuckDBPyConnection, config: Config) -> None:
    run_stage(con, __name__, "31_book_ties")
    tie = con.fetchone()
    if tie is not None:
        line, other_line, node, at_ms = tie
        raise PriceError(
            f"{config.prices.book}: lines {line} and {other_line} both price node {node} at {iso(from_ms(at_ms))}, "
            "and neither is more specific",
            "add a label to one of the two node_selectors, or join them",
        )
