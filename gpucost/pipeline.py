"""The whole story on one page: collect -> store -> inventory -> price -> attribute -> report."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from gpucost import __version__, catalog, inventory, price
from gpucost import attribute as attribution
from gpucost.attribute import state
from gpucost.errors import GpucostError, SourceError, StoreError

if TYPE_CHECKING:
    from gpucost.collect.base import Progress
    from gpucost.collect.result import CollectResult
    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.report.query import Query
    from gpucost.report.view import ReportView
    from gpucost.store import Store

_ATTEMPTS = 5


def collect(
    config: Config, store: Store, period: Period | None, progress: Progress | None = None
) -> tuple[list[CollectResult], list[GpucostError]]:
    """Pull metrics from every configured Prometheus into the store: what each run came to, and the servers that gave none.

    A server that fails does not keep the others from being collected.
    """
    from gpucost.collect.prometheus import collect_prometheus

    results: list[CollectResult] = []
    errors: list[GpucostError] = []
    for source in config.prometheus:
        try:
            results.append(collect_prometheus(source, store, period, config.activity, config.idle, progress, timezone=config.tz))
        except SourceError as error:
            errors.append(error)
    return results, errors


def report(config: Config, store: Store, query: Query) -> ReportView:
    """The report that `query` asks for, from an attribution that is up to date."""
    from gpucost.report import build

    inputs = _inputs_digest(config)
    for _ in range(_ATTEMPTS):
        attribute(config, store, query.period)
        with store.read() as con:
            # Between the two, another process may have attributed with another configuration.
            if state.is_current(con, inputs, query.period):
                return build(con, config, query)
    raise StoreError(
        f"other runs keep attributing {store.path} with another configuration",
        "give each configuration a store of its own, or let the other runs end",
    )


def attribute(config: Config, store: Store, period: Period | None = None) -> None:
    """Bring the attributed tables up to date with what was collected, the prices and the configuration.

    Cheap when nothing changed; only local days whose inputs changed are attributed again. Cells are cut at the ends of
    `period`, so that a report on it is exact.
    """
    inputs = _inputs_digest(config)
    with store.read() as con:
        if state.is_current(con, inputs, period):
            return
    with store.write() as con:
        if state.is_current(con, inputs, period):
            return
        everything = state.begin(con, inputs, period)
        inventory.stage(con, config)
        price.stage(con, config)
        attribution.stage(con, config.tz, everything=everything)
        state.finish(con)


def _inputs_digest(config: Config) -> str:
    """A digest of all that decides the figures besides what was collected."""
    parts = [
        __version__,
        config.timezone,
        config.currency,
        *(section.model_dump_json() for section in (config.idle, config.activity, config.mig, config.team_labels, *config.teams)),
        price.book_digest(config),
        catalog.catalog_digest(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
