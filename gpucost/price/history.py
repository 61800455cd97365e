"""Spot prices of an instance type over time, by zone.

A history has the steps, and the mean, lowest and highest price.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gpucost.engine import answer_rows
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, from_ms
from gpucost.price.list_prices import load_price_list
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.shapes import Shape
from gpucost.suggest import did_you_mean

_DECIMALS = Decimal("0.000001")


@frozen_dataclass
class PriceStep(Shape):
    """A price per hour in [start, end)."""

    start: datetime
    end: datetime
    price_per_hour: Decimal


@frozen_dataclass
class ZoneHistory(Shape):
    """A zone's price in a period, per hour of the whole instance; None without prices in the period.

    The mean is weighted by time, over the covered hours. `changes` counts changes between known prices inside
    the period. `discount` is 1 - mean / on-demand list price. `notes` are sentences for the reader.
    """

    provider: str
    region: str
    zone: str | None
    instance_type: str
    product: str
    start: datetime
    end: datetime
    currency: str
    mean_price_per_hour: Decimal | None
    min_price_per_hour: Decimal | None
    max_price_per_hour: Decimal | None
    changes: int
    covered_hours: Decimal
    not_covered_hours: Decimal
    on_demand_price_per_hour: Decimal | None
    on_demand_price_as_of: date | None
    discount: Decimal | None
    notes: tuple[str, ...]
    steps: tuple[PriceStep, ...]

    @property
    def place(self) -> str:
        """Its name for people."""
        return self.zone or self.region


@frozen_dataclass
class PriceHistory(Shape):
    """The answer of `gpucost prices history`.

    `alone` holds the figures of a single zone, which are also at the top.
    """

    instance_type: str
    start: datetime
    end: datetime
    alone: ZoneHistory | None
    zones: list[ZoneHistory]

    FLAT = ("alone",)


def history(
    con: DuckDBPyConnection,
    which: dict[str, str | None],
    period: Period | None,
    now_ms: int,
    stale_after_days: int,
) -> list[ZoneHistory]:
    """Compute one history per zone (and currency), sorted by provider, region and zone.

    `which` has instance_type, zone, region and product; None matches any. Without a period: from the first
    known change in any zone to the end of the collected prices. In a period, prices stay valid for
    `stale_after_days` after that. Raises PriceError if no spot price matches, naming the known ones.
    """
    instance_type = which["instance_type"] or ""
    load_price_list(con, [instance_type.lower()])
    span = period.bounds if period else {"from_ms": None, "to_ms": None}
    # without a period, the history ends with the collected prices
    stale_ms = stale_after_days * MS_PER_DAY if period else 0
    rows = answer_rows(
        con, "gpucost.price", "history", which | span | {"now_ms": now_ms, "stale_ms": stale_ms}
    )
    if not rows:
        raise _unknown(con, which)
    return [_zone(**row) for row in rows]


def _zone(
    *,
    zone: str,
    start_ms: int,
    end_ms: int,
    price_ms: Decimal | None,
    covered_ms: int | None,
    steps: Any,
    **fields: Any,
) -> ZoneHistory:
    covered = covered_ms or 0
    mean = (price_ms / covered).quantize(_DECIMALS) if price_ms is not None else None
    on_demand = fields["on_demand_price_per_hour"]
    gap_hours = (Decimal(end_ms - start_ms - covered) / MS_PER_HOUR).quantize(_DECIMALS)
    notes = []
    if mean is None:
        notes.append("no price in this period")
    elif gap_hours:
        notes.append(f"no price for {gap_hours:,.1f} h of the period; the mean covers the rest")
    if on_demand is not None and mean is not None:
        if fields["min_price_per_hour"] >= on_demand:
            notes.append("spot costs at least as much as on-demand here: no discount")
        elif fields["max_price_per_hour"] >= on_demand:
            notes.append("at times spot cost at least as much as on-demand here: no discount then")
    return ZoneHistory(
        **fields,
        zone=zone or None,
        start=from_ms(start_ms),
        end=from_ms(end_ms),
        mean_price_per_hour=mean,
        changes=max(0, len(steps or ()) - 1),
        covered_hours=(Decimal(covered) / MS_PER_HOUR).quantize(_DECIMALS),
        not_covered_hours=gap_hours,
        discount=(1 - mean / on_demand).quantize(_DECIMALS) if mean is not None and on_demand else None,
        notes=tuple(notes),
        steps=tuple(PriceStep(from_ms(start), from_ms(end), price) for start, end, price in steps or ()),
    )


def _unknown(con: DuckDBPyConnection, which: dict[str, str | None]) -> PriceError:
    """The error for a request without prices, with the known values."""
    instance_type = which["instance_type"] or ""
    rows = con.execute(
        "SELECT DISTINCT instance_type, region, zone, product FROM spot_prices WHERE instance_id = '' ORDER BY ALL"
    ).fetchall()
    collect = "gpucost collect spot pulls them from the clouds, gpucost collect spot PATH from files"
    if not rows:
        return PriceError("the store holds no spot prices", collect)
    types = sorted({row[0] for row in rows})
    mine = [row for row in rows if row[0].lower() == instance_type.lower()]
    if not mine:
        some = f"known: {', '.join(types[:5])}"
        existing = did_you_mean(instance_type.lower(), types, some, most=5, cutoff=0.5)
        return PriceError(f"the store holds no spot prices of {instance_type}", f"{existing}; {collect}")
    words = {"in zone": which["zone"], "in region": which["region"], "of product": which["product"]}
    wanted = " ".join(f"{word} {value}" for word, value in words.items() if value)
    places = sorted({row[2] or row[1] for row in mine})
    existing = f"known: {', '.join(places)}, of {', '.join(sorted({row[3] for row in mine}))}"
    return PriceError(f"the store holds no spot prices of {mine[0][0]} {wanted or 'with Linux'}", existing)
