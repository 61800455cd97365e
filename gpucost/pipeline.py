"""The whole story on one page: collect -> store -> inventory -> price -> attribute -> report."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from gpucost import __version__, catalog, inventory, price
from gpucost import attribute as attribution
from gpucost.attribute import state
from gpucost.errors import GpucostError, SourceError, StoreError
from gpucost.model import MS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.chargeback import Ask, Bundle
    from gpucost.collect.base import Progress
    from gpucost.collect.result import CollectResult
    from gpucost.config import Config
    from gpucost.diff import Diff
    from gpucost.export.prices import RulePrices
    from gpucost.findings import Candidate
    from gpucost.focus import FocusTotals
    from gpucost.model import Period
    from gpucost.price.explain import NodePrice
    from gpucost.reconcile import Reconciliation
    from gpucost.report.explained import CostExplained
    from gpucost.report.query import Query
    from gpucost.report.view import ReportView
    from gpucost.store import Store
    from gpucost.store.table_files import FileKind
    from gpucost.units import UnitAsk, UnitView
    from gpucost.waste import Waste
    from gpucost.whatif.fleet import Costs, Fleet
    from gpucost.whatif.measured import Idle, Levels
    from gpucost.whatif.usage import Scope

_ATTEMPTS = 5
T = TypeVar("T")


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
            results.append(
                collect_prometheus(
                    source,
                    store,
                    period,
                    config.activity,
                    config.idle,
                    progress,
                    timezone=config.tz,
                    cost_basis=config.prices.cost_basis,
                )
            )
        except SourceError as error:
            errors.append(error)
    return results, errors


def uncollected(config: Config, store: Store, period: Period) -> dict[str, list[Period]]:
    """By the name of each configured Prometheus, what of `period` was never collected from it, with an overlap for late data."""
    from gpucost.collect.windows import OVERLAP_MS, subtract
    from gpucost.model import Period, from_ms
    from gpucost.store import runs

    wanted = [(period.start_ms, period.end_ms)]
    found: dict[str, list[Period]] = {}
    for source in config.prometheus:
        had: list[runs.Span] = []
        if store.exists:
            with store.read() as con:
                had = runs.loaded(con, "prometheus", source.source)
        found[source.source] = [
            Period(from_ms(max(period.start_ms, start - OVERLAP_MS)), from_ms(end)) for start, end in subtract(wanted, had)
        ]
    return found


def report(config: Config, store: Store, query: Query, earlier: ReportView | None = None, earlier_name: str = "") -> ReportView:
    """The report that `query` asks for, from an attribution that is up to date; with `earlier`, how it changed since."""
    from gpucost.report import build

    def built(con: DuckDBPyConnection) -> ReportView:
        if config.shared_costs or query.share_unallocated:
            price.load_fx_rates(con, config)
        return build(con, config, query, earlier, earlier_name)

    return _from_attributed(config, store, query.period, built)


def compared_report(config: Config, store: Store, query: Query) -> ReportView:
    """The report that `query` asks for, and how it changed since the period before it, as long.

    Raises GpucostError where that period holds no data.
    """
    from gpucost.report.changes import previous_period
    from gpucost.timeline import name_of

    with store.read() as con:
        newest = con.execute("SELECT max(to_ms) FROM loads WHERE kind = 'prometheus' AND rows > 0").fetchall()[0][0]
    period = previous_period(query.period, newest or query.period.end_ms, config.tz)
    name = name_of(period, config.tz)
    before = replace(
        query, period=period, period_name=name, with_sections=False, with_series=False, may_be_absent=True, by=query.dimensions
    )
    try:
        earlier = report(config, store, before)
    except StoreError:
        raise
    except GpucostError as error:
        raise GpucostError(f"there is nothing to compare with: {error.message}", "leave out --compare") from None
    return report(config, store, query, earlier, name)


def compare(config: Config, store: Store, before: Query, after: Query, by: tuple[str, ...]) -> tuple[ReportView, Diff]:
    """The later period's report, and what changed between the two and why, in rows by `by` (of gpucost.diff.CELL)."""
    from gpucost.diff import CELL, diff

    first, second = (
        report(config, store, replace(query, by=CELL, with_sections=False, may_be_absent=True)) for query in (before, after)
    )
    if not first.rows and not second.rows:
        report(config, store, after)  # says what there is of that name
    return second, diff(first, second, by, (before.period_name, after.period_name))


