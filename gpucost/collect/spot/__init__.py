"""Spot price history: from AWS and Azure, or from files that hold their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpucost import catalog
from gpucost.collect.base import NoCredentials
from gpucost.collect.spot import files
from gpucost.collect.spot.aws import FALLBACK_REGION, AwsSpot, source_of
from gpucost.collect.spot.azure import SOURCE as AZURE
from gpucost.collect.spot.azure import AzureSpot
from gpucost.collect.spot.base import AWS_REGIONS
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.store import prices as spot_prices
from gpucost.store.prices import node_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime
    from pathlib import Path

    from gpucost.config.model import Config
    from gpucost.store.connection import Store
    from gpucost.store.prices import SpotLoad, SpotPrice
    from gpucost.store.runs import Span

    Progress = Callable[[str], None]

KEPT_MS = 90 * 24 * MS_PER_HOUR  # AWS tells no older changes
OVERLAP_MS = 2 * MS_PER_HOUR
PROVIDERS = ("aws", AZURE)


@dataclass(frozen=True, slots=True)
class SpotResult:
    """What one source came to: its load and period, or why it was `skipped`, or the `error` that ended it."""

    source: str
    load: SpotLoad | None = None
    period: Period | None = None
    skipped: NoCredentials | None = None
    error: GpucostError | None = None
    notes: list[str] = field(default_factory=list)


def import_spot(store: Store, paths: list[Path]) -> list[SpotResult]:
    """Loads files of spot prices, all of them or, where one cannot be used, none.

    Raises UsageError where a path does not exist, SourceError or DataError where a file cannot be read or used.
    """
    sets = [files.read_path(path) for path in paths]
    results = []
    with store.write() as con:
        for found in sets:
            load = spot_prices.load(con, found.prices)
            results.append(SpotResult(found.name, load, _period(found.prices), notes=_notes(found)))
    return results


def collect_spot(
    config: Config, store: Store, now: datetime, progress: Progress | None = None, providers: Collection[str] = PROVIDERS
) -> Iterator[SpotResult]:
    """Collects spot prices of `providers`, and yields what each region or cloud came to as soon as it is stored.

    AWS goes on from the last collected moment of a region, less an overlap. Raises StoreError.
    """
    now_ms = to_ms(now)
    seen = [region for region in node_regions(store) if region in AWS_REGIONS]
    with store.write() as con:
        catalog.load_catalog(con)
        rows = con.execute("SELECT provider, instance_type FROM catalog_instances ORDER BY 1, 2").fetchall()
        types = {name: [t for provider, t in rows if provider == name] for name in ("aws", "azure")}
        for name, shipped in types.items():
            types[name] = sorted({*shipped, *spot_prices.known_types(con, name)})
        regions = config.aws.regions or seen or [FALLBACK_REGION]
        spans = {region: _span(spot_prices.loaded(con, source_of(region)), now_ms) for region in regions}
    if "aws" in providers:
        yield from _aws(config, store, types["aws"], spans, progress)
    if AZURE in providers:
        yield _azure(config, store, {name.lower(): name for name in types["azure"]}, now_ms, progress)


def _aws(
    config: Config, store: Store, types: list[str], spans: dict[str, Span], progress: Progress | None
) -> Iterator[SpotResult]:
    try:
        source = AwsSpot(config.aws, types)
    except NoCredentials as error:
        yield SpotResult("aws", skipped=error)
        return
    except GpucostError as error:
        yield SpotResult("aws", error=error)
        return
    for region, span in spans.items():
        name = source_of(region)
        if progress is not None:
            progress(name)
        try:
            prices = source.fetch(region, span)
        except GpucostError as error:
            yield SpotResult(name, error=error)
        else:
            yield _stored(store, name, prices, span)


def _azure(config: Config, store: Store, types: dict[str, str], now_ms: int, progress: Progress | None) -> SpotResult:
    if progress is not None:
        progress(AZURE)
    try:
        prices = AzureSpot(config.azure, types).fetch()
    except NoCredentials as error:
        return SpotResult(AZURE, skipped=error)
    except GpucostError as error:
        return SpotResult(AZURE, error=error)
    # Resource Graph answers with all it has: what was asked for begins with the oldest of it.
    return _stored(store, AZURE, prices, (min((price.at_ms for price in prices), default=now_ms - KEPT_MS), now_ms))


def _stored(store: Store, name: str, prices: list[SpotPrice], span: Span) -> SpotResult:
    with store.write() as con:
        load = spot_prices.load(con, prices, {name: span})
    notes = [] if prices else [f"{name} told of no spot price of an accelerated instance type"]
    return SpotResult(name, load, Period(from_ms(span[0]), from_ms(span[1])), notes=notes)


def _span(loaded: list[Span], now_ms: int) -> Span:
    last = max((end for _, end in loaded), default=0)
    return max(last - OVERLAP_MS, now_ms - KEPT_MS), now_ms


def _period(prices: list[SpotPrice]) -> Period | None:
    if not prices:
        return None
    end = max(price.to_ms or price.at_ms for price in prices)
    return Period(from_ms(min(price.at_ms for price in prices)), from_ms(end))


def _notes(found: files.FileSet) -> list[str]:
    notes = []
    if found.passed_over:
        names = ", ".join(path.name for path in found.passed_over[:5]) + (", …" if len(found.passed_over) > 5 else "")
        notes.append(f"passed over what holds no spot prices: {names}")
    notes += [f"{path} ends with a NextToken: further pages of that answer are not in it" for path in found.unfinished]
    return notes
