"""Two reports of one store: a report beside the period before it, and what changed from one period to another and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.errors import GpucostError, StoreError

if TYPE_CHECKING:
    from gpucost.config.model import Config
    from gpucost.render.view import ReportView
    from gpucost.report.diff import Diff
    from gpucost.report.query import Query
    from gpucost.store.connection import Store


def compared_report(config: Config, store: Store, query: Query) -> ReportView:
    """The report that `query` asks for, and how it changed since the period before it, as long.

    Raises GpucostError where that period holds no data.
    """
    from gpucost.periods import name_of
    from gpucost.report.changes import previous_period
    from gpucost.report.query import newest_data

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
        earlier = pipeline.report(config, store, before)
    except StoreError:
        raise
    except GpucostError as error:
        raise GpucostError(
            f"there is nothing to compare with: {error.message}", "leave out --compare"
        ) from None
    return pipeline.report(config, store, query, earlier, name)


def compare(
    config: Config, store: Store, before: Query, after: Query, by: tuple[str, ...]
) -> tuple[ReportView, Diff]:
    """The later period's report, and what changed between the two and why, in rows by `by` (of gpucost.diff.CELL).

    What was not collected of the earlier period is among the report's warnings, too.
    """
    from gpucost.report.changes import missed_before
    from gpucost.report.diff import CELL, diff

    first, second = (
        pipeline.report(config, store, replace(query, by=CELL, with_sections=False, may_be_absent=True))
        for query in (before, after)
    )
    if not first.rows and not second.rows:
        pipeline.report(config, store, after)  # says what there is of that name
    missed = missed_before(first, before.period_name)
    shown = replace(second, coverage=replace(second.coverage, warnings=(*second.coverage.warnings, *missed)))
    return shown, diff(
        first, second, by, (before.period_name, after.period_name), after.now or datetime.now(UTC)
    )
