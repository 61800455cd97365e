"""Reports as Markdown, laid out by the template reports/report.md.j2."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from gpucost.render.formatting import cell, coverage_lines, remark_of, share_of, sum_text, value_of
from gpucost.render.view import Figures, Line, ReportView, Table
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from jinja2 import Environment

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def render(view: ReportView) -> str:
    """The whole report as GitHub-flavored Markdown; names from the cluster cannot break out of their cells."""
    return (
        environment(reports_dir())
        .get_template("report.md.j2")
        .render(
            title=view.title,
            subtitle=view.subtitle,
            sections=[_section(section, view.currency) for section in view.sections],
            coverage=coverage_lines(view.coverage, view.currency),
            warnings=view.coverage.warnings,
        )
    )


@cache
def environment(folder: Path) -> Environment:
    """For templates of Markdown in `folder`: whatever they print is escaped, `| code` makes a command to copy."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_escaped,
        keep_trailing_newline=True,
    )
    made.filters["code"] = _code
    return made


def _section(section: Table | Figures, currency: str) -> dict[str, Any]:
    if isinstance(section, Figures):
        figures = [
            {
                "label": figure.label,
                "value": value_of(figure, currency),
                "remark": f"{share_of(figure)} {remark_of(figure)}".strip(),
                "status": figure.status,
            }
            for figure in section.figures
        ]
        return {"title": section.title, "sum": None, "figures": figures}
    flagged = any(line.flag for line in section.lines)
    return {
        "title": section.title,
        "sum": sum_text(*section.sum, currency) if section.sum else None,
        "figures": None,
        "titles": [column.title for column in section.columns] + [""] * flagged,
        "sides": ["left" if column.unit == "text" else "right" for column in section.columns] + ["left"] * flagged,
        "lines": [
            {"is_sum": line.is_sum, "texts": _texts(line, section, currency) + ([line.flag or ""] if flagged else [])}
            for line in section.lines
        ],
        "note": section.note,
    }


def _texts(line: Line, table: Table, currency: str) -> list[str]:
    return [cell(value, column, currency) for value, column in zip(line.cells, table.columns, strict=True)]


def _escaped(value: object) -> object:
    """What a template prints: text with Markdown's and HTML's own characters disarmed, on one line."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;")
    return Markup(_SPECIAL.sub(r"\\\1", text))  # noqa: S704 - this is the escaping


def _code(value: str) -> Markup:
    """A command to copy, in a fence longer than any run of backticks in it."""
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", value)), default=0))
    pad = " " if "`" in value else ""
    return Markup(f"{fence}{pad}{' '.join(value.split())}{pad}{fence}")  # noqa: S704 - a code span shows its text as it is
