"""Reports as one HTML page, laid out by the templates in reports/html."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpucost.report.html.blocks import Block
from gpucost.report.html.charts import HEAT_LEVELS, HEIGHT, columns, heat_map
from gpucost.report.html.frame import environment, frame
from gpucost.report.html.parts import part, told
from gpucost.report.html.summary import cards
from gpucost.report.html.tables import grid
from gpucost.report.series.view import Step
from gpucost.report.shared_cells import CHARGED
from gpucost.report.view import Figures, Notice, ReportView, Table
from gpucost.report.words import coverage_lines

_SHOWN_ALIKE = 3


def render(view: ReportView, *, blocks: Sequence[Block] = ()) -> str:
    """The whole report as one file: style, script and charts inside, and nothing is loaded from anywhere.

    `blocks` follow the report's own sections. The view needs sections and series. The same input gives the same bytes.
    """
    if view.series is None:
        raise ValueError("the HTML report draws series: ask for them with Query(with_series=True)")
    series, currency = view.series, view.currency
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **frame(),
            title=view.title,
            subtitle=view.subtitle,
            currency=currency,
            timezone=series.timezone,
            step=series.step,
            cards=cards(view),
            since=view.changes.period_name if view.changes else None,
            status=_status(view),
            costs=[columns(stack, series, currency, before_sharing=view.totals_shared is not None) for stack in series.stacks],
            hours=columns(series.hours, series, currency),
            charged=_charged(view),
            heat=[heat_map(heat) for heat in series.heat if any(share is not None for row in heat.shares for share in row)],
            heat_levels=HEAT_LEVELS,
            height=HEIGHT,
            sections=[_section(section, currency, series.step) for section in view.sections],
            blocks=[part(block, currency) for block in blocks],
            coverage=coverage_lines(view.coverage, currency),
            notices=[_alike(list(alike)) for _, alike in groupby(view.coverage.warnings, key=lambda notice: notice.code)],
            method=series.method,
        )
    )


def _status(view: ReportView) -> str:
    """What of the figures is still to come."""
    is_whole = view.coverage.is_complete and not view.coverage.not_collected_hours
    parts = [] if is_whole else ["not collected in full"]
    if view.coverage.estimated_cost:
        parts.append("estimated in part" if view.coverage.billed_cost else "estimated: no bill covers it yet")
    return "; ".join(parts) or "billed in full"


def _charged(view: ReportView) -> dict[str, str] | None:
    """Where the page says what each was charged, which its charts do not: None where nothing is shared."""
    for place, section in enumerate(view.sections, 1):
        if isinstance(section, Table) and any(column.title == CHARGED for column in section.columns):
            return {"id": f"part-{place}", "title": section.title, "column": CHARGED}
    return None


def _section(section: Table | Figures, currency: str, step: Step) -> dict[str, Any]:
    empty = part(Block(section.title), currency)
    if isinstance(section, Figures):
        return empty | {"figures": [told(figure, currency) for figure in section.figures]}
    return empty | {"grid": grid(section, currency, step)}


def _alike(notices: list[Notice]) -> dict[str, list[Notice]]:
    """Hundreds of nodes without a price are one problem: the first few of a kind stand there, the rest can be unfolded."""
    return {"shown": notices[:_SHOWN_ALIKE], "more": notices[_SHOWN_ALIKE:]}
