"""Reports as Markdown, with the template reports/report.md.j2."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.render.formatting import (
    cell,
    coverage_lines,
    figure_text,
    item_value,
    remark,
    sum_text,
    value_of,
)
from gpucost.render.view import OF_ALLOCATED, OF_NODES, Page, ReportView, ratio
from gpucost.resources import reports_dir
from gpucost.texts import in_markdown, one_line

if TYPE_CHECKING:
    from jinja2 import Environment


_DEAREST = 3


def render(page: Page) -> str:
    """The whole report as GitHub-flavored Markdown; names from the cluster cannot break out of their cells.

    A report begins with its summary. Lines that replace the page are items of a list.
    """
    if page.lines:
        return "".join(f"- {in_markdown(line)}\n" for line in page.lines)
    texts = (cell, sum_text, value_of, item_value)
    return (
        environment(reports_dir())
        .get_template("report.md.j2")
        .render(
            page=page,
            summary=summary(page) if isinstance(page, ReportView) else (),
            coverage=coverage_lines(page.coverage, page.currency) if page.coverage else (),
            remark=remark,
            **{text.__name__: partial(text, currency=page.currency) for text in texts},
        )
    )


def brief(view: ReportView) -> str:
    """The summary of a report as three lines of Markdown, for a comment on a change."""
    return environment(reports_dir()).get_template("brief.md.j2").render(summary=summary(view)) + "\n"


def summary(view: ReportView) -> tuple[str, str, str]:
    """The headline; idle and unallocated cost and the ratios with a target; most expensive rows and coverage."""
    totals = view.totals
    nodes = view.node_totals
    currency = view.currency
    named = partial(figure_text, unit="money", currency=currency, decimals=2)
    percent = partial(figure_text, unit="ratio", currency=currency, decimals=1)
    costs = [
        f"Idle {named(totals.idle_cost)}, {percent(ratio(totals.idle_cost, totals.cost))} {OF_ALLOCATED}"
    ]
    if nodes:
        share = percent(ratio(nodes.unallocated_cost, nodes.node_cost))
        costs.append(f"unallocated {named(nodes.unallocated_cost)}, {share} {OF_NODES}")
    if view.totals_api:
        costs.append(f"bought tokens {named(view.totals_api.api_cost)}")
    targets = (
        f"{figure.label.lower()} {value_of(figure, currency)} ({remark(figure)}: {figure.status})"
        for figure in view.targets
    )
    most_expensive = sorted(
        (row for row in view.rows if row.kind == "allocated"), key=lambda row: -row.own_cost
    )[:_DEAREST]
    names = (
        f"{'/'.join(value or 'unknown' for value in row.keys.values())} {named(row.own_cost)}"
        for row in most_expensive
    )
    trust = dict(coverage_lines(view.coverage, currency))
    messages = (
        f"{label.lower()} {'; '.join(trust[label])}" for label in ("Collected", "Prices") if label in trust
    )
    return (
        view.headline,
        "; ".join([*costs, *targets]),
        "; ".join([f"Most: {', '.join(names) or 'none'}", *messages]),
    )


@cache
def environment(folder: Path) -> Environment:
    """The environment for Markdown templates in `folder`: text is escaped, except `| code` and `| block`."""
    from gpucost.render import templates as shared  # slow to import

    templates = shared.environment(folder, escape=in_markdown)
    templates.filters |= {"code": _code, "in_cell": _in_cell, "block": _block}
    return templates


def _code(text: str) -> str:
    """A command in a fence longer than any run of backticks in it; to be marked as safe."""
    fence = _fence(text, 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{one_line(text)}{pad}{fence}"


def _in_cell(code: str) -> str:
    """A command in a table cell. A bar would end even code there."""
    return re.sub(r"(\\*)\|", r"\1\1\\|", code)


def _block(text: str) -> str:
    """The lines of a YAML file to copy; to be marked as safe."""
    fence = _fence(text, 3)
    return f"{fence}yaml\n{text.rstrip()}\n{fence}"


def _fence(text: str, shortest: int) -> str:
    return "`" * max([shortest, *(1 + len(run) for run in re.findall(r"`+", text))])
