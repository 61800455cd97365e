"""The sentence on the bill that stands in a month's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.report import Query, ReportView
    from gpucost.store import Store


def reconciled(settings: Config, store: Store, query: Query, view: ReportView) -> ReportView:
    """`view`, saying where the month's bill went; as it is where no bill prices it, or it is of a part of a month or fleet.

    No word either where machines that no metrics saw are billed in a currency without a rate: `gpucost reconcile` says so.
    """
    from dataclasses import replace

    from gpucost import pipeline
    from gpucost.errors import IncompleteError, PriceError
    from gpucost.timeline import is_month

    is_billed = any(source.name == "bill" for source in view.coverage.price_sources)
    if not is_billed or query.is_narrowed or query.clusters or not is_month(query.period, settings.tz):
        return view
    month = f"{query.period.start.astimezone(settings.tz):%Y-%m}"
    try:
        sentence = pipeline.reconcile(settings, store, month).sentence
    except (IncompleteError, PriceError):
        return view
    return replace(view, coverage=replace(view.coverage, reconciliation=sentence))
