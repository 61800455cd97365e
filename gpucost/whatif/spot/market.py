"""Prices of nodes on spot or on demand by the rules of the price stages, and rates of interruptions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta

from gpucost.catalog import load_catalog
from gpucost.config.model import Config
from gpucost.engine import dicts, run_stage
from gpucost.errors import UsageError
from gpucost.periods import MS_PER_DAY, Period, to_ms
from gpucost.price import price_nodes
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.suggest import did_you_mean
from gpucost.whatif.flags import PricePer, node_price
from gpucost.whatif.fleet import UNPRICED, Node, NodeKey, Price, Row, price_steps
from gpucost.whatif.spot.interruptions import Evidence, Place, Rate, family_of, posterior, prior_rate


@frozen_dataclass
class Market:
    """Prices of nodes on spot per node-hour, and rates of interruptions.

    `price` (per `price_per`) replaces all other prices. `segments` are rows of prices by cluster and node for `price_steps`.
    `own_prices` is the price of the fleet's spot nodes in the period by lower-cased instance type. `rate` returns the
    rate of a place.
    """

    segments: Mapping[NodeKey, Sequence[Row]] = field(default_factory=dict)
    own_prices: Mapping[str, Price] = field(default_factory=dict)
    rate: Callable[[Place], Rate] = prior_rate
    price: Price | None = None
    price_per: PricePer = PricePer.node

    def there(self, node: Node) -> Node | None:
        """The node at its spot prices: price book, history, own nodes, list; None if a part of its life has no price."""
        if self.price:
            per_node = node_price(self.price.per_node_hour, self.price_per, node.gpus)
            return replace(node, prices=(replace(self.price, per_node_hour=per_node),))
        own_price = self.own_prices.get((node.instance_type or "").lower())
        segments = self.segments.get((node.cluster, node.name.partition("#")[0]), ())
        usable = [row for row in segments if not (own_price and row["is_listed"])]
        there = replace(
            node, prices=tuple(price_steps(usable, node.from_ms, node.to_ms, own_price or UNPRICED))
        )
        return there if there.is_priced else None


# Price per hour of own spot nodes in the period, weighted by time.
_OWN = """
SELECT lower(n.instance_type), (sum(p.price_per_hour * p.span_ms::DECIMAL(14, 0)) / sum(p.span_ms))::DECIMAL(24, 12)
FROM nodes AS n JOIN (
    SELECT *, least(to_ms, $to_ms) - greatest(from_ms, $from_ms) AS span_ms FROM node_prices WHERE price_source <> 'none'
) AS p USING (node_id)
WHERE p.span_ms > 0 AND n.instance_type IS NOT NULL AND n.capacity_type = 'spot'
GROUP BY ALL"""
# Spot history is valid however long ago its last change was.
_SEGMENTS = """
SELECT n.cluster, n.node, s.from_ms, s.to_ms, s.price_per_hour, s.price_source = 'catalog' AS is_listed,
    s.origin || if(s.discounts IS NULL, '', ', less [[prices.discounts]]') AS price_source,
    CASE WHEN s.price_source <> 'spot_history' THEN s.price_as_of END AS price_as_of, false AS is_committed
FROM price_segments AS s JOIN nodes AS n USING (node_id)
WHERE s.price_per_hour IS NOT NULL AND s.from_ms < $to_ms AND $from_ms < s.to_ms
ORDER BY ALL"""
_EVICTION_BANDS = """
SELECT provider, region, lower(instance_type), arg_max(band_low_percent, seen_on)::VARCHAR, max(seen_on)::VARCHAR
FROM spot_eviction_rates GROUP BY ALL"""
_EVIDENCE = """
SELECT provider, instance_type, node_hours, reclaims, pool_hours, ends FROM spot_evidence ORDER BY ALL"""


def read_market(con: DuckDBPyConnection, config: Config, period: Period) -> Market:
    """Read the prices of the period's nodes on spot, and the evidence on interruptions."""
    price_nodes(con, config, moved_to=("spot", period))
    rows = dicts(con.execute(_SEGMENTS, period.bounds))
    means = con.execute(_OWN, period.bounds).fetchall()
    own_prices = {name: Price(price, "own spot nodes of that type in the period") for name, price in means}
    return Market(grouped(((row["cluster"], row["node"]), row) for row in rows), own_prices, read_rates(con))


