"""The whole story on one page: collect -> store -> inventory -> price -> attribute -> report."""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from gpucost import attribute as attribution
from gpucost import catalog, price
from gpucost.errors import GpucostError, NoDataError, SourceError, StoreError
from gpucost.periods import from_ms, local_midnight, month_period, to_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.collect.base import CollectResult, Progress
    from gpucost.config.model import Config
    from gpucost.findings import Candidate
    from gpucost.periods import Period
    from gpucost.policy import PolicyAnswer, Rule
    from gpucost.price.explain import NodePriceRow
    from gpucost.publish.chargeback import Bundle, ChargebackQuery
    from gpucost.publish.focus import FocusTotals
    from gpucost.publish.rules import RulePrices
    from gpucost.render.view import ReportView, Table
    from gpucost.report.explained import CostExplained
    from gpucost.report.query import Query
    from gpucost.report.reconcile import Reconciliation
    from gpucost.report.units.query import UnitQuery, UnitView
    from gpucost.report.waste import Waste
    from gpucost.store.connection import Store
    from gpucost.store.table_files import FileKind
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
            result = collect_prometheus(
                source, store, period, config.activity, config.idle, progress,
                timezone=config.tz, cost_basis=config.prices.cost_basis, has_hosts=bool(config.hosts),
            )  # fmt: skip
            results.append(result)
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
            days = _days_of_other_inputs(config, store)
        except StoreError as error:
            return [*checks, upkeep.Check(what, 0, error.message, is_made=False)]
        first = from_ms(days[0]).astimezone(config.tz).date().isoformat() if days else None
        checks.append(upkeep.Check(what, len(days), first))
    return checks


def _days_of_other_inputs(config: Config, store: Store) -> list[int]:
    with store.write() as con:
        con.execute("SET preserve_insertion_order = false")
        _stage(con, config)
        days = attribution.days_of_other_inputs(con, config.tz)
        con.rollback()
        con.begin()
    return days


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


def report(
    config: Config, store: Store, query: Query, earlier: ReportView | None = None, earlier_name: str = ""
) -> ReportView:
    """The report that `query` asks for; with `earlier`, how it changed since (gpucost.comparisons asks for both)."""
    return read_attributed(
        config, store, lambda con: _report(con, config, query, earlier, earlier_name), query.period
    )


def _report(
    con: DuckDBPyConnection,
    config: Config,
    query: Query,
    earlier: ReportView | None = None,
    earlier_name: str = "",
) -> ReportView:
    from gpucost.report import build

    _load_rates(con, config, query)
    return build(con, config, query, earlier, earlier_name)


