"""Reports of an attributed store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost import price
from gpucost.pipeline import read_attributed
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.render.view import ReportView
    from gpucost.store.connection import Store


def report(config: Config, store: Store, query: Query) -> ReportView:
    """The report for `query`."""
    return read_attributed(config, store, lambda con: report_of(con, config, query), query.period)


def report_of(con: DuckDBPyConnection, config: Config, query: Query) -> ReportView:
    """The report from an open attributed store."""
    load_rates(con, config, query)
    return build(con, config, query)


def load_rates(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Load exchange rates if costs are shared: bills may have to be converted."""
    if config.shared_costs or query.share_unallocated:
        price.load_fx_rates(con, config)