# A node outside the store; without a region it is in the only region with a price.
_DESCRIBED = """
INSERT INTO unlisted_nodes BY NAME
SELECT 0 AS node_id, '' AS cluster, '' AS node, '' AS capacity_type, $gpus AS gpu_count,
    $now_ms AS up_from_ms, $now_ms + 1 AS up_to_ms,
    provider, instance_type, gpu_model, coalesce($region, (
        SELECT min(region)
        FROM (FROM catalog_prices UNION ALL BY NAME FROM list_prices)
        WHERE (lower(provider), lower(instance_type)) = ($provider, lower($instance_type)) AND region <> ''
            AND purchase_option = $purchase_option AND coalesce(term_years, 0) = 0
        HAVING count(DISTINCT lower(region)) = 1
    )) AS region
FROM listed_instances WHERE (provider, instance_type) = ($provider, lower($instance_type))"""
_PRICE = """
SELECT price_per_hour, origin || if(discounts IS NULL, '', ', less [[prices.discounts]]'), price_as_of::VARCHAR
FROM price_segments WHERE price_per_hour IS NOT NULL"""


def read_price(
    con: DuckDBPyConnection, config: Config, place: Place, gpus: float, purchase_option: str
) -> Price | None:
    """The price of a node in the place today; None without a price, or without a region if several have prices."""
    now = datetime.now(UTC)
    con.execute("CREATE OR REPLACE TEMP TABLE unlisted_nodes AS FROM nodes LIMIT 0")
    load_catalog(con)
    run_stage(con, "gpucost.price", "listed_instances")
    node = {"gpus": gpus, "now_ms": to_ms(now), "purchase_option": purchase_option}
    con.execute(_DESCRIBED, place._asdict() | node)
    price_nodes(con, config, 0, (purchase_option, Period(now, now + timedelta(seconds=1))))
    row = con.execute(_PRICE).fetchone()
    return Price(*row) if row else None


def read_rates(con: DuckDBPyConnection) -> Callable[[Place], Rate]:
    """The rate of a place: own spot nodes of its family in all months, on top of the published rate.

    An end counts if a pod held the node 10 minutes before, or later; evidence halves in 90 days.
    """
    times = {"held_within_ms": 600_000, "half_life_ms": 90 * MS_PER_DAY}
    run_stage(con, __package__, "spot_evidence", times)
    evidence = grouped(
        ((provider, family_of(name)), figures)
        for provider, name, *figures in con.execute(_EVIDENCE).fetchall()
    )
    # the low end of the newest published band, and its day
    bands = {tuple(key): (band, day) for *key, band, day in con.execute(_EVICTION_BANDS).fetchall()}

    def rate(place: Place) -> Rate:
        band = bands.get((place.provider, place.region, place.instance_type.lower()), ())
        counts = evidence.get((place.provider, family_of(place.instance_type)), ())
        return posterior(prior_rate(place, *band), Evidence(*map(sum, zip(*counts, strict=True))))

    return rate


_INSTANCES = """
SELECT provider, instance_type, gpu_count::DOUBLE FROM catalog_instances
UNION ALL SELECT provider, instance_type, gpu_count::DOUBLE FROM instance_types"""


def find_instance(con: DuckDBPyConnection, name: str) -> tuple[str, str, float]:
    """(provider, name, GPUs) of an instance type, by the catalog or the store. Raises UsageError, naming near ones."""
    load_catalog(con)
    rows: list[tuple[str, str, float]] = con.execute(_INSTANCES).fetchall()
    existing = {row[1].lower(): row for row in reversed(rows)}
    if name.lower() in existing:
        return existing[name.lower()]
    otherwise = "gpucost prices lists instance types; or give prices and --gpus instead"
    raise UsageError(
        f"unknown instance type {name!r}", did_you_mean(name.lower(), sorted(existing), otherwise)
    )
