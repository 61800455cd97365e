"""Templates of pages and of files for other programs.

In pages, text from outside is escaped, with its hidden characters shown.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gpucost.resources import reports_dir
from gpucost.texts import HIDDEN, visible_parts


class _Template(Template):
    def render(self, *args: Any, **kwargs: Any) -> str:
        """Fill the template with values; none counts as markup, regardless of its string type."""
        return super().render(visible_parts(dict(*args, **kwargs)))


class _Environment(Environment):
    template_class = _Template


def environment(*folders: Path, escape: Callable[[str], str] | None = None, **settings: Any) -> Environment:
    """The environment for the templates of `folders`: all printed text is escaped, by default as HTML.

    Text that templates mark as safe, and the output of their own macros, is printed unchanged.
    """

    def escaped(value: object) -> object:
        # only templates can mark text: render removes other marks
        if escape is None or isinstance(value, Markup) or not isinstance(value, str):
            return value
        return Markup(escape(value))  # noqa: S704 - this is the escaping

    return _Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=escaped if escape else None,
        keep_trailing_newline=True,
        **settings,
    )


def quoted(text: object) -> str:
    """`text` in double quotes with escapes that YAML and PromQL both read, on one line."""
    # YAML treats some hidden characters as line breaks or refuses them, JSON leaves most unchanged
    return re.sub(HIDDEN, lambda match: f"\\U{ord(match[0]):08x}", json.dumps(str(text), ensure_ascii=False))


def literal(text: str) -> str:
    """`text` for Prometheus templates: text that would open an action is printed by one."""
    return text.replace("{{", '{{ "{{" }}')


def number(value: float | Decimal) -> str:
    """`value` in PromQL: 5, 0.7, 50000."""
    return f"{Decimal(str(value)).normalize():f}"


# The marks are << >>, <% %> and <# #>, because templates of Prometheus and Helm have double braces.
_FILES = Environment(  # noqa: S701 - YAML, not HTML
    loader=FileSystemLoader(reports_dir()),
    undefined=StrictUndefined,
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
)
_FILES.filters |= {"quoted": quoted, "literal": literal, "number": number}


def fill(template: str, **values: Any) -> str:
    """Fill reports/`template`, a file for another program; the result ends with one line break.

    Automatic escaping is off: text from outside needs the filters `quoted` and `literal`.
    """
    return _FILES.get_template(template).render(**values).strip("\n") + "\n"
