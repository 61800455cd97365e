"""What is known of a market: list prices, spot price history, what own nodes cost, and how often spot is interrupted."""

from __future__ import annotations

import bisect
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.catalog import load_catalog
from gpucost.engine import run_stage
from gpucost.errors import UsageError
from gpucost.periods import MS_PER_DAY, Period, from_ms
from gpucost.price import load_offers
from gpucost.records import record
from gpucost.whatif.fleet import Price
from gpucost.whatif.spot.interruptions import Evidence, Rate, family_of, posterior, prior_rate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

# How long before its end a pod held a node, if the end counts; and the time in which evidence halves.
_HELD_WITHIN_MS = 600_000
_HALF_LIFE_MS = 90 * MS_PER_DAY


class Place(NamedTuple):
    """Where a node is, or would be; an instance type in any case of letters, None what is not known."""

    instance_type: str
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zone_id: str | None = None
    gpu_model: str | None = None


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
        return [
            (max(at, start_ms), price)
            for at, price in zip(self.at_ms[first:last], self.prices[first:last], strict=True)
        ]


@record
class Market:
    """Facts by instance type (lower-cased); prices are per node-hour in `currency`."""

    currency: str
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = field(default_factory=dict)
    history: dict[str, list[tuple[str, PriceChanges]]] = field(default_factory=dict)
    own: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    # own spot nodes by provider and family
    evidence: dict[tuple[str | None, str], Evidence] = field(default_factory=dict)
    # by provider, region and instance type: the low end of the newest published band, and its day
    eviction_bands: dict[tuple[str | None, ...], tuple[str, str]] = field(default_factory=dict)

    def list_price(self, place: Place, option: str) -> Price | None:
        """`on_demand` or `spot` list price of the place, in the order of place_rank (price/vocabulary.sql).

        None where its region is not said and there are several.
        """
        rows = [
            row
            for row in self.listed.get((place.instance_type.lower(), option), [])
            if place.provider in (None, row[0])
        ]
        regions = {place.region.lower()} if place.region else {row[1] for row in rows}
        if len(regions) != 1:
            return None
        (region,) = regions
        known = {(row[1], row[2]): row[3] for row in reversed(rows)}
        zones = (place.zone_id, place.zone, "", "*")
        return next(
            (known[key] for key in (*((region, zone) for zone in zones), ("", "")) if key in known), None
        )

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
        chosen = _lower_median(
            known, key=lambda changes: (changes.steps(start_ms, end_ms)[0][1], changes.zone)
        )
        return tuple(Price(price, chosen.source, None, at) for at, price in chosen.steps(start_ms, end_ms))

    def latest_spot(self, place: Place, now_ms: int) -> Price | None:
        """The price of the place's zones (their lower median) that still holds at `now_ms`, by history."""
        known = [zone for zone in self.zones(place) if now_ms <= zone.known_until_ms]
        if not known:
            return None
        chosen = _lower_median(known, key=lambda zone: zone.prices[-1])
        return Price(chosen.prices[-1], chosen.source, str(from_ms(chosen.at_ms[-1]).date()))

    def rate(self, place: Place) -> Rate:
        """How often the place's spot nodes are interrupted: own nodes of its family, on top of the published rate."""
        key = (place.provider, place.region, place.instance_type.lower())
        band = self.eviction_bands.get(key, (None, None))
        prior = prior_rate(place.provider, place.region, place.instance_type, *band)
        own = self.evidence.get((place.provider, family_of(place.instance_type)), Evidence())
        return posterior(prior, own)


# What own nodes of an instance type cost per hour in the period, weighted by time.
_OWN = """
SELECT lower(n.instance_type), n.capacity_type,
    (sum(p.price_per_hour * p.span_ms::DECIMAL(14, 0)) / sum(p.span_ms))::DECIMAL(24, 12)
FROM nodes AS n JOIN (
    SELECT *, least(to_ms, $to_ms) - greatest(from_ms, $from_ms) AS span_ms FROM node_prices WHERE price_source <> 'none'
) AS p USING (node_id)
WHERE p.span_ms > 0 AND n.instance_type IS NOT NULL
GROUP BY ALL"""
_EVICTION_BANDS = """
SELECT provider, region, lower(instance_type), arg_max(band_low_percent, seen_on)::VARCHAR, max(seen_on)::VARCHAR
FROM spot_eviction_rates GROUP BY ALL"""
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
    con: DuckDBPyConnection,
    config: Config,
    instance_types: Iterable[str],
    period: Period | None = None,
    stale_after_days: int | None = None,
) -> Market:
    """All that store and catalog know of these instance types. Own prices are those of `period`.

    Spot prices hold for `stale_after_days` (of the config) after they were collected. Leaves price_offers on this connection.
    """
    load_offers(con, config)
    currency, days = (
        config.currency,
        config.prices.stale_after_days if stale_after_days is None else stale_after_days,
    )
    types: dict[str, object] = {"instance_types": sorted({name.lower() for name in instance_types})}
    run_stage(con, __package__, "market_changes", types | {"currency": currency})
    history: dict[str, list[tuple[str, PriceChanges]]] = defaultdict(list)
    for name, provider, region, zone, at, prices, seen in con.execute(_HISTORY).fetchall():
        changes = PriceChanges(region, zone, tuple(at), tuple(prices), seen + days * MS_PER_DAY)
        history[name].append((provider, changes))
    listed: dict[tuple[str, str], list[tuple[str, str, str, Price]]] = defaultdict(list)
    for provider, region, zone, name, option, price, as_of, source in con.execute(_LISTED, types).fetchall():
        listed[name, option].append((provider, region, zone, Price(price, source, as_of)))
    own: dict[tuple[str, str], Decimal] = {}
    if period is not None:
        rows = con.execute(_OWN, period.bounds).fetchall()
        own = {(name, capacity): price for name, capacity, price in rows}
    bands = {tuple(key): (band, day) for *key, band, day in con.execute(_EVICTION_BANDS).fetchall()}
    return Market(currency, dict(listed), dict(history), own, read_evidence(con), bands)


def read_evidence(con: DuckDBPyConnection) -> dict[tuple[str | None, str], Evidence]:
    """Own spot nodes of all collected months, by provider and family."""
    half_life = {"held_within_ms": _HELD_WITHIN_MS, "half_life_ms": _HALF_LIFE_MS}
    run_stage(con, __package__, "spot_evidence", half_life)
    rows = con.execute(
        "SELECT provider, instance_type, node_hours, reclaims, pool_hours, ends FROM spot_evidence ORDER BY ALL"
    )
    found: dict[tuple[str | None, str], Evidence] = defaultdict(Evidence)
    for provider, instance_type, *figures in rows.fetchall():
        found[provider, family_of(instance_type)] += Evidence(*figures)
    return dict(found)


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
        f"near it: {', '.join(near)}"
        if near
        else "gpucost prices lists instance types; or give prices and --gpus instead",
    )


def _lower_median(zones: Iterable[PriceChanges], key: Callable[[PriceChanges], Any]) -> PriceChanges:
    ordered = sorted(zones, key=key)
    return ordered[(len(ordered) - 1) // 2]
