"""Spot price history from AWS and Azure, or from files with their answers."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path

from gpucost import catalog
from gpucost.clouds import NoCredentials, aws_login
from gpucost.collect.spot import aws, azure, files
from gpucost.collect.spot.base import AWS_REGIONS
from gpucost.config.model import Config
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.records import frozen_dataclass, grouped
from gpucost.store import prices as spot_prices
from gpucost.store.connection import Store
from gpucost.store.prices import SpotAnswer, SpotLoad, SpotPrice, node_regions

Progress = Callable[[str], None]

KEPT_MS = 90 * 24 * MS_PER_HOUR  # the limit of AWS' history
OVERLAP_MS = 2 * MS_PER_HOUR
PROVIDERS = ("aws", azure.SOURCE)
_FALLBACK_REGION = "us-east-1"
_TYPES = """
SELECT provider, instance_type FROM catalog_instances UNION SELECT provider, instance_type FROM instance_types ORDER BY ALL"""


@frozen_dataclass
class SpotResult:
    """The result of one source: its load and period, or why it was `skipped`, or the `error` that ended it."""

    source: str
    load: SpotLoad | None = None
    period: Period | None = None
    skipped: NoCredentials | None = None
    error: GpucostError | None = None
    notes: list[str] = field(default_factory=list)


def import_spot(store: Store, paths: Sequence[Path]) -> list[SpotResult]:
    """Load all files of spot prices, or none if one cannot be used.

    Raises UsageError if a path does not exist, SourceError or DataError if a file cannot be read or used.
    """
    sets = [files.read_path(path) for path in paths]
    with store.write() as con:
        return [
            SpotResult(read.name, spot_prices.load(con, read.prices), _period(read.prices), notes=read.notes)
            for read in sets
        ]


def collect_spot(
    config: Config, store: Store, now: datetime, progress: Progress, providers: Collection[str] = PROVIDERS
) -> Iterator[SpotResult]:
    """Collect spot prices of `providers`; yield the result of each region or cloud once it is stored.

    AWS continues at the last collected moment of a region, minus an overlap. Raises StoreError.
    """
    now_ms = to_ms(now)
    seen = [region for region in node_regions(store) if region in AWS_REGIONS]
    with store.write() as con:
        catalog.load_catalog(con)
        types: dict[str, list[str]] = grouped(con.execute(_TYPES).fetchall())
        spans = {}
        for region in config.aws.regions or seen or [_FALLBACK_REGION]:
            ends = [end - OVERLAP_MS for _, end in spot_prices.loaded(con, aws.source_of(region))]
            spans[region] = max([*ends, now_ms - KEPT_MS]), now_ms
    if "aws" in providers:
        try:
            session = aws_login(config.aws)
        except GpucostError as error:
            yield _failed("aws", error)
        else:
            for region, span in spans.items():
                progress(aws.source_of(region))
                fetch = partial(aws.fetch, session, config.aws, types["aws"], region, span)
                yield _stored(store, aws.source_of(region), fetch, span)
    if azure.SOURCE in providers:
        progress(azure.SOURCE)
        spellings = {name.lower(): name for name in types["azure"]}
        # Resource Graph returns its whole history: the queried period begins with its oldest price.
        yield _stored(store, azure.SOURCE, partial(azure.fetch, config.azure, spellings), (None, now_ms))


def _stored(
    store: Store, name: str, fetch: Callable[[], SpotAnswer], span: tuple[int | None, int]
) -> SpotResult:
    try:
        answer = fetch()
    except GpucostError as error:
        return _failed(name, error)
    prices, (start, end) = answer.prices, span
    if start is None:
        start = min((price.at_ms for price in prices), default=end - KEPT_MS)
    with store.write() as con:
        load = spot_prices.load(con, prices, {name: (start, end)})
        spot_prices.load_eviction_rates(con, answer.eviction_rates, from_ms(end).date())
    notes = [] if prices else [f"{name} has no spot prices of accelerated instance types"]
    return SpotResult(name, load, Period(from_ms(start), from_ms(end)), notes=notes)


def _failed(name: str, error: GpucostError) -> SpotResult:
    if isinstance(error, NoCredentials):
        return SpotResult(name, skipped=error)
    return SpotResult(name, error=error)


def _period(prices: list[SpotPrice]) -> Period | None:
    if not prices:
        return None
    end = max(price.to_ms or price.at_ms for price in prices)
    return Period(from_ms(min(price.at_ms for price in prices)), from_ms(end))
