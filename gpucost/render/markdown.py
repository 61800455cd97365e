"""Reports as Markdown, laid out by the template reports/report.md.j2."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from gpucost.render.formatting import cell, coverage_lines, item_value, remark, sum_text, value_of
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from jinja2 import Environment

    from gpucost.render.view import Page

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def render(page: Page) -> str:
    """The whole report as GitHub-flavored Markdown; names from the cluster cannot break out of their cells."""
    texts: dict[str, Callable[..., str]] = {"cell": cell, "sum_text": sum_text, "value_of": value_of, "item_value": item_value}
    return (
        environment(reports_dir())
        .get_template("report.md.j2")
        .render(
            page=page,
            coverage=coverage_lines(page.coverage, page.currency) if page.coverage else (),
            remark=remark,
            **{name: partial(text, currency=page.currency) for name, text in texts.items()},
        )
    )


@cache
def environment(folder: Path) -> Environment:
    """For templates of Markdown in `folder`: whatever they print is escaped, `| code` makes a command to copy."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_escaped,
        keep_trailing_newline=True,
    )
    templates.filters["code"] = _code
    return templates


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
