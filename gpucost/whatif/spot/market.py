"""What is known of a market: list prices, spot price history, what own nodes cost, and how often spot is interrupted."""

from __future__ import annotations

import bisect
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.catalog import load_catalog, load_interruptions
from gpucost.engine import run_stage
from gpucost.errors import UsageError
from gpucost.periods import Period, from_ms
from gpucost.records import record
from gpucost.whatif.fleet import Price
from gpucost.whatif.spot.interruptions import Rate, of_band

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY_MS = 86_400_000


class Place(NamedTuple):
    """Where a node is, or would be; an instance type in any case of letters, None what is not known."""

    instance_type: str
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zone_id: str | None = None


@record
class PriceChanges:
    """A zone's spot price: since `at_ms[i]` it is `prices[i]`, per node-hour, up to `known_until_ms` after the last change."""

    region: str
    zone: str
    at_ms: tuple[int, ...]
    prices: tuple[Decimal, ...]
    known_until_ms: int

    @property
    def source(self) -> str:
        return f"spot history of {self.zone or self.region}"

    def covers(self, start_ms: int, end_ms: int) -> bool:
        return self.at_ms[0] <= start_ms and end_ms <= self.known_until_ms

    def steps(self, start_ms: int, end_ms: int) -> list[tuple[int, Decimal]]:
        """(since when, price) of [start, end), the first one from `start_ms` on."""
        first = bisect.bisect_right(self.at_ms, start_ms) - 1
        last = bisect.bisect_left(self.at_ms, end_ms)
        return [(max(at, start_ms), price) for at, price in zip(self.at_ms[first:last], self.prices[first:last], strict=True)]


@record
class Market:
    """Facts by instance type (lower-cased); prices are per node-hour in `currency`."""

    currency: str
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = field(default_factory=dict)
    history: dict[str, list[tuple[str, PriceChanges]]] = field(default_factory=dict)
    own: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    bands: dict[tuple[str, str, str], Rate] = field(default_factory=dict)

    def list_price(self, place: Place, option: str) -> Price | None:
        """`on_demand` or `spot` list price of the place, in the order of place_rank (price/vocabulary.sql).

        None where its region is not said and there are several.
        """
        rows = [row for row in self.listed.get((place.instance_type.lower(), option), []) if place.provider in (None, row[0])]
        regions = {place.region.lower()} if place.region else {row[1] for row in rows}
        if len(regions) != 1:
            return None
        (region,) = regions
        known = {(row[1], row[2]): row[3] for row in reversed(rows)}
        zones = (place.zone_id, place.zone, "", "*")
        return next((known[key] for key in (*((region, zone) for zone in zones), ("", "")) if key in known), None)

    def zones(self, place: Place) -> list[PriceChanges]:
        """The spot histories of the place, by zone: its own zone's alone where there is one, else all of its region's."""
        rows = [
            changes
            for provider, changes in self.history.get(place.instance_type.lower(), [])
            if place.provider in (None, provider) and place.region in (None, changes.region)
        ]
        return [changes for changes in rows if changes.zone == place.zone] or rows

    def spot_steps(self, place: Place, start_ms: int, end_ms: int) -> tuple[Price, ...]:
        """Spot prices over [start, end) from history; empty where not known throughout.

        Of several zones, the one whose price is the lower median at the start.
        """
        known = [changes for changes in self.zones(place) if changes.covers(start_ms, end_ms)]
        if not known:
            return ()
        chosen = _lower_median(known, key=lambda changes: (changes.steps(start_ms, end_ms)[0][1], changes.zone))
        return tuple(Price(price, chosen.source, None, at) for at, price in chosen.steps(start_ms, end_ms))

    def latest_spot(self, place: Place, now_ms: int) -> Price | None:
        """The price of the place's zones (their lower median) that still holds at `now_ms`, by history."""
        known = [zone for zone in self.zones(place) if now_ms <= zone.known_until_ms]
        if not known:
            return None
        chosen = _lower_median(known, key=lambda zone: zone.prices[-1])
        return Price(chosen.prices[-1], chosen.source, str(from_ms(chosen.at_ms[-1]).date()))

    def band(self, place: Place) -> Rate | None:
        """How often the place's spot instances are interrupted, by the catalog; None where it does not say."""
        return next(
            (
                rate
                for (provider, region, name), rate in self.bands.items()
                if name == place.instance_type.lower() and region == place.region and place.provider in (None, provider)
            ),
            None,
        )


