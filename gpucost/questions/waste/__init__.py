"""Wasted GPU time, by holder and kind."""

from dataclasses import replace
from typing import Annotated

from gpucost.config.model import Config
from gpucost.options import Names, Option, count
from gpucost.pipeline import read_attributed
from gpucost.questions.report import labels
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report_of
from gpucost.questions.report.rows import check_names
from gpucost.questions.request import DIMENSION_NAMES, LabeledRequest
from gpucost.questions.waste.anatomy import BY_NAME, Waste, WasteAnswer, build
from gpucost.records import DuckDBPyConnection
from gpucost.render.schema import table
from gpucost.render.view import (
    Document,
    Line,
    ReportView,
    Table,
    dimension,
    money,
    number,
    ratio,
    share,
    text,
)
from gpucost.store.connection import Store


def waste(
    request: LabeledRequest,
    by: Annotated[
        Names,
        Option(
            f"Dimensions to add rows by, any of {DIMENSION_NAMES}.",
            "A,B",
            completes="dimensions",
            is_split=True,
        ),
    ] = (),
    top: Annotated[int, count("Number of the most wasteful workloads to list.")] = 10,
) -> Document:
    """Show wasted GPU time: every allocated or paid GPU-hour in exactly one bucket.

    Buckets are, for example, training that waits for data, lost work, surplus replicas, forgotten notebooks, image
    pulls, and unallocated GPUs by cause. docs/waste.md defines each bucket.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost waste
      gpucost waste --team research --month 2026-10
      gpucost waste --last 7d --by team,workload_type
      gpucost waste --workload Deployment/chat-api --format json
    """
    query = request.query(by=tuple(dict.fromkeys(by)), top=0, with_sections=False)
    request.check_names(query)
    # coverage is for all pods
    whole = replace(query, workloads=(), users=(), labels=())
    view, found = waste_report(request.settings, request.store, whole, query, top)
    return Document(
        title=f"GPU waste: {', '.join((*request.workloads, *request.users, *request.labels, view.title.split(': ', 1)[1]))}",
        subtitle=view.subtitle,
        currency=view.currency,
        sections=waste_tables(found),
        coverage=view.coverage,
        name="waste",
        data=WasteAnswer(view.period, view.currency, found, view.coverage),
        flat=table(found.rows if found.by else found.buckets, ("bucket", *found.by, "gpu_hours", "cost")),
        notes=request.gap_notes(request.clusters) if request.is_flat else (),
    )


def waste_report(
    config: Config, store: Store, query: Query, wasted: Query, top: int = 10
) -> tuple[ReportView, Waste]:
    """The report for `query` and the waste for `wasted`, in one read."""

    def read(con: DuckDBPyConnection) -> tuple[ReportView, Waste]:
        view = report_of(con, config, query)
        if wasted.workloads or wasted.users:
            check_names(con, replace(wasted, labels=()))
        found = build(con, config, wasted, wasted.by, top)
        warnings = (*view.coverage.warnings, *labels.notices(con, wasted))
        return replace(view, coverage=replace(view.coverage, warnings=warnings)), found

    return read_attributed(config, store, read, query.period)


def waste_tables(waste: Waste) -> tuple[Table, ...]:
    """GPU time by bucket, by the requested dimensions, and the most wasteful workloads."""
    sums = waste.totals
    anatomy = Table.of(
        "Where GPU time went",
        [row for row in waste.buckets if row.gpu_hours or row.cost],
        (
            text("kind.title", "Kind"),
            text("kind.scope", "Scope", weight=1),
            text("kind.meaning", "Meaning", weight=2),
            number("gpu_hours", "GPU-hours"),
            money("cost"),
            share(lambda row: ratio(row.cost, sums.cost), "Share"),
        ),
        (
            Line(("Wasted", "", "", sums.wasted_gpu_hours, sums.wasted_cost, sums.waste_ratio), is_sum=True),
            Line(("Total", "", "", sums.gpu_hours, sums.cost, ratio(sums.cost, sums.cost)), is_sum=True),
        ),
        "Every GPU-hour is in exactly one row.",
    )
    found = [anatomy]
    if waste.by:
        title = f"By {' and '.join(key.replace('_', ' ') for key in waste.by)}"
        figures = (text("kind.title", "Kind"), number("gpu_hours", "GPU-hours"), money("cost"))
        found.append(Table.of(title, waste.rows, (*map(dimension, waste.by), *figures)))
    if waste.workloads:
        columns = [
            text("workload"),
            *([text("cluster")] if len({work.cluster for work in waste.workloads}) > 1 else []),
            text("namespace"),
            text("workload_type", "Type", weight=2),
            money("cost", weight=1),
            money("wasted_cost", "Wasted"),
            share(lambda work: ratio(work.wasted_cost, work.cost), "Share", decimals=0, weight=2),
            text(lambda work: BY_NAME[work.bucket].title if work.bucket else "", "Main kind"),
            text(
                lambda work: (
                    f"{work.gpus_never_used} of {work.gpus_measured}" if work.gpus_never_used else None
                ),
                "GPUs never used",
                weight=3,
            ),
        ]
        found.append(Table.of("Most wasteful workloads", waste.workloads, columns))
    return tuple(found)
