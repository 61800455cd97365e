"""How an instance type's spot price moved: steps, and the mean, lowest and highest price of each zone."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine import run_stage
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR, from_ms
from gpucost.price.list_prices import load_price_list

if TYPE_CHECKING:
    from datetime import date, datetime

    from duckdb import DuckDBPyConnection

    from gpucost.periods import Period

_DAY_MS = 24 * MS_PER_HOUR
_MEAN = Decimal("0.000001")
_RATIO = Decimal("0.000001")
_HOURS = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Question:
    """Whose spot price, where and when; what is None is not asked for. `stale_after_days` ends a price nobody asked for again."""

    instance_type: str
    zone: str | None = None
    region: str | None = None
    product: str | None = None
    period: Period | None = None
    stale_after_days: int = 90


@dataclass(frozen=True, slots=True)
class Step:
    """A price per hour that held in [start, end)."""

    start: datetime
    end: datetime
    price_per_hour: Decimal


@dataclass(frozen=True, slots=True)
class ZoneHistory:
    """A zone's price in a period. Prices are per hour of the whole instance; None where the period is not covered.

    `mean` is weighted by time, over the covered hours. `changes` counts how often one known price gave way to another
    inside the period. `discount` is 1 - mean / on-demand list price, the latter as of `on_demand_as_of`.
    """

    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    currency: str
    start: datetime
    end: datetime
    mean: Decimal | None
    lowest: Decimal | None
    highest: Decimal | None
    covered_hours: Decimal
    not_covered_hours: Decimal
    steps: tuple[Step, ...]
    on_demand: Decimal | None
    on_demand_as_of: date | None

    @property
    def changes(self) -> int:
        return max(0, len(self.steps) - 1)

    @property
    def discount(self) -> Decimal | None:
        if self.mean is None or not self.on_demand:
            return None
        return (1 - self.mean / self.on_demand).quantize(_RATIO)

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures should know, in whole sentences."""
        said = []
        if self.mean is None:
            said.append("no price is known in this period")
        elif self.not_covered_hours:
            said.append(f"no price is known for {self.not_covered_hours:,.1f} h of the period; the mean is over the rest")
        if self.on_demand is not None and self.lowest is not None and self.highest is not None:
            if self.lowest >= self.on_demand:
                said.append("spot costs as much as on demand here: there is no discount")
            elif self.highest >= self.on_demand:
                said.append("at times spot cost as much as on demand here, and there was no discount")
        return said


# What a zone's price came to, covered or not; price_ms is the sum of price x milliseconds, so price_ms / covered_ms its mean.
_ZONES = """
CREATE OR REPLACE TEMP TABLE history_zones AS
SELECT z.*, s.price_ms, coalesce(s.covered_ms, 0) AS covered_ms, s.lowest, s.highest
FROM (SELECT DISTINCT provider, region, zone, instance_type, product, currency FROM history_changes) AS z
LEFT JOIN (
    SELECT provider, region, zone, currency, sum(price_per_hour * (to_ms - from_ms)::DECIMAL(14, 0)) AS price_ms,
        sum(to_ms - from_ms)::BIGINT AS covered_ms, min(price_per_hour) AS lowest, max(price_per_hour) AS highest
    FROM history_steps GROUP BY ALL
) AS s USING (provider, region, zone, currency)"""
# The on-demand list price in each zone at the end of the period ($at_ms).
_ON_DEMAND = """
CREATE OR REPLACE TEMP TABLE history_on_demand AS
SELECT z.provider, z.region, z.zone, z.currency, p.price_per_hour, p.price_as_of
FROM (SELECT *, lower(region) AS region_name, lower(zone) AS zone_name FROM history_zones) AS z
JOIN price_list AS p ON p.provider = lower(z.provider) AND p.instance_type = lower(z.instance_type) AND p.currency = z.currency
    AND place_rank(p.region, p.zone, region_name, zone_name, NULL) IS NOT NULL
WHERE p.purchase_option = 'on_demand' AND p.from_ms <= $at_ms AND $at_ms < p.to_ms
QUALIFY row_number() OVER (PARTITION BY z.provider, z.region, z.zone, z.currency
    ORDER BY place_rank(p.region, p.zone, region_name, zone_name, NULL) DESC) = 1"""