# How often spot instances with Linux were interrupted in a month, at the last time it was told.
_BANDS = """
SELECT provider, region, lower(instance_type) AS instance_type, band_low_percent, band_high_percent, as_of, source_id
FROM interruption_bands
WHERE os = 'linux' AND period = 'month' AND list_contains($instance_types::VARCHAR[], lower(instance_type))
QUALIFY row_number() OVER (PARTITION BY provider, region, lower(instance_type) ORDER BY as_of DESC) = 1
ORDER BY ALL"""
# What own nodes of an instance type cost per hour in the period, weighted by time.
_OWN = """
SELECT lower(n.instance_type), n.capacity_type,
    (sum(p.price_per_hour * p.span_ms::DECIMAL(14, 0)) / sum(p.span_ms))::DECIMAL(24, 12)
FROM nodes AS n JOIN (
    SELECT *, least(to_ms, $to_ms) - greatest(from_ms, $from_ms) AS span_ms FROM node_prices WHERE price_source <> 'none'
) AS p USING (node_id)
WHERE p.span_ms > 0 AND n.instance_type IS NOT NULL
GROUP BY ALL"""
_LISTED = """
SELECT provider, coalesce(region, ''), coalesce(zone, ''), instance_type, purchase_option, price_per_hour, price_as_of::VARCHAR,
    if(origin = 'catalog', 'catalog, ', '') || source
FROM price_offers
WHERE list_contains($instance_types::VARCHAR[], instance_type) AND term_years = 0
ORDER BY ALL"""
_HISTORY = """
SELECT instance_type, provider, region, zone, list(at_ms ORDER BY at_ms), list(price_per_hour ORDER BY at_ms),
    greatest(max(at_ms), coalesce(max(l.to_ms), 0))
FROM market_changes
LEFT JOIN (SELECT source, max(to_ms) AS to_ms FROM loads WHERE kind = 'spot' GROUP BY source) AS l USING (source)
GROUP BY ALL
ORDER BY 1, 2, 3, 4"""


def read_market(
    con: DuckDBPyConnection, instance_types: Iterable[str], currency: str, stale_after_days: int, period: Period | None = None
) -> Market:
    """All that store and catalog know of these instance types. Own prices are those of `period`.

    Expects price_offers on this connection (price.load_offers), in `currency`.
    """
    load_interruptions(con)
    types: dict[str, object] = {"instance_types": sorted({name.lower() for name in instance_types})}
    run_stage(con, __package__, "market_changes", types | {"currency": currency})
    history: dict[str, list[tuple[str, PriceChanges]]] = defaultdict(list)
    for name, provider, region, zone, at, prices, seen in con.execute(_HISTORY).fetchall():
        changes = PriceChanges(region, zone, tuple(at), tuple(prices), seen + stale_after_days * _DAY_MS)
        history[name].append((provider, changes))
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = defaultdict(list)
    for provider, region, zone, name, option, price, as_of, source in con.execute(_LISTED, types).fetchall():
        listed[name, option].append((provider, region, zone, Price(price, source, as_of)))
    own: dict[tuple[str, str], Decimal] = {}
    if period is not None:
        rows = con.execute(_OWN, {"from_ms": period.start_ms, "to_ms": period.end_ms}).fetchall()
        own = {(name, capacity): price for name, capacity, price in rows}
    bands = {
        (provider, region, name): of_band(
            low, high, f"catalog, {source}: {_percent(low, high)} of instances a month, -ln(1 - p) / 730 h", str(as_of)
        )
        for provider, region, name, low, high, as_of, source in con.execute(_BANDS, types).fetchall()
    }
    return Market(currency, dict(listed), dict(history), own, bands)


def typical_rate(con: DuckDBPyConnection) -> Rate:
    """The median band of all GPU instances that the catalog knows bands of."""
    load_interruptions(con)
    low, high, as_of, count = con.execute(
        "SELECT quantile_disc(band_low_percent, 0.5), quantile_disc(band_high_percent, 0.5), max(as_of), count(*) "
        "FROM interruption_bands WHERE period = 'month'"
    ).fetchall()[0]
    source = f"catalog: {_percent(low, high)} a month, the median of {count:,} GPU types and regions, -ln(1 - p) / 730 h"
    return of_band(low, high, source, str(as_of))


_INSTANCES = """
SELECT provider, instance_type, gpu_count::DOUBLE FROM catalog_instances
UNION ALL SELECT provider, instance_type, gpu_count::DOUBLE FROM instance_types"""


def find_instance(con: DuckDBPyConnection, name: str) -> tuple[str, str, float]:
    """(provider, name, GPUs) of an instance type, by the catalog or the store. Raises UsageError, naming near ones."""
    load_catalog(con)
    rows: list[tuple[str, str, float]] = con.execute(_INSTANCES).fetchall()
    for row in rows:
        if row[1].lower() == name.lower():
            return row
    near = difflib.get_close_matches(name.lower(), sorted({row[1].lower() for row in rows}), n=3, cutoff=0.5)
    raise UsageError(
        f"no instance type {name!r} is known",
        f"near it: {', '.join(near)}" if near else "gpucost prices lists instance types; or give prices and --gpus instead",
    )


def _percent(low: int, high: int) -> str:
    return f"more than {low} %" if high >= 100 else f"{low}-{high} %"


def _lower_median(zones: Iterable[PriceChanges], key: Callable[[PriceChanges], Any]) -> PriceChanges:
    ordered = sorted(zones, key=key)
    return ordered[(len(ordered) - 1) // 2]
