"""What is known of a market: list prices, spot price history, what own nodes cost, and how often spot is interrupted."""

from __future__ import annotations

import bisect
import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog, load_interruptions
from gpucost.engine import run_stage
from gpucost.errors import UsageError
from gpucost.periods import Period, from_ms
from gpucost.whatif.fleet import Price
from gpucost.whatif.spot.interruptions import Rate, of_band

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY_MS = 86_400_000
_SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is, or would be; an instance type in any case of letters, None what is not known."""

    instance_type: str
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zone_id: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """What the catalog knows of an instance type."""

    provider: str
    name: str
    gpus: float
    gpu_model: str


@dataclass(frozen=True, slots=True)
class Changes:
    """A zone's spot price: since `at_ms[i]` it is `prices[i]`, per node-hour, up to `known_until_ms` after the last change."""

    region: str
    zone: str
    at_ms: tuple[int, ...]
    prices: tuple[Decimal, ...]
    known_until_ms: int

    def covers(self, start_ms: int, end_ms: int) -> bool:
        return self.at_ms[0] <= start_ms and end_ms <= self.known_until_ms

    def steps(self, start_ms: int, end_ms: int) -> list[tuple[int, Decimal]]:
        """(since when, price) of [start, end), the first one from `start_ms` on."""
        first = bisect.bisect_right(self.at_ms, start_ms) - 1
        last = bisect.bisect_left(self.at_ms, end_ms)
        return [(max(at, start_ms), price) for at, price in zip(self.at_ms[first:last], self.prices[first:last], strict=True)]


