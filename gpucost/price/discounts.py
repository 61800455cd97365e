"""Negotiated discounts: [[prices.discounts]] as rows that the stage joins to nodes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import prod
from typing import TYPE_CHECKING

from gpucost.engine import run_stage
from gpucost.errors import PriceError
from gpucost.periods import local_midnight, to_ms
from gpucost.price.book import PURCHASE_OPTIONS
from gpucost.store.sqlfiles import column
from gpucost.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.price.listing import ListedPrice


def load_discounts(con: DuckDBPyConnection, config: Config) -> None:
    """Create the temporary table discounts, numbered from 1 in the config's order; periods are local days.

    Expects the catalog's tables. Raises PriceError for a GPU model that neither the catalog nor any node knows.
    """
    discounts = config.prices.discounts

    def instant(day: date | None) -> int | None:
        return to_ms(local_midnight(day, config.tz)) if day else None

    columns = {
        "number": list(range(1, len(discounts) + 1)),
        "factor": [f"{1 - item.percent / Decimal(100):f}" for item in discounts],
        "provider": [item.provider for item in discounts],
        "instance_family": [item.instance_family for item in discounts],
        "gpu_model": [item.gpu_model for item in discounts],
        "purchase_option": [item.purchase_option for item in discounts],
        "capacity_type": [PURCHASE_OPTIONS.get(item.purchase_option or "") for item in discounts],
        "price_sources": [list(item.price_sources) for item in discounts],
        "from_ms": [instant(item.effective_start) for item in discounts],
        "to_ms": [instant(item.effective_end) for item in discounts],
    }
    run_stage(con, "gpucost.price", "15_discounts", columns)
    unknown = con.execute(
        "SELECT d.number, d.gpu_model FROM discounts AS d ANTI JOIN nodes AS n "
        "ON model_spelling(n.gpu_model) = model_spelling(d.gpu_model) WHERE NOT d.is_known ORDER BY ALL"
    ).fetchone()
    if unknown is None:
        return
    number, model = unknown
    known = column(con, "SELECT gpu_model FROM gpu_models ORDER BY ALL")
    raise PriceError(
        f"[[prices.discounts]] number {number}: gpu_model {model!r} is no GPU model that the catalog or a node has",
        did_you_mean(model, known, "spell it as in the report by gpu_model", most=3, cutoff=0.5),
    )


# What is left of a price that is listed.
_LEFT = """SELECT factor FROM discounts AS d
WHERE discount_fits(d, $seller, $instance_type, $gpu_model) AND coalesce($option IN (d.purchase_option, d.capacity_type), true)
    AND list_contains(price_sources, $price_source) AND from_ms <= $at_ms AND $at_ms < to_ms"""


def discounted(
    con: DuckDBPyConnection, config: Config, rows: Sequence[ListedPrice], now: datetime
) -> list[ListedPrice]:
    """Listed prices less the discounts in force, which their sources name. Expects the catalog's tables; raises PriceError."""
    if not config.prices.discounts:
        return list(rows)
    load_discounts(con, config)
    return [_less(con, row, to_ms(now)) for row in rows]


def _less(con: DuckDBPyConnection, row: ListedPrice, at_ms: int) -> ListedPrice:
    of = {
        "seller": row.provider.lower(),
        "instance_type": row.instance_type.lower(),
        "gpu_model": row.gpu_model,
        "option": row.purchase_option,
        "price_source": "spot_history" if row.origin == "spot_history" else "catalog",
        "at_ms": at_ms,
    }
    left = prod(column(con, _LEFT, of), start=Decimal(1))
    if left == 1:
        return row
    return replace(
        row,
        price_per_hour=round(row.price_per_hour * left, 9).normalize(),
        price_per_gpu_hour=row.price_per_gpu_hour and row.price_per_gpu_hour * left,
        source=f"{row.source}, less {float(round((1 - left) * 100, 4)):g} % ([[prices.discounts]])",
    )
