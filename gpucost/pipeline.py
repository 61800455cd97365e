"""The whole story on one page: collect -> store -> inventory -> price -> attribute -> report."""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from gpucost import attribute as attribution
from gpucost import catalog, price
from gpucost.errors import GpucostError, SourceError, StoreError
from gpucost.periods import from_ms, local_midnight, month_period, to_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.collect.base import CollectResult, Progress
    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.store.connection import Store
    from gpucost.store.upkeep import Check

_ATTEMPTS = 5
T = TypeVar("T")


def collect(
    config: Config, store: Store, period: Period | None, progress: Progress | None = None
) -> tuple[list[CollectResult], list[GpucostError]]:
    """Pull metrics from every configured Prometheus into the store: what each run came to, and the servers that gave none.

    A server that fails does not keep the others from being collected.
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
            # Bills tell of coverage, too: what is stored of it is made with the prices.
            con.rollback()
            con.begin()
    return results, errors


def attribute(config: Config, store: Store, period: Period | None = None) -> None:
    """Bring the attributed tables up to date with what was collected, the prices and the configuration.

    Cheap when nothing changed; only local days whose inputs changed are attributed again. Cells are cut at the ends of
    `period`, so that a report on it is exact.
    """
    inputs = inputs_of(config)
    with store.read() as con:
        if attribution.is_current(con, inputs, period):
            return
    _attribute(config, store, inputs, period)


def _stage(con: DuckDBPyConnection, config: Config) -> None:
    """What there was, and what it costs an hour: all that attribution expects."""
    from gpucost import inventory
    from gpucost.collect.prometheus.queries import stored_needs

    inventory.stage(con, config, stored_needs(config.activity))
    price.stage(con, config)


def _attribute(
    config: Config,
    store: Store,
    inputs: attribution.Inputs,
    period: Period | None,
    seal_until_ms: int | None = None,
) -> None:
    with store.write() as con:
        if seal_until_ms is None and attribution.is_current(con, inputs, period):
            return
        # The order of rows in tables means nothing here. And where it is kept, DuckDB 2.0 does not see in a transaction what
        # was inserted in it into a table that was empty, from 122,880 rows on.
        con.execute("SET preserve_insertion_order = false")
        everything = attribution.begin(con, inputs, period, config.tz)
        _stage(con, config)
        price.warn_of_unlisted(con, config)
        attribution.stage(con, config.tz, everything=everything, seal_until_ms=seal_until_ms or 0)
        attribution.finish(con)


def check(config: Config, store: Store) -> list[Check]:
    """What was looked at in the store, all of it: pages, what has to hold between rows, and the fingerprints of attributed days.

    Of these nothing is said where the attribution is not up to date, or the store cannot be written to: they are made as
    attribution makes them, and then forgotten. Where somebody else has the store open, a check says that it was not made.
    """
    from gpucost.store import upkeep

    with store.read() as con:
        checks = list(upkeep.check(con))
        is_current = attribution.is_current(con, inputs_of(config), None)
    if is_current and os.access(store.path, os.W_OK):
        what = "days were attributed from what the store holds"
        try:
            with store.write() as con:
                con.execute("SET preserve_insertion_order = false")
                _stage(con, config)
                days = attribution.days_of_other_inputs(con, config.tz)
                con.rollback()
                con.begin()
        except StoreError as error:
            return [*checks, upkeep.Check(what, 0, error.message, is_made=False)]
        first = from_ms(days[0]).astimezone(config.tz).date().isoformat() if days else None
        checks.append(upkeep.Check(what, len(days), first))
    return checks


def compact(config: Config, store: Store, now: datetime) -> tuple[int, int]:
    """Drop what `[store] raw_retention_days` lets go, and write the store anew; its size in bytes before and after.

    Raises StoreError where there is no store, or no room beside it.
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
    """Compacts a large store once a month, when one has closed, as `compact` does; None where that is not due."""
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
    """What `read` makes of the store once it is attributed with this configuration, cut at the ends of `period`.

    `read` may write to `folders`. Raises StoreError where others keep attributing it otherwise.
    """
    inputs = inputs_of(config)
    for _ in range(_ATTEMPTS):
        with store.read(*folders) as con:
            # After this process attributed it, another may have done so with another configuration.
            if attribution.is_current(con, inputs, period):
                return read(con)
        _attribute(config, store, inputs, period)
    raise StoreError(
        f"other runs keep attributing {store.path} with another configuration",
        "give each configuration a store of its own, or let the other runs end",
    )


# The number of a stage rises when it makes other figures of the same inputs than before: then it is run again, and days are
# attributed anew whose inputs differ; after a change of attribution itself all of them.
ALGORITHM = {"inventory": 5, "price": 4, "attribute": 3}
# What days are cut by, and how activity is read; of other settings the days that they change tell.
_OWN = {"timezone", "idle", "activity", "mig", "hami"}
# Of these, what only reports read.
_SHOWN = {"activity": {"memory"}, "idle": {"min_measured"}}
_DECISIVE = _OWN | {"currency", "coverage", "clusters", "hosts", "team_labels", "teams", "workload_types"}


def inputs_of(config: Config) -> attribution.Inputs:
    """Digests of all that decides the figures besides what was collected."""
    own = [str(ALGORITHM["attribute"]), config.model_dump_json(include=_OWN, exclude=_SHOWN)]
    parts = [
        *own,
        str(ALGORITHM),
        # of what is collected the rest shows in the loads
        config.model_dump_json(include=_DECISIVE, exclude=_SHOWN),
        f"{config.slurm.charge_reservations} {config.slurm.in_kubernetes}",
        # which clusters should be there
        *(f"{source.source} {source.cluster}" for source in config.prometheus),
        price.inputs_digest(config),
        catalog.catalog_digest(),
    ]
    return attribution.Inputs(*(hashlib.sha256("\n".join(one).encode()).hexdigest() for one in (parts, own)))
