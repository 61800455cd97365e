"""The pipeline on one page: collect -> store -> inventory -> price -> attribute -> report."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from gpucost import attribute as attribution, catalog, price
from gpucost.errors import GpucostError, SourceError, StoreError
from gpucost.periods import Period, from_ms, local_midnight, month_period, to_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.collect.base import CollectResult, Progress
    from gpucost.config.model import Config
    from gpucost.store.connection import Store
    from gpucost.store.upkeep import StoreCheck

_ATTEMPTS = 5
# On smaller stores, threads cost more than they save.
_SMALL_BYTES = 32 * 2**20
T = TypeVar("T")


def collect(
    config: Config, store: Store, period: Period | None, progress: Progress | None = None
) -> tuple[list[CollectResult], list[GpucostError]]:
    """Pull metrics from every configured Prometheus into the store.

    Returns the result of each run, and the errors of servers that failed. A failing server does not stop the
    others.
    """
    from gpucost import inventory
    from gpucost.collect.base import note_gaps
    from gpucost.collect.prometheus.collector import collect_prometheus

    results: list[CollectResult] = []
    errors: list[GpucostError] = []
    for source in config.prometheus:
        try:
            results.append(collect_prometheus(config, source, store, period, progress))
        except SourceError as error:
            errors.append(error)
    if results:
        sources = {source.source: source for source in config.prometheus}
        with store.write() as con:
            inventory.coverage(con, config)
            for result in results:
                note_gaps(con, sources[result.source], result, period, config.tz)
            # Bills add to coverage, too, so its stored rows are made later, with the prices.
            con.rollback()
            con.begin()
    return results, errors


def attribute(config: Config, store: Store, period: Period | None = None) -> None:
    """Update the attributed tables from the collected data, the prices and the configuration.

    Cheap if nothing changed: only local days with changed inputs are attributed again. Cells are cut at the
    ends of `period`, so that a report on it is exact.
    """
    inputs = inputs_of(config)
    with store.read() as con:
        if attribution.is_current(con, inputs, period):
            return
    _attribute(config, store, inputs, period)


def _stage(con: DuckDBPyConnection, config: Config) -> None:
    """Make the inventory and the prices, which attribution expects."""
    from gpucost import inventory
    from gpucost.collect.prometheus.queries import stored_needs

    inventory.stage(con, config, stored_needs(config.activity))
    price.stage(con, config)


def _attribute(
    config: Config,
    store: Store,
    inputs: attribution.InputDigests,
    period: Period | None,
    seal_until_ms: int | None = None,
) -> None:
    with store.write() as con:
        if seal_until_ms is None and attribution.is_current(con, inputs, period):
            return
        # Intermediate tables need no row order. Also, with preserved order DuckDB 2.0 cannot see rows
        # inserted earlier in the same transaction into an empty table, from 122,880 rows on.
        con.execute("SET preserve_insertion_order = false")
        if store.path.stat().st_size < _SMALL_BYTES:
            con.execute("SET threads = 1")
        everything = attribution.begin(con, inputs, period, config.tz)
        _stage(con, config)
        price.warn_of_unlisted(con, config)
        attribution.stage(con, config.tz, everything=everything, seal_until_ms=seal_until_ms or 0)
        attribution.finish(con)


def check(config: Config, store: Store) -> list[StoreCheck]:
    """Check the store: pages, rules between rows, and the fingerprints of attributed days.

    Fingerprints are skipped if the attribution is not up to date or the store is read-only: computing them
    needs a write transaction, which is rolled back. If another process has the store open, that check is
    marked as not made.
    """
    from gpucost.store import upkeep

    with store.read() as con:
        checks = list(upkeep.check(con))
        is_current = attribution.is_current(con, inputs_of(config), None)
    if is_current and os.access(store.path, os.W_OK):
        what = "attributed days match the data in the store"
        try:
            with store.write() as con:
                con.execute("SET preserve_insertion_order = false")
                _stage(con, config)
                days = attribution.days_of_other_inputs(con, config.tz)
                con.rollback()
                con.begin()
        except StoreError as error:
            return [*checks, upkeep.StoreCheck(what, 0, error.message, is_made=False)]
        first = from_ms(days[0]).astimezone(config.tz).date().isoformat() if days else None
        checks.append(upkeep.StoreCheck(what, len(days), first))
    return checks


def compact(config: Config, store: Store, now: datetime) -> tuple[int, int]:
    """Drop the samples that `[store] raw_retention_days` expires, and rewrite the store.

    Returns its size in bytes before and after. Raises StoreError if the store is missing or the disk lacks
    space for a copy.
    """
    from gpucost.store.upkeep import rewrite

    before = store.info().size
    if days := config.store_settings.raw_retention_days:
        today = now.astimezone(config.tz).date()
        _attribute(
            config,
            store,
            inputs_of(config),
            None,
            to_ms(local_midnight(today - timedelta(days=days), config.tz)),
        )
    rewrite(store)
    return before, store.info().size


def compact_closed_month(config: Config, store: Store, now: datetime) -> tuple[int, int] | None:
    """Compact a large store once a month, after a month has closed; None if not due."""
    from gpucost.store.upkeep import is_due

    month = month_period(now.astimezone(config.tz).date(), config.tz)
    return compact(config, store, now) if is_due(store, month.start_ms) else None


def read_attributed(
    config: Config,
    store: Store,
    read: Callable[[DuckDBPyConnection], T],
    period: Period | None = None,
    *folders: Path,
) -> T:
    """Call `read` on the store after attributing it with this configuration, cut at the ends of `period`.

    `read` may write to `folders`. Raises StoreError if other runs keep attributing the store with another
    configuration.
    """
    inputs = inputs_of(config)
    for _ in range(_ATTEMPTS):
        with store.read(*folders) as con:
            # Another process may have attributed it since with another configuration.
            if attribution.is_current(con, inputs, period):
                return read(con)
        _attribute(config, store, inputs, period)
    raise StoreError(
        f"other runs keep attributing {store.path} with another configuration",
        "use a separate store per configuration, or wait for the other runs",
    )


# Raise a stage's number if it computes other figures from the same inputs. Then it runs again, and days with
# changed inputs are attributed again; after a change of attribution itself, all days.
ALGORITHM = {"inventory": 5, "price": 4, "attribute": 4}
# Settings that cut days and interpret activity. For other settings, the fingerprints show which days change.
_OWN = {"timezone", "idle", "activity", "mig", "hami"}
# Settings among these that only reports read.
_SHOWN: dict[str, Any] = {"activity": {"memory"}, "idle": {"min_measured"}, "teams": {"__all__": {"parent"}}}
_DECISIVE = _OWN | {"currency", "coverage", "clusters", "hosts", "team_labels", "teams", "workload_types"}


def inputs_of(config: Config) -> attribution.InputDigests:
    """Digests of everything except the collected data that determines the figures."""
    own_texts = [str(ALGORITHM["attribute"]), config.model_dump_json(include=_OWN, exclude=_SHOWN)]
    parts = [
        *own_texts,
        str(ALGORITHM),
        # the loads show other changes of the collected data
        config.model_dump_json(include=_DECISIVE, exclude=_SHOWN),
        f"{config.slurm.charge_reservations} {config.slurm.in_kubernetes}",
        # without it, earlier figures stay valid
        *filter(None, [config.labels.user]),
        # the clusters that should report
        *(f"{source.source} {source.cluster}" for source in config.prometheus),
        price.inputs_digest(config),
        catalog.catalog_digest(),
    ]
    return attribution.InputDigests(
        *(hashlib.sha256("\n".join(texts).encode()).hexdigest() for texts in (parts, own_texts))
    )
