"""The one door through which a cloud's list prices enter the store: a provider's answer, whole or not at all."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from gpucost.periods import MS_PER_HOUR, to_ms
from gpucost.records import record
from gpucost.store import runs, sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.periods import Span
    from gpucost.store.connection import Store

_LIST = "prices"  # in loads and collect_runs


class ListPrice(NamedTuple):
    """What one whole instance costs per hour, upfront payments spread over the term. Fields as in the table."""

    region: str
    instance_type: str
    purchase_option: str
    price_per_hour: Decimal
    currency: str
    source: str
    term_years: int = 0
    payment_option: str = ""
    offering: str = ""
    zone: str = ""
    effective_start: date | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What it is the price of."""
        what = (self.instance_type, self.purchase_option, self.term_years, self.payment_option, self.offering)
        return (self.region, self.zone, *what, self.currency)


class ComponentPrice(NamedTuple):
    """What one vCPU, GiB or GPU costs per hour, where a cloud sells them apart."""

    region: str
    component: str
    purchase_option: str
    term_years: int
    price_per_hour: Decimal
    currency: str
    source: str


class InstanceType(NamedTuple):
    """What an instance type holds; `gpu_count` may be a part of a GPU, `gpu_memory_mib` is of one GPU or part."""

    instance_type: str
    gpu_model: str
    gpu_count: float
    gpu_memory_mib: int | None
    vcpus: float | None
    memory_gib: float | None
    source: str


@record
class ProviderPrices:
    """What one provider answered for `regions`; facts of other regions must not be among them."""

    provider: str
    regions: Sequence[str]
    prices: Sequence[ListPrice]
    components: Sequence[ComponentPrice] = ()
    instance_types: Sequence[InstanceType] = ()

    @property
    def rows(self) -> int:
        """How many facts there are."""
        return len(self.prices) + len(self.components) + len(self.instance_types)


# what was said on other days, or of other regions, stays
_LIST_PRICES_DELETE = """
DELETE FROM list_prices
WHERE provider = $provider AND price_as_of = $day AND list_contains($regions::VARCHAR[], region)"""
_COMPONENT_PRICES_DELETE = """
DELETE FROM component_prices
WHERE provider = $provider AND price_as_of = $day AND list_contains($regions::VARCHAR[], region)"""
_INSTANCE_TYPES_DELETE = """
DELETE FROM instance_types
WHERE provider = $provider AND seen_on = $day AND instance_type IN (SELECT instance_type FROM new_types)"""
# prices of more than twelve decimals are rounded
_INSERTS = (
    "INSERT INTO list_prices BY NAME SELECT $provider AS provider, $day AS price_as_of, * FROM new_prices",
    "INSERT INTO component_prices BY NAME SELECT $provider AS provider, $day AS price_as_of, * FROM new_components",
    "INSERT INTO instance_types BY NAME SELECT $provider AS provider, $day AS seen_on, * FROM new_types",
)


def load_prices(store: Store, answer: ProviderPrices, asked_at: datetime) -> None:
    """Writes one provider's facts as of the UTC day of `asked_at`, in one transaction.

    The same day asked again replaces that day's facts of the same regions; other days stay, as history. Raises StoreError.
    """
    # the log knows windows only: this one is the day so far
    now_ms = to_ms(asked_at)
    span = (min(now_ms - now_ms % (24 * MS_PER_HOUR), now_ms - 1), now_ms)
    dated = {"provider": answer.provider, "day": asked_at.date()}
    new = {
        "new_prices": sqlfiles.columns_of(ListPrice, answer.prices),
        "new_components": sqlfiles.columns_of(ComponentPrice, answer.components),
        "new_types": sqlfiles.columns_of(InstanceType, answer.instance_types),
    }
    with store.write() as con:
        with sqlfiles.frames(con, **new):
            for statement in (_LIST_PRICES_DELETE, _COMPONENT_PRICES_DELETE):
                con.execute(statement, {**dated, "regions": list(answer.regions)})
            for statement in (_INSTANCE_TYPES_DELETE, *_INSERTS):
                con.execute(statement, dated)
        runs.log_run(con, _LIST, answer.provider, span, rows=answer.rows)


# the regions in which nodes were seen, whether or not they were attributed yet
_NODE_REGIONS = """
SELECT region FROM nodes WHERE region IS NOT NULL AND gpu_count > 0
UNION
SELECT coalesce(labels['label_topology_kubernetes_io_region'], labels['label_failure_domain_beta_kubernetes_io_region']) AS region
FROM series WHERE metric = 'kube_node_labels' AND region IS NOT NULL
ORDER BY region"""


def node_regions(store: Store) -> list[str]:
    """The regions, of any cloud, in which nodes were seen; none where there is no store yet."""
    if not store.exists:
        return []
    with store.read() as con:
        return sqlfiles.column(con, _NODE_REGIONS)


_SPOT = "spot"


class SpotPrice(NamedTuple):
    """One row of spot_prices: since `at_ms` an instance of this type costs `price` (decimal digits) per hour.

    `instance_id` is empty for the market's price; for what one instance was charged, `to_ms` is the end of that time.
    """

    provider: str
    region: str
    instance_type: str
    product: str
    at_ms: int
    price: str
    source: str
    zone: str = ""
    instance_id: str = ""
    to_ms: int | None = None
    currency: str = "USD"


