"""Reports of an attributed store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpucost import price
from gpucost.errors import NoDataError
from gpucost.periods import Period, is_month, name_of, previous_month
from gpucost.pipeline import read_attributed
from gpucost.questions.report.build import build
from gpucost.questions.report.headline import headline, total_cost
from gpucost.questions.report.query import Query

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.render.view import ReportView
    from gpucost.store.connection import Store


def report(config: Config, store: Store, query: Query) -> ReportView:
    """The report for `query`. With sections, its headline has the change since the previous period."""
    view = read_attributed(config, store, lambda con: report_of(con, config, query), query.period)
    return _with_change(config, store, query, view) if query.with_sections else view


def _with_change(config: Config, store: Store, query: Query, view: ReportView) -> ReportView:
    """Add the change since the previous period to the headline, if both were collected in full.

    A month is compared with the month before. Other periods are compared with as many local days before them.
    """
    if not view.coverage.is_whole:
        return view
    tz, name = config.tz, "the period before"
    start, end = (moment.astimezone(tz) for moment in (query.period.start, query.period.end))
    period = Period(start - (end - start), start)  # local time: as many days
    if is_month(query.period, tz):
        period = previous_month(start, tz)
        name = name_of(period, tz).removesuffix(f" {start.year}")
    before = replace(
        query,
        period=period,
        by=(),
        with_sections=False,
        with_series=False,
        may_be_absent=True,
        share_unallocated=None,
    )
    try:
        earlier = report(config, store, before)
    except NoDataError:
        return view
    if not earlier.coverage.is_whole:
        return view
    return replace(view, headline=headline(config, query, view, (name, total_cost(earlier))))


def report_of(con: DuckDBPyConnection, config: Config, query: Query) -> ReportView:
    """The report from an open attributed store."""
    load_rates(con, config, query)
    return build(con, config, query)


def load_rates(con: DuckDBPyConnection, config: Config, query: Query) -> None:
    """Load exchange rates if costs are shared: bills may have to be converted."""
    if config.shared_costs or query.share_unallocated:
        price.load_fx_rates(con, config)