def history(con: DuckDBPyConnection, question: Question, now_ms: int) -> list[ZoneHistory]:
    """One history per zone (and currency), sorted by provider, region and zone.

    Without a period, from the first known change of any of the zones to the end of what was collected.
    Raises PriceError where no spot price is known of what is asked for, naming what is.
    """
    names = {"instance_type": question.instance_type, "zone": question.zone, "region": question.region}
    run_stage(con, __name__, "10_history_changes", names | {"product": question.product})
    (known,) = con.execute("SELECT count(*) FROM history_changes").fetchall()[0]
    if not known:
        raise _unknown(con, question)
    period = question.period
    run_stage(
        con,
        __name__,
        "20_history_steps",
        {
            "from_ms": period.start_ms if period else None,
            "to_ms": period.end_ms if period else None,
            "now_ms": now_ms,
            # all that is known ends with what was collected
            "stale_ms": question.stale_after_days * _DAY_MS if period else 0,
        },
    )
    start_ms, end_ms = _bounds(con, period, now_ms)
    con.execute(_ZONES)
    load_catalog(con)
    load_price_list(con, [question.instance_type.lower()])
    con.execute(_ON_DEMAND, {"at_ms": end_ms - 1})
    return _zones(con, start_ms, end_ms)


def _bounds(con: DuckDBPyConnection, period: Period | None, now_ms: int) -> tuple[int, int]:
    if period is not None:
        return period.start_ms, period.end_ms
    first, last = con.execute("SELECT min(from_ms), max(to_ms) FROM history_steps").fetchall()[0]
    return (int(first), int(last)) if first is not None else (now_ms - 1, now_ms)


def _zones(con: DuckDBPyConnection, start_ms: int, end_ms: int) -> list[ZoneHistory]:
    steps: dict[tuple[str, ...], list[Step]] = {}
    for *key, begins, ends, price in con.execute(
        "SELECT provider, region, zone, currency, from_ms, to_ms, price_per_hour FROM history_steps ORDER BY from_ms"
    ).fetchall():
        steps.setdefault(tuple(key), []).append(Step(from_ms(begins), from_ms(ends), price))
    rows = con.execute(
        "SELECT z.provider, z.region, z.zone, z.currency, z.instance_type, z.product, z.price_ms, z.covered_ms, z.lowest, "
        "z.highest, o.price_per_hour, o.price_as_of FROM history_zones AS z "
        "LEFT JOIN history_on_demand AS o USING (provider, region, zone, currency) ORDER BY 1, 2, 3, 4"
    ).fetchall()
    return [
        ZoneHistory(
            provider=provider,
            region=region,
            zone=zone,
            instance_type=name,
            product=product,
            currency=currency,
            start=from_ms(start_ms),
            end=from_ms(end_ms),
            mean=(price_ms / covered_ms).quantize(_MEAN) if covered_ms else None,
            lowest=lowest,
            highest=highest,
            covered_hours=_hours(covered_ms),
            not_covered_hours=_hours(end_ms - start_ms - covered_ms),
            steps=tuple(steps.get((provider, region, zone, currency), ())),
            on_demand=on_demand,
            on_demand_as_of=as_of,
        )
        for provider, region, zone, currency, name, product, price_ms, covered_ms, lowest, highest, on_demand, as_of in rows
    ]


def _hours(ms: int) -> Decimal:
    return (Decimal(ms) / MS_PER_HOUR).quantize(_HOURS)


def _unknown(con: DuckDBPyConnection, question: Question) -> PriceError:
    """Says which part of the question the store knows nothing of, and what it does know."""
    rows = con.execute(
        "SELECT DISTINCT instance_type, region, zone, product FROM spot_prices WHERE instance_id = '' ORDER BY ALL"
    ).fetchall()
    collect = "gpucost collect spot pulls them from the clouds, gpucost collect spot PATH from files"
    if not rows:
        return PriceError("the store holds no spot prices", collect)
    types = sorted({row[0] for row in rows})
    mine = [row for row in rows if row[0].lower() == question.instance_type.lower()]
    if not mine:
        near = difflib.get_close_matches(question.instance_type.lower(), types, n=5, cutoff=0.5)
        known = f"the store knows {', '.join(near or types[:5])}" + ("" if near or len(types) <= 5 else " and others")
        return PriceError(f"the store holds no spot prices of {question.instance_type}", f"{known}; {collect}")
    asked = [
        f"{word} {value}"
        for word, value in (("in zone", question.zone), ("in region", question.region), ("of product", question.product))
        if value
    ]
    places = sorted({row[2] or row[1] for row in mine})
    known = f"known are {', '.join(places)}, of {', '.join(sorted({row[3] for row in mine}))}"
    name = mine[0][0]
    return PriceError(f"the store holds no spot prices of {name} {' '.join(asked) or 'with Linux'}", known)