@record
class SpotLoad:
    """What a batch came to: `new` facts, `corrected` ones that had another price, and rows that said nothing new."""

    rows: int
    new: int
    corrected: int

    @property
    def known(self) -> int:
        """Rows that were in the store, or in the batch, already."""
        return self.rows - self.new - self.corrected


class EvictionRate(NamedTuple):
    """How often a cloud takes back spot instances of a type: the low end of its band, in percent per hour."""

    provider: str
    region: str
    instance_type: str
    band_low_percent: int


@record
class SpotAnswer:
    """What a cloud reports of spot instances."""

    prices: Sequence[SpotPrice]
    eviction_rates: Sequence[EvictionRate] = ()


# of rows that say different things about a key, the last one of the batch
_SPOT_INCOMING = """
CREATE OR REPLACE TEMP TABLE spot_incoming AS
SELECT provider, region, zone, instance_type, product, instance_id, at_ms, to_ms,
    price::DECIMAL(21, 12) AS price_per_hour, currency, source
FROM spot_batch
QUALIFY row_number()
    OVER (PARTITION BY provider, region, zone, instance_type, product, instance_id, at_ms ORDER BY position DESC) = 1"""
# from the first change up to just after the last one, or to the end of the last time charged
_SPOT_TOLD = """
SELECT source, count(*), min(at_ms), max(coalesce(to_ms, at_ms + 1)) FROM spot_batch GROUP BY source"""
_SPOT_COUNTS = """
SELECT count(*) FILTER (k.price_per_hour IS NULL) AS new,
    count(*) FILTER (k.price_per_hour IS NOT NULL
        AND (k.price_per_hour, k.currency, k.to_ms) IS DISTINCT FROM (i.price_per_hour, i.currency, i.to_ms)) AS corrected
FROM spot_incoming AS i
LEFT JOIN spot_prices AS k USING (provider, region, zone, instance_type, product, instance_id, at_ms)"""
# only facts that are said to be different now go, and come back as they are said to be
_SPOT_REPLACE = """
DELETE FROM spot_prices AS k USING spot_incoming AS i
WHERE k.provider = i.provider AND k.region = i.region AND k.zone = i.zone AND k.instance_type = i.instance_type
    AND k.product = i.product AND k.instance_id = i.instance_id AND k.at_ms = i.at_ms
    AND (k.price_per_hour, k.currency, k.to_ms) IS DISTINCT FROM (i.price_per_hour, i.currency, i.to_ms);
INSERT INTO spot_prices BY NAME
SELECT i.*
FROM spot_incoming AS i
ANTI JOIN spot_prices AS k USING (provider, region, zone, instance_type, product, instance_id, at_ms)
ORDER BY i.provider, i.region, i.zone, i.instance_type, i.product, i.instance_id, i.at_ms"""


def load(
    con: DuckDBPyConnection, prices: Sequence[SpotPrice], covered: dict[str, Span] | None = None
) -> SpotLoad:
    """Loads a batch inside the caller's transaction. Of rows with the same key, the last one stands.

    `covered` is what was asked of each source, and is logged even where the answer held nothing; without it each source
    covers the time from its first to its last change, and is logged where it brought something that was not known.
    """
    new = corrected = 0
    told: dict[str, tuple[int, Span]] = {}
    if prices:
        batch = sqlfiles.columns_of(SpotPrice, prices)
        with sqlfiles.frames(con, spot_batch={**batch, "position": range(len(prices))}):
            con.execute(_SPOT_INCOMING)
            for source, rows, start, end in con.execute(_SPOT_TOLD).fetchall():
                told[source] = rows, (start, end)
        new, corrected = con.execute(_SPOT_COUNTS).fetchall()[0]
        con.execute(_SPOT_REPLACE)
    if covered is None:
        changed = bool(new or corrected)
        covered = {
            source: span for source, (_, span) in told.items() if changed or span not in loaded(con, source)
        }
    for source, span in sorted(covered.items()):
        runs.log_run(con, _SPOT, source, span, rows=told[source][0] if source in told else 0)
    return SpotLoad(len(prices), new, corrected)


_EVICTION_RATES_DELETE = """
DELETE FROM spot_eviction_rates WHERE seen_on = $day AND provider IN (SELECT provider FROM new_rates)"""
_EVICTION_RATES_INSERT = "INSERT INTO spot_eviction_rates BY NAME SELECT $day AS seen_on, * FROM new_rates"


def load_eviction_rates(con: DuckDBPyConnection, rates: Sequence[EvictionRate], day: date) -> None:
    """Loads a cloud's eviction rates of a day, in place of those that the day had, inside the caller's transaction."""
    with sqlfiles.frames(con, new_rates=sqlfiles.columns_of(EvictionRate, rates)):
        con.execute(_EVICTION_RATES_DELETE, {"day": day})
        con.execute(_EVICTION_RATES_INSERT, {"day": day})


def loaded(con: DuckDBPyConnection, source: str) -> list[Span]:
    """The spans of spot prices that were loaded from a source."""
    return runs.loaded(con, _SPOT, source)
