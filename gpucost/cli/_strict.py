"""--strict: a report on a period that was not collected in full ends with exit code 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import IncompleteError

if TYPE_CHECKING:
    from gpucost.report import Query, ReportView


def check_complete(view: ReportView, query: Query) -> None:
    """Raises IncompleteError where a part of the report's period was not collected, or is still to come."""
    if view.coverage.is_complete:
        return
    gaps = view.coverage.not_collected
    if not gaps:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final", "leave out --strict for a report so far"
        )
    raise IncompleteError(
        f"{view.coverage.not_collected_hours:,.1f} h of {query.period_name} were not collected",
        next((notice.fix for notice in view.coverage.warnings if notice.code == "not_collected"), "gpucost collect prometheus"),
    )
