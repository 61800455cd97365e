"""Reports as one HTML page, laid out by the templates in reports/html."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpucost.report.html.blocks import Bar, Block
from gpucost.report.html.charts import HEAT_LEVELS, HEIGHT, columns, heat_map
from gpucost.report.html.summary import summary
from gpucost.report.html.tables import grid
from gpucost.report.html.text import clean
from gpucost.report.series.view import Step
from gpucost.report.view import Figure, Figures, Notice, ReportView, Table
from gpucost.report.words import coverage_lines, figure_text, remark_of, share_of, value_of
from gpucost.resources import reports_dir

_SHOWN_ALIKE = 3


def render(view: ReportView, *, blocks: Sequence[Block] = (), reconciliation: str | None = None) -> str:
    """The whole report as one file: style, script and charts inside, and nothing is loaded from anywhere.

    `blocks` follow the report's own sections; `reconciliation` is a sentence that stands with the coverage. The view needs
    sections and series. The same input gives the same bytes.
    """
    if view.series is None:
        raise ValueError("the HTML report draws series: ask for them with Query(with_series=True)")
    series, currency = view.series, view.currency
    folder = reports_dir() / "html"
    style, script = ((folder / name).read_text(encoding="utf-8").strip() for name in ("report.css", "report.js"))
    environment = _environment(folder)
    return environment.get_template("report.html.j2").render(
        title=view.title,
        subtitle=view.subtitle,
        currency=currency,
        timezone=series.timezone,
        step=series.step,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style_digest=_digest(style),
        script_digest=_digest(script),
        cards=[_figure(figure, currency) for figure in summary(view)],
        status=_status(view),
        costs=[columns(stack, series, currency) for stack in series.stacks],
        hours=columns(series.hours, series, currency),
        without_shared=view.totals_shared is not None,
        heat=[heat_map(heat) for heat in series.heat if any(share is not None for row in heat.shares for share in row)],
        heat_levels=HEAT_LEVELS,
        height=HEIGHT,
        sections=[_section(section, currency, series.step) for section in view.sections],
        blocks=[_block(block, currency) for block in blocks],
        coverage=[*coverage_lines(view.coverage, currency), *([("Reconciled", [reconciliation])] if reconciliation else [])],
        notices=[_alike(list(alike)) for _, alike in groupby(view.coverage.warnings, key=lambda notice: notice.code)],
        method=series.method,
    )


@cache
def _environment(folder: Path) -> Environment:
    """Kept: a bundle renders the same templates for every team."""
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _status(view: ReportView) -> str:
    """What of the figures is still to come."""
    parts = [] if view.coverage.is_complete else ["not collected in full"]
    if view.coverage.estimated_cost:
        parts.append("estimated in part" if view.coverage.billed_cost else "estimated: no bill covers it yet")
    return "; ".join(parts) or "billed in full"


def _section(section: Table | Figures, currency: str, step: Step) -> dict[str, Any]:
    if isinstance(section, Figures):
        return {"title": section.title, "figures": [_figure(figure, currency) for figure in section.figures], "grid": None}
    return {"title": section.title, "figures": [], "grid": grid(section, currency, step)}


def _block(block: Block, currency: str) -> dict[str, Any]:
    longest = max((abs(float(bar.value)) for bar in block.bars), default=0.0)
    return {
        "title": block.title,
        "intro": block.intro,
        "figures": [_figure(figure, currency) for figure in block.figures],
        "bars": [_bar(bar, longest, currency) for bar in block.bars],
        "grid": grid(block.table, currency) if block.table else None,
    }


def _bar(bar: Bar, longest: float, currency: str) -> dict[str, Any]:
    text = figure_text(bar.value, bar.unit, currency, 2 if bar.unit in ("money", "price") else 1)
    return {
        "label": bar.label,
        "text": f"{text} h" if bar.unit == "hours" else text,
        "note": bar.note,
        "length": f"{abs(float(bar.value)) / longest * 100:.2f}%" if longest else "0%",
        "is_negative": bar.value < 0,
    }


def _figure(figure: Figure, currency: str) -> dict[str, Any]:
    return {
        "label": figure.label,
        "value": value_of(figure, currency),
        "remark": f"{share_of(figure)} {remark_of(figure)}".strip(),
        "status": figure.status,
    }


def _alike(notices: list[Notice]) -> dict[str, list[Notice]]:
    """Hundreds of nodes without a price are one problem: the first few of a kind stand there, the rest can be unfolded."""
    return {"shown": notices[:_SHOWN_ALIKE], "more": notices[_SHOWN_ALIKE:]}


def _cleaned(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)


def _digest(text: str) -> str:
    """As a Content-Security-Policy names what may run."""
    return b64encode(sha256(text.encode()).digest()).decode()
