"""Reports of an attributed store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpucost import price
from gpucost.errors import GpucostError, StoreError
from gpucost.periods import Period
from gpucost.pipeline import read_attributed
from gpucost.questions.report.build import build
from gpucost.questions.report.changes import previous_period
from gpucost.questions.report.query import Query, newest_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.render.view import ReportView
    from gpucost.store.connection import Store

T = TypeVar("T")


def report(config: Config, store: Store, query: Query) -> ReportView:
    """The report that `query` asks for."""
    return read_attributed(config, store, lambda con: report_of(con, config, query), query.period)


def report_of(con: DuckDBPyConnection, config: Config, query: Query) -> ReportView:
    """The report of an attributed store that is open."""
    load_rates(con, config, query)
    return build(con, config, query)


def load_rates(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Rates of exchange, where anything is shared: what bills say of it may have to be converted."""
    if config.shared_costs or query.share_unallocated:
        price.load_fx_rates(con, config)


def earlier(config: Config, store: Store, period: Period, read: Callable[[Period], T]) -> tuple[Period, T]:
    """The period before, as long, and what `read` makes of it. Raises GpucostError if there is no data of it."""
    with store.read() as con:
        newest = newest_data(con)
    before = previous_period(period, newest or period.end_ms, config.tz)
    try:
        return before, read(before)
    except StoreError:
        raise
    except GpucostError as error:
        raise GpucostError(
            f"there is nothing to compare with: {error.message}", "leave out --compare"
        ) from None
