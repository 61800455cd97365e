"""The only entry of list prices into the store: a provider's answer, complete or not at all."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from gpucost.periods import MS_PER_DAY, Span, to_ms
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store import runs, sqlfiles
from gpucost.store.connection import Store

_LIST = "prices"  # the kind in loads and collect_runs


class ListPrice(NamedTuple):
    """The price per hour of one whole instance, with upfront payments spread over the term.

    Fields are as in the table.
    """

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
        """The columns that identify the price."""
        what = (self.instance_type, self.purchase_option, self.term_years, self.payment_option, self.offering)
        return (self.region, self.zone, *what, self.currency)


class ComponentPrice(NamedTuple):
    """The price per hour of one vCPU, GiB or GPU, if a cloud sells them separately."""

    region: str
    component: str
    purchase_option: str
    term_years: int
    price_per_hour: Decimal
    currency: str
    source: str


class InstanceType(NamedTuple):
    """The contents of an instance type.

    `gpu_count` may be a fraction of a GPU; `gpu_memory_mib` is per GPU or fraction.
    """

    instance_type: str
    gpu_model: str
    gpu_count: float
    gpu_memory_mib: int | None
    vcpus: float | None
    memory_gib: float | None
    source: str


@frozen_dataclass
class ProviderPrices:
    """One provider's answer for `regions`; it must not contain facts of other regions."""

    provider: str
    regions: Sequence[str]
    prices: Sequence[ListPrice]
    components: Sequence[ComponentPrice] = ()
    instance_types: Sequence[InstanceType] = ()

    @property
    def rows(self) -> int:
        """The number of facts."""
        return len(self.prices) + len(self.components) + len(self.instance_types)


# facts of other days and regions stay
_LIST_PRICES_DELETE = """
DELETE FROM list_prices
WHERE provider = $provider AND price_as_of = $day AND list_contains($regions::VARCHAR[], region)"""
_COMPONENT_PRICES_DELETE = """
DELETE FROM component_prices
WHERE provider = $provider AND price_as_of = $day AND list_contains($regions::VARCHAR[], region)"""
_INSTANCE_TYPES_DELETE = """
DELETE FROM instance_types
WHERE provider = $provider AND seen_on = $day AND instance_type IN (SELECT instance_type FROM new_types)"""
# prices with more than twelve decimals are rounded
_INSERTS = (
    "INSERT INTO list_prices BY NAME SELECT $provider AS provider, $day AS price_as_of, * FROM new_prices",
    "INSERT INTO component_prices BY NAME SELECT $provider AS provider, $day AS price_as_of, * FROM new_components",
    "INSERT INTO instance_types BY NAME SELECT $provider AS provider, $day AS seen_on, * FROM new_types",
)


def load_prices(store: Store, answer: ProviderPrices, queried_at: datetime) -> None:
    """Write one provider's facts as of the UTC day of `queried_at`, in one transaction.

    A second answer on one day replaces the first for the same regions; other days stay as history. Raises
    StoreError.
    """
    # the log needs windows: this one is the day so far
    now_ms = to_ms(queried_at)
    span = (min(now_ms - now_ms % MS_PER_DAY, now_ms - 1), now_ms)
    dated = {"provider": answer.provider, "day": queried_at.date()}
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


# the regions of nodes in metrics, whether or not they are attributed yet
_NODE_REGIONS = """
SELECT region FROM nodes WHERE region IS NOT NULL AND gpu_count > 0
UNION
SELECT coalesce(labels['label_topology_kubernetes_io_region'], labels['label_failure_domain_beta_kubernetes_io_region']) AS region
FROM series WHERE metric = 'kube_node_labels' AND region IS NOT NULL
ORDER BY region"""


def node_regions(store: Store) -> list[str]:
    """The regions of nodes in metrics, of any cloud; empty without a store."""
    if not store.exists:
        return []
    with store.read() as con:
        return sqlfiles.column(con, _NODE_REGIONS)


_SPOT = "spot"


