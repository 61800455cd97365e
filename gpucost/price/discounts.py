"""Negotiated discounts: [[prices.discounts]] as rows that the SQL joins to nodes."""

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
    """Create the temporary table discounts; periods are local days.

    Discounts are numbered from 1 in the config's order. Expects the catalog's tables. If there are nodes,
    raises PriceError for a GPU model that is neither in the catalog nor on a node.
    """

    def instant(day: date | None) -> int | None:
        return to_ms(local_midnight(day, config.tz)) if day else None

    rows = [
        item.model_dump(include={"provider", "instance_family", "gpu_model", "purchase_option"})
        | {
            "number": number,
            "factor": f"{1 - item.percent / Decimal(100):f}",
            "capacity_type": PURCHASE_OPTIONS.get(item.purchase_option or ""),
            "price_sources": list(item.price_sources),
            "from_ms": instant(item.effective_start),
            "to_ms": instant(item.effective_end),
        }
        for number, item in enumerate(config.prices.discounts, 1)
    ]
    run_stage(con, "gpucost.price", "15_discounts", {"rows": rows})
    unknown = (
        rows
        and con.execute(
            "SELECT d.number, d.gpu_model FROM discounts AS d ANTI JOIN nodes AS n "
            "ON model_spelling(n.gpu_model) = model_spelling(d.gpu_model) "
            "WHERE NOT d.is_known AND EXISTS (FROM nodes) ORDER BY ALL"
        ).fetchone()
    )
    if not unknown:
        return
    number, model = unknown
    models = column(con, "SELECT gpu_model FROM gpu_models ORDER BY ALL")
    raise PriceError(
        f"[[prices.discounts]] number {number}: gpu_model {model!r} is neither in the catalog nor on a node",
        did_you_mean(model, models, "use the spelling of the report by gpu_model", most=3, cutoff=0.5),
    )


_IN_FORCE = """
SELECT p.number, list(d.factor)
FROM (
    SELECT unnest($number::INTEGER[]) AS number, unnest($provider::VARCHAR[]) AS provider,
        unnest($instance_type::VARCHAR[]) AS instance_type, unnest($gpu_model::VARCHAR[]) AS gpu_model,
        unnest($purchase_option::VARCHAR[]) AS option, unnest($origin::VARCHAR[]) AS origin
) AS p
JOIN discounts AS d ON discount_fits(d, lower(p.provider), lower(p.instance_type), p.gpu_model)
    AND discount_in_force(d, p.option, replace(p.origin, 'store', 'catalog'), $now_ms)
GROUP BY ALL"""


def discounted(
    con: DuckDBPyConnection, config: Config, rows: Sequence[ListedPrice], now: datetime
) -> list[ListedPrice]:
    """Apply the current discounts to list prices, cheapest GPU-hour first.

    Drops prices that are not in the config's currency. Sources name the discount. Expects the catalog's
    tables. Raises PriceError as load_discounts does.
    """
    rows = [row for row in rows if row.currency == config.currency]
    if not config.prices.discounts:
        return rows
    load_discounts(con, config)
    names = ("provider", "instance_type", "gpu_model", "purchase_option", "origin")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    numbers = {"number": list(range(len(rows))), "now_ms": to_ms(now)}
    found = dict(con.execute(_IN_FORCE, columns | numbers).fetchall())
    left = [_less(row, prod(found.get(number, ()), start=Decimal(1))) for number, row in enumerate(rows)]
    return sorted(
        left, key=lambda row: (row.price_per_gpu_hour is None, row.price_per_gpu_hour or row.price_per_hour)
    )


def _less(row: ListedPrice, factor: Decimal) -> ListedPrice:
    if factor == 1:
        return row
    return replace(
        row,
        price_per_hour=round(row.price_per_hour * factor, 9).normalize(),
        price_per_gpu_hour=row.price_per_gpu_hour and row.price_per_gpu_hour * factor,
        source=f"{row.source}, less {float(round((1 - factor) * 100, 4)):g} % ([[prices.discounts]])",
    )
