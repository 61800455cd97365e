"""The sentence on the bill that stands in a month's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.report import Query, ReportView
    from gpucost.store import Store


def reconciled(settings: Config, store: Store, query: Query, view: ReportView) -> str | None:
    """Where the bill of the report's month went; None where no bill prices it, or it is of a part of a month or fleet."""
    from gpucost import pipeline
    from gpucost.errors import IncompleteError
    from gpucost.timeline import is_month

    is_billed = any(source.name == "bill" for source in view.coverage.price_sources)
    if not is_billed or query.is_narrowed or query.clusters or not is_month(query.period, settings.tz):
        return None
    month = f"{query.period.start.astimezone(settings.tz):%Y-%m}"
    try:
        account = pipeline.reconcile(settings, store, month)
    except IncompleteError:
        return None
    from gpucost.reconcile.view import CENT, LINES
    from gpucost.report.words import figure_text

    named = "; ".join(
        f"{figure_text(account.lines[line], 'money', account.currency, 2)} {words}"
        for line, words in LINES.items()
        if abs(account.lines[line]) >= CENT
    )
    whole = figure_text(account.effective_cost, "money", account.currency, 2)
    state = "final" if account.is_final else "not final yet"
    open_ends = "; ".join(account.problems) or "every cent is named"
    return f"{whole} on the bill of {month} ({state}) for {account.machines:,} GPU instances: {named}; {open_ends}"