def _from_attributed(config: Config, store: Store, period: Period, read: Callable[[DuckDBPyConnection], T]) -> T:
    """What `read` makes of the store once it is attributed with this configuration, cut at the ends of `period`."""
    inputs = _inputs_digest(config)
    for _ in range(_ATTEMPTS):
        attribute(config, store, period)
        with store.read() as con:
            # Between the two, another process may have attributed with another configuration.
            if state.is_current(con, inputs, period):
                return read(con)
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


def waste_report(
    config: Config, store: Store, query: Query, workloads: tuple[str, ...] = (), top: int = 10
) -> tuple[ReportView, Waste]:
    """The report that `query` asks for, and the anatomy of waste by the same filters, of `workloads` where any are named."""
    from gpucost.report import build
    from gpucost.report.slots import slots
    from gpucost.waste import Filters
    from gpucost.waste import build as dissect

    filters = Filters(teams=query.teams, namespaces=query.namespaces, clusters=query.clusters, workloads=workloads)

    def built(con: DuckDBPyConnection) -> tuple[ReportView, Waste]:
        if config.shared_costs or query.share_unallocated:
            price.load_fx_rates(con, config)
        view = build(con, config, query)
        return view, dissect(con, config, query.period, slots(query.period, config.tz, query.by), query.by, filters, top)

    return _from_attributed(config, store, query.period, built)


def candidates(config: Config, store: Store, period: Period) -> list[Candidate]:
    """Where money may be saved in `period`, with the what-ifs that say how much (gpucost.savings asks them)."""
    from gpucost.findings import candidates as found
    from gpucost.report.slots import slots
    from gpucost.waste import Filters
    from gpucost.waste.build import prepare

    def built(con: DuckDBPyConnection) -> list[Candidate]:
        prepare(con, config, period, slots(period, config.tz, ()), Filters())
        return found(con, config, period)

    return _from_attributed(config, store, period, built)


def explain_node(config: Config, store: Store, name: str, at: datetime | None, cluster: str | None) -> NodePrice:
    """Why a node costs what it does at a moment, as `price.explain.explain_node` tells."""
    from gpucost.price.explain import explain_node as explain

    attribute(config, store)
    with store.read() as con:
        return explain(con, config, name, at, cluster)


def explain_cost(config: Config, store: Store, query: Query, most_rows: int, workloads: tuple[str, ...] = ()) -> CostExplained:
    """Where the cost of the query's teams and namespaces comes from, of `workloads` where any are named.

    With the first `most_rows` of each machine's charges.
    """
    from gpucost.report.explained import explain_cost as explain

    return _from_attributed(config, store, query.period, lambda con: explain(con, config, query, most_rows, workloads))


def reconcile(config: Config, store: Store, month: str, by: tuple[str, ...] = ()) -> Reconciliation:
    """Where the bill of `month` (`2026-10`) went. Raises IncompleteError where no bill of it was collected."""
    from gpucost.reconcile import reconcile as account

    attribute(config, store)
    with store.read() as con:
        return account(con, month, config.currency, by)


def chargeback(config: Config, store: Store, ask: Ask, folder: Path, tell: Callable[[str], None] = lambda _: None) -> Bundle:
    """The bundle of a month; its FOCUS files are written to `folder`. Raises GpucostError where the month holds no data."""
    from gpucost.chargeback import build

    def built(con: DuckDBPyConnection) -> Bundle:
        if config.shared_costs or ask.share_unallocated:
            price.load_fx_rates(con, config)
        return build(con, config, ask, folder, tell)

    return _from_attributed(config, store, ask.period, built)


def focus_file(config: Config, store: Store, month: str, version: str, kind: FileKind, path: Path) -> FocusTotals:
    """Writes the bill of `month` (`2026-10`), split among those who held its machines, as a FOCUS file.

    Raises GpucostError where neither a bill nor metrics tell of any cost of that month.
    """
    from gpucost import focus

    attribute(config, store)
    with store.read() as con:
        totals = focus.prepare(con, month, config.currency)
        if not totals.billed_rows + totals.estimated_rows:
            raise GpucostError(f"nothing of {month} costs anything", "gpucost store info says what was collected of which months")
        focus.save(con, version, kind, path)
    return totals


