"""The cost of GPUs, by team or by any other dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from gpucost.errors import IncompleteError, NoDataError, UsageError
from gpucost.options import Names, Option, count
from gpucost.questions.request import DIMENSION_NAMES, LabeledRequest, WorkloadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpucost.questions.report.query import Query
    from gpucost.render.view import ReportView

T = TypeVar("T")
# How to spread unallocated cost over the teams that used such GPUs.
Sharing = Literal["proportional", "even"]


def report(
    request: LabeledRequest,
    by: Annotated[
        Names,
        Option(
            f"Dimensions of the rows, any of {DIMENSION_NAMES}. Default: team; namespace if --team is set; "
            "workload if --namespace is set.",
            "A,B",
            completes="dimensions",
            is_split=True,
        ),
    ] = (),
    share_unallocated: Annotated[
        Sharing | None,
        Option(
            "Spread unallocated cost over the teams that used such GPUs in that cluster: by cost, or evenly."
        ),
    ] = None,
    top: Annotated[int, count("Number of top consumers to list.")] = 10,
    findings: Annotated[
        int,
        count(
            "Number of the most expensive findings to add to an HTML page. They take seconds to "
            "compute, longer on a large fleet."
        ),
    ] = 0,
    strict: Annotated[
        bool, Option("Exit with 4 after the report if its period was not collected in full.")
    ] = False,
) -> ReportView:
    """Show the cost of GPUs by team, with usage and idle time.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost report
      gpucost report --team research --month 2026-10
      gpucost report --last 7d --by team,gpu_model
      gpucost report --month 2026-10 --share-unallocated proportional
      gpucost report --month 2026-10 -o october.html
      gpucost report --month 2026-10 -o october.html --findings 10
      gpucost report --month 2026-10 --format markdown --brief
      gpucost report --month 2026-10 --format focus -o october-focus.csv
      gpucost report --namespace serving --by pod,day --format csv -o pods.csv
    """
    from gpucost.questions.report.reading import report as read_report

    if findings and request.format != "html":
        raise UsageError("--findings needs --format html", "run gpucost findings for every other format")
    request = replace(request, with_samples=request.format == "html")
    query = request.query(
        by=by,
        top=top,
        with_sections=request.format in ("table", "markdown", "html"),
        with_series=request.format == "html",
        share_unallocated=share_unallocated,
    )
    view = read_or_incomplete(
        request, query, lambda: read_report(request.settings, request.store, query), strict=strict
    )
    if request.format == "html":
        from gpucost.questions.report.page import page

        view = page(request.settings, request.store, query, view, findings)
    if request.is_flat:
        view = replace(view, notes=request.gap_notes(request.clusters))
    if strict and (missing := incomplete(request, query)):
        view = replace(view, errors=(missing,), exit_code=missing.exit_code)
    return view


def read_or_incomplete(request: WorkloadRequest, query: Query, read: Callable[[], T], *, strict: bool) -> T:
    """Return the result of `read`. If it finds no data for a period that must be complete, raise the reason."""
    try:
        return read()
    except NoDataError as error:
        if not strict or query.period.end > request.now:
            raise
        raise (incomplete(request, query) or error) from None


def incomplete(request: WorkloadRequest, query: Query) -> IncompleteError | None:
    """The error for an incomplete period: a gap that is not accepted, or a period that is not over."""
    from gpucost.questions.report.coverage import missed
    from gpucost.render.formatting import missing_text

    with request.store.read() as con:
        gaps, notices, is_running = missed(con, query.period, request.now, request.tz, query.clusters)
    if missing := missing_text(gaps):
        fix = notices[0].fix if notices else "gpucost collect prometheus"
        return IncompleteError(f"{query.period_name} is incomplete: {missing}", fix)
    if is_running:
        return IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final",
            "leave out --strict for a report so far",
        )
    return None