@dataclass(frozen=True, slots=True)
class Market:
    """Facts by instance type (lower-cased); prices are per node-hour in `currency`."""

    currency: str
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = field(default_factory=dict)
    history: dict[str, list[tuple[str, Changes]]] = field(default_factory=dict)
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

    def zones(self, place: Place) -> list[Changes]:
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
        by_price = sorted(known, key=lambda changes: (changes.steps(start_ms, end_ms)[0][1], changes.zone))
        chosen = by_price[(len(by_price) - 1) // 2]
        return tuple(
            Price(price, f"spot history of {chosen.zone or chosen.region}", None, at)
            for at, price in chosen.steps(start_ms, end_ms)
        )

    def latest_spot(self, place: Place, now_ms: int) -> Price | None:
        """The price of the place's zones (their lower median) that still holds at `now_ms`, by history."""
        return _lower_median(
            [
                Price(zone.prices[-1], f"spot history of {zone.zone or zone.region}", str(from_ms(zone.at_ms[-1]).date()))
                for zone in self.zones(place)
                if now_ms <= zone.known_until_ms
            ]
        )

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
CREATE OR REPLACE TEMP TABLE market_bands AS
SELECT provider, region, lower(instance_type) AS instance_type, band_low_percent, band_high_percent, as_of, source_id
FROM interruption_bands
WHERE os = 'linux' AND period = 'month' AND list_contains($instance_types::VARCHAR[], lower(instance_type))
QUALIFY row_number() OVER (PARTITION BY provider, region, lower(instance_type) ORDER BY as_of DESC) = 1"""


def read_market(
    con: DuckDBPyConnection, instance_types: Iterable[str], currency: str, stale_after_days: int, period: Period | None = None
) -> Market:
    """All that store and catalog know of these instance types. Own prices are those of `period`.

    Expects price_offers on this connection (price.load_offers), in `currency`.
    """
    load_interruptions(con)
    types: dict[str, object] = {"instance_types": sorted({name.lower() for name in instance_types})}
    run_stage(con, __package__, "market_changes", types | {"currency": currency})
    con.execute(_BANDS, types)
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = defaultdict(list)
    for provider, region, zone, name, option, price, as_of, source in con.execute(
        "SELECT provider, coalesce(region, ''), coalesce(zone, ''), instance_type, purchase_option, price_per_hour, price_as_of, "
        "CASE origin WHEN 'catalog' THEN 'catalog, ' ELSE '' END || source FROM price_offers "
        "WHERE list_contains($instance_types::VARCHAR[], instance_type) AND term_years = 0 ORDER BY ALL",
        types,
    ).fetchall():
        listed[name, option].append((provider, region, zone, Price(price, source, str(as_of))))
    own: dict[tuple[str, str], Decimal] = {}
    if period is not None:
        run_stage(con, __package__, "market_own", {"from_ms": period.start_ms, "to_ms": period.end_ms})
        rows = con.execute("SELECT instance_type, capacity_type, price_per_hour FROM market_own").fetchall()
        own = {(name, capacity): price for name, capacity, price in rows}
    bands = con.execute("FROM market_bands ORDER BY ALL").fetchall()
    return Market(
        currency,
        dict(listed),
        _history(con, stale_after_days * _DAY_MS),
        own,
        {
            (provider, region, name): of_band(
                low, high, f"catalog, {source}: {_percent(low, high)} of instances a month, -ln(1 - p) / 730 h", str(as_of)
            )
            for provider, region, name, low, high, as_of, source in bands
        },
    )


def typical_rate(con: DuckDBPyConnection) -> Rate:
    """The median band of all GPU instances that the catalog knows bands of."""
    load_interruptions(con)
    low, high, as_of, count = con.execute(
        "SELECT quantile_disc(band_low_percent, 0.5), quantile_disc(band_high_percent, 0.5), max(as_of), count(*) "
        "FROM interruption_bands WHERE period = 'month'"
    ).fetchall()[0]
    source = f"catalog: {_percent(low, high)} a month, the median of {count:,} GPU types and regions, -ln(1 - p) / 730 h"
    return of_band(low, high, source, str(as_of))


def find_instance(con: DuckDBPyConnection, name: str, provider: str | None) -> Instance:
    """What the catalog or the store knows of an instance type. Raises UsageError where neither knows it, naming near ones."""
    load_catalog(con)
    rows = con.execute(
        "SELECT provider, instance_type, gpu_count, gpu_model FROM catalog_instances "
        "UNION ALL SELECT provider, instance_type, gpu_count, gpu_model FROM instance_types"
    ).fetchall()
    for known_provider, known, gpus, model in rows:
        if known.lower() == name.lower() and provider in (None, known_provider):
            return Instance(known_provider, known, float(gpus), model)
    near = difflib.get_close_matches(name.lower(), sorted({row[1].lower() for row in rows}), n=3, cutoff=0.5)
    raise UsageError(
        f"no instance type {name!r} is known" + (f" of {provider}" if provider else ""),
        f"near it: {', '.join(near)}" if near else "gpucost prices lists instance types; or give prices and --gpus instead",
    )


def _history(con: DuckDBPyConnection, stale_ms: int) -> dict[str, list[tuple[str, Changes]]]:
    loaded = dict(con.execute("SELECT source, max(to_ms) FROM loads WHERE kind = 'spot' GROUP BY source").fetchall())
    rows = con.execute(
        "SELECT instance_type, provider, region, zone, list(at_ms ORDER BY at_ms), list(price_per_hour ORDER BY at_ms), "
        "list(DISTINCT source) FROM market_changes GROUP BY ALL ORDER BY 1, 2, 3, 4"
    ).fetchall()
    found: dict[str, list[tuple[str, Changes]]] = defaultdict(list)
    for name, provider, region, zone, at, prices, sources in rows:
        seen = max(at[-1], *(loaded.get(source, 0) for source in sources))
        found[name].append((provider, Changes(region, zone, tuple(at), tuple(prices), seen + stale_ms)))
    return dict(found)


def _lower_median(prices: Sequence[Price]) -> Price | None:
    ordered = sorted(prices, key=lambda price: price.per_node_hour)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _percent(low: int, high: int) -> str:
    return f"more than {low} %" if high >= 100 else f"{low}-{high} %"
