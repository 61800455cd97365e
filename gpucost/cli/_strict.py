"""--strict: a report on a period that was not collected in full ends with exit code 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import IncompleteError

if TYPE_CHECKING:
    from gpucost.report import Query, ReportView


def check_complete(view: ReportView, query: Query) -> None:
    """Raises IncompleteError where a part of the report's period is still to come, or was not collected and not signed."""
    from gpucost.report.words import missing_text

    if view.coverage.is_complete:
        return
    missing = missing_text(view.coverage.gaps)
    if missing is None:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final", "leave out --strict for a report so far"
        )
    raise IncompleteError(
        f"{query.period_name} is incomplete: {missing}",
        next((notice.fix for notice in view.coverage.warnings if notice.code == "not_collected"), "gpucost collect prometheus"),
    )