class SpotPrice(NamedTuple):
    """One row of spot_prices: the price per hour (decimal digits) of an instance type since `at_ms`.

    `instance_id` is empty for the market price. For the price charged for one instance, `to_ms` is the end of
    that time.
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


@frozen_dataclass
class SpotLoad:
    """The result of a batch: `new` facts, `corrected` prices, and rows without news."""

    rows: int
    new: int
    corrected: int

    @property
    def old(self) -> int:
        """Rows that were already in the store or in the batch."""
        return self.rows - self.new - self.corrected


class EvictionRate(NamedTuple):
    """How often a cloud evicts spot instances of a type.

    The low end of the published band, in percent per hour.
    """

    provider: str
    region: str
    instance_type: str
    band_low_percent: int


@frozen_dataclass
class SpotAnswer:
    """A cloud's spot prices and eviction rates."""

    prices: Sequence[SpotPrice]
    eviction_rates: Sequence[EvictionRate] = ()


# of contradicting rows with one key, the last one of the batch
_SPOT_INCOMING = """
CREATE OR REPLACE TEMP TABLE spot_incoming AS
SELECT provider, region, zone, instance_type, product, instance_id, at_ms, to_ms,
    price::DECIMAL(21, 12) AS price_per_hour, currency, source
FROM spot_batch
QUALIFY row_number()
    OVER (PARTITION BY provider, region, zone, instance_type, product, instance_id, at_ms ORDER BY position DESC) = 1"""
# from the first change to just after the last one, or to the end of the last charged time
_SPOT_REPORTED = """
SELECT source, count(*), min(at_ms), max(coalesce(to_ms, at_ms + 1)) FROM spot_batch GROUP BY source"""
_SPOT_COUNTS = """
SELECT count(*) FILTER (k.price_per_hour IS NULL) AS new,
    count(*) FILTER (k.price_per_hour IS NOT NULL
        AND (k.price_per_hour, k.currency, k.to_ms) IS DISTINCT FROM (i.price_per_hour, i.currency, i.to_ms)) AS corrected
FROM spot_incoming AS i
LEFT JOIN spot_prices AS k USING (provider, region, zone, instance_type, product, instance_id, at_ms)"""
# delete only facts that changed, and insert them again
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
    """Load a batch inside the caller's transaction. The last of rows with equal keys is used.

    `covered` are the queried spans by source; they are logged even if the answer was empty. Without it, each
    source covers the time from its first to its last change, and is logged if it has news.
    """
    new = corrected = 0
    reported_spans: dict[str, tuple[int, Span]] = {}
    if prices:
        batch = sqlfiles.columns_of(SpotPrice, prices)
        with sqlfiles.frames(con, spot_batch={**batch, "position": range(len(prices))}):
            con.execute(_SPOT_INCOMING)
            for source, rows, start, end in con.execute(_SPOT_REPORTED).fetchall():
                reported_spans[source] = rows, (start, end)
        new, corrected = con.execute(_SPOT_COUNTS).fetchall()[0]
        con.execute(_SPOT_REPLACE)
    if covered is None:
        changed = bool(new or corrected)
        covered = {
            source: span
            for source, (_, span) in reported_spans.items()
            if changed or span not in loaded(con, source)
        }
    for source, span in sorted(covered.items()):
        runs.log_run(
            con, _SPOT, source, span, rows=reported_spans[source][0] if source in reported_spans else 0
        )
    return SpotLoad(len(prices), new, corrected)


_EVICTION_RATES_DELETE = """
DELETE FROM spot_eviction_rates WHERE seen_on = $day AND provider IN (SELECT provider FROM new_rates)"""
_EVICTION_RATES_INSERT = "INSERT INTO spot_eviction_rates BY NAME SELECT $day AS seen_on, * FROM new_rates"


def load_eviction_rates(con: DuckDBPyConnection, rates: Sequence[EvictionRate], day: date) -> None:
    """Load a cloud's eviction rates of a day inside the caller's transaction.

    They replace earlier rates of the day.
    """
    with sqlfiles.frames(con, new_rates=sqlfiles.columns_of(EvictionRate, rates)):
        con.execute(_EVICTION_RATES_DELETE, {"day": day})
        con.execute(_EVICTION_RATES_INSERT, {"day": day})


def loaded(con: DuckDBPyConnection, source: str) -> list[Span]:
    """The spans of spot prices that were loaded from a source."""
    return runs.loaded(con, _SPOT, source)