def rule_prices(config: Config, store: Store) -> RulePrices:
    """What nodes cost an hour, for rules that cannot ask the store: what it says last, else, or without one, the catalog."""
    from gpucost.export.prices import listed_prices, stored_prices
    from gpucost.store.scratch import scratch_store

    if store.exists:
        attribute(config, store)
        with store.read() as con:
            if (found := stored_prices(con)) is not None:
                return found
    with scratch_store() as con:
        return listed_prices(con, config.currency)


def unit_costs(config: Config, store: Store, ask: UnitAsk, build: Callable[[DuckDBPyConnection, UnitAsk], UnitView]) -> UnitView:
    """What a unit of work cost, as `build` (one of gpucost.units) tells, from an attribution that is up to date."""
    return _from_attributed(config, store, ask.period, lambda con: build(con, ask))


def usage(config: Config, store: Store, period: Period, scope: Scope) -> Fleet:
    """What was used in `period` by whom `scope` names, as a fleet that scenarios edit.

    Raises GpucostError where there is nothing.
    """
    from gpucost.store.usage import read_usage
    from gpucost.whatif.usage import fleet_of

    attribute(config, store)
    with store.read() as con:
        rows = read_usage(
            con,
            period.start_ms,
            period.end_ms,
            teams=scope.teams,
            namespaces=scope.namespaces,
            workloads=scope.workloads,
            clusters=scope.clusters,
        )
    if not rows.nodes:
        raise GpucostError(f"nothing in {period} was used by {scope}", "gpucost report --last 30d shows who used what")
    return fleet_of(rows.nodes, rows.prices, rows.pods)


def idle_stretches(config: Config, store: Store, period: Period, at_least_ms: int) -> Idle:
    """When pods of `period` were idle for `at_least_ms` or more, all their GPUs alike; of what `usage` has attributed."""
    from gpucost.store.activity import read_idle
    from gpucost.whatif.measured import idle_of

    with store.read() as con:
        return idle_of(read_idle(con, config.activity, period, at_least_ms))


def levels(config: Config, store: Store, period: Period) -> Levels:
    """How busy and how full the GPUs of each measured pod of `period` were; of what `usage` has attributed."""
    from gpucost.store.activity import read_levels
    from gpucost.whatif.measured import levels_of

    with store.read() as con:
        return levels_of(read_levels(con, config.activity, period))


def cost_of(config: Config, fleet: Fleet) -> Costs:
    """What a described fleet costs: the attribution stages run on it, in memory."""
    from gpucost.store.fleets import fleet_costs, put_fleet
    from gpucost.store.scratch import scratch_store
    from gpucost.whatif.fleet import Costs
    from gpucost.whatif.tables import tables

    with scratch_store() as con:
        # On an empty store inventory finds nothing, and leaves the tables that attribution reads.
        inventory.stage(con, config)
        put_fleet(con, tables(fleet))
        attribution.stage(con, config.tz, everything=True)
        (node_cost, cost, unallocated, offered_ms, held_ms, node_ms), rows = fleet_costs(con)
    by_team: dict[str, Decimal] = {}
    for team, *_, amount in rows:
        by_team[team] = by_team.get(team, Decimal(0)) + amount
    return Costs(
        node_cost=Decimal(node_cost),
        cost=Decimal(cost),
        unallocated_cost=Decimal(unallocated),
        gpu_hours=round(offered_ms / MS_PER_HOUR, 9),
        allocated_gpu_hours=round(held_ms / MS_PER_HOUR, 9),
        node_hours=round(node_ms / MS_PER_HOUR, 9),
        by_team=by_team,
        by_workload={(cluster, namespace, workload): amount for _, cluster, namespace, workload, amount in rows},
    )


def _inputs_digest(config: Config) -> str:
    """A digest of all that decides the figures besides what was collected."""
    sections = (config.idle, config.mig, config.team_labels, *config.teams, *config.workload_types)
    parts = [
        __version__,
        config.timezone,
        config.currency,
        # what is collected shows in the loads
        config.activity.model_dump_json(exclude={"memory"}),
        *(section.model_dump_json() for section in sections),
        price.inputs_digest(config),
        catalog.catalog_digest(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
