"""Reports of an attributed store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpucost.errors import GpucostError, StoreError
from gpucost.pipeline import read_attributed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.questions.report.query import Query
    from gpucost.render.view import ReportView
    from gpucost.store.connection import Store


def report(
    config: Config, store: Store, query: Query, earlier: ReportView | None = None, earlier_name: str = ""
) -> ReportView:
    """The report that `query` asks for; with `earlier`, how it changed since (compared_report asks for both)."""
    return read_attributed(
        config, store, lambda con: report_of(con, config, query, earlier, earlier_name), query.period
    )


def report_of(
    con: DuckDBPyConnection,
    config: Config,
    query: Query,
    earlier: ReportView | None = None,
    earlier_name: str = "",
) -> ReportView:
    """The report of an attributed store that is open."""
    from gpucost.questions.report.build import build

    load_rates(con, config, query)
    return build(con, config, query, earlier, earlier_name)


def load_rates(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Rates of exchange, where anything is shared: what bills say of it may have to be converted."""
    from gpucost import price

    if config.shared_costs or query.share_unallocated:
        price.load_fx_rates(con, config)


def compared_report(config: Config, store: Store, query: Query) -> ReportView:
    """The report that `query` asks for, and how it changed since the period before it, as long.

    Raises GpucostError where that period holds no data.
    """
    from gpucost.periods import name_of
    from gpucost.questions.report.changes import previous_period
    from gpucost.questions.report.query import newest_data

    with store.read() as con:
        newest = newest_data(con)
    period = previous_period(query.period, newest or query.period.end_ms, config.tz)
    name = name_of(period, config.tz)
    before = replace(
        query,
        period=period,
        period_name=name,
        with_sections=False,
        with_series=False,
        may_be_absent=True,
        by=query.dimensions,
    )
    try:
        earlier = report(config, store, before)
    except StoreError:
        raise
    except GpucostError as error:
        raise GpucostError(
            f"there is nothing to compare with: {error.message}", "leave out --compare"
        ) from None
    return report(config, store, query, earlier, name)