def _load_rates(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Rates of exchange, where anything is shared: what bills say of it may have to be converted."""
    if config.shared_costs or query.share_unallocated:
        price.load_fx_rates(con, config)


def _waste(
    con: DuckDBPyConnection,
    config: Config,
    query: Query,
    by: tuple[str, ...],
    top: int,
    workloads: tuple[str, ...] = (),
) -> Waste:
    from gpucost.periods import time_buckets
    from gpucost.report.waste import Filters, build

    filters = Filters(query.teams, query.namespaces, query.clusters, workloads)
    return build(con, config, query.period, time_buckets(query.period, config.tz, by), by, filters, top)


# What else is read from the attributed store, each by its own stage.


def waste_report(
    config: Config, store: Store, query: Query, workloads: tuple[str, ...] = (), top: int = 10
) -> tuple[ReportView, Waste]:
    """The report that `query` asks for, and the anatomy of waste by the same filters, of `workloads` where any are named."""

    def read(con: DuckDBPyConnection) -> tuple[ReportView, Waste]:
        return _report(con, config, query), _waste(con, config, query, query.by, top, workloads)

    return read_attributed(config, store, read, query.period)


def page_facts(config: Config, store: Store, query: Query) -> tuple[Table, Waste, tuple[UnitView, ...]]:
    """What stands beside a report on its page, by the same filters: every workload, the anatomy of waste, and unit costs."""
    from gpucost.report import workload_tables
    from gpucost.report.units import known
    from gpucost.report.units.query import UnitQuery

    filters = {"teams": query.teams, "namespaces": query.namespaces, "clusters": query.clusters}
    ask = UnitQuery.of(config, query.period, query.period_name, **filters)

    def read(con: DuckDBPyConnection) -> tuple[Table, Waste, tuple[UnitView, ...]]:
        _load_rates(con, config, query)
        return (
            workload_tables(con, config, query)[None],
            _waste(con, config, query, (), top=0),
            known(con, ask),
        )

    return read_attributed(config, store, read, query.period)


def candidates(config: Config, store: Store, period: Period) -> list[Candidate]:
    """Where money may be saved in `period`, with the what-ifs that say how much (gpucost.savings asks them)."""
    from gpucost.findings import candidates as found
    from gpucost.periods import time_buckets
    from gpucost.report.waste import Filters, prepare

    def built(con: DuckDBPyConnection) -> list[Candidate]:
        prepare(con, config, period, time_buckets(period, config.tz, ()), Filters())
        return found(con, config, period)

    return read_attributed(config, store, built, period)


def policy(config: Config, store: Store, query: Query, rules: Sequence[Rule]) -> PolicyAnswer:
    """How each of the rules stands in the query's period; the query asks by gpucost.policy.BY."""
    from gpucost.policy import check

    def checked(con: DuckDBPyConnection) -> PolicyAnswer:
        return check(con, config, query, _report(con, config, query), rules)

    return read_attributed(config, store, checked, query.period)


def explain_node(
    config: Config, store: Store, name: str, at: datetime | None, cluster: str | None
) -> NodePriceRow:
    """Why a node costs what it does at a moment, as `price.explain.explain_node` tells."""
    from gpucost.price.explain import explain_node as explain

    return read_attributed(config, store, lambda con: explain(con, config, name, at, cluster))


def explain_cost(
    config: Config, store: Store, query: Query, most_rows: int, workloads: tuple[str, ...] = ()
) -> CostExplained:
    """Where the cost of the query's teams and namespaces comes from, of `workloads` where any are named.

    With the first `most_rows` of each machine's charges.
    """
    from gpucost.report.explained import explain_cost as explain

    return read_attributed(
        config, store, lambda con: explain(con, config, query, most_rows, workloads), query.period
    )


def reconcile(config: Config, store: Store, month: str, by: tuple[str, ...] = ()) -> Reconciliation:
    """Where the bill of `month` (`2026-10`) went, and what metrics miss of it. Raises IncompleteError where no bill is there."""
    from dataclasses import replace
    from datetime import UTC, date, datetime
    from zoneinfo import ZoneInfo

    from gpucost.render.view import MissingTime
    from gpucost.report.coverage import gaps_of
    from gpucost.report.reconcile import reconcile as account

    def read(con: DuckDBPyConnection) -> Reconciliation:
        period = month_period(date.fromisoformat(f"{month}-01"), ZoneInfo("UTC"))
        gaps = gaps_of(con, period, datetime.now(UTC), config.tz)
        price.load_fx_rates(con, config)
        statement = account(con, month, config.currency, by)
        return replace(statement, not_collected=tuple(gap for gap in gaps if isinstance(gap, MissingTime)))

    return read_attributed(config, store, read)


def chargeback(
    config: Config,
    store: Store,
    ask: ChargebackQuery,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """The bundle of a month; its FOCUS files are written to `folder`. Raises GpucostError where the month holds no data."""
    from gpucost.publish.chargeback import build

    def built(con: DuckDBPyConnection) -> Bundle:
        price.load_fx_rates(con, config)
        return build(con, config, ask, folder, tell)

    return read_attributed(config, store, built, ask.period, folder)


def focus_file(
    config: Config, store: Store, month: str, version: str, kind: FileKind, path: Path
) -> FocusTotals:
    """Writes the bill of `month` (`2026-10`), split among those who held its machines, as a FOCUS file.

    Raises NoDataError where neither a bill nor metrics tell of any cost of that month.
    """
    from gpucost.publish import focus

    def written(con: DuckDBPyConnection) -> FocusTotals:
        totals = focus.prepare(con, config, month)
        if not totals.billed_rows + totals.estimated_rows:
            raise NoDataError(
                f"nothing of {month} costs anything",
                "gpucost store info says what was collected of which months",
            )
        focus.save(con, version, kind, path)
        return totals

    return read_attributed(config, store, written, None, path.parent)


def rule_prices(config: Config, store: Store) -> RulePrices:
    """What nodes cost an hour, for rules that cannot ask the store: what it says last, else list prices."""
    from gpucost.publish.rules import listed_prices, stored_prices
    from gpucost.store.connection import scratch_store

    if store.exists and (prices := read_attributed(config, store, stored_prices)) is not None:
        return prices
    with store.read() if store.exists else scratch_store() as con:
        return listed_prices(con, config)


def unit_costs(
    config: Config, store: Store, ask: UnitQuery, build: Callable[[DuckDBPyConnection, UnitQuery], UnitView]
) -> UnitView:
    """What a unit of work cost, as `build` (one of gpucost.report.units) tells, from an attribution that is up to date."""
    return read_attributed(config, store, lambda con: build(con, ask), ask.period)


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
