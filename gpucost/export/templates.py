"""Templates of files that are code to other programs: YAML with PromQL and Prometheus' own templates inside."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpucost.resources import reports_dir


def render(name: str, **values: Any) -> str:
    """The template reports/`name` filled with `values`; ends with one line break.

    Its marks are << >>, <% %> and <# #>, since Prometheus' templates use double braces. Nothing is escaped by itself: what comes
    from outside goes through the filters `quoted` and `literal`.
    """
    environment = Environment(  # noqa: S701 - YAML, not HTML
        loader=FileSystemLoader(reports_dir()),
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.filters |= {"quoted": quoted, "literal": literal, "number": number}
    return environment.get_template(name).render(**values).strip("\n") + "\n"


def quoted(text: object) -> str:
    """`text` in double quotes with JSON's escapes, which YAML and PromQL both read, on one line."""
    # YAML takes these for line breaks or refuses them, and JSON leaves them as they are
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(str(text), ensure_ascii=False)
    )


def literal(text: str) -> str:
    """`text` as Prometheus' templates print it: what would open an action of theirs is printed by one."""
    return text.replace("{{", '{{ "{{" }}')


def number(value: float | Decimal) -> str:
    """`value` as PromQL reads it: 5, 0.7, 50000."""
    return f"{Decimal(str(value)).normalize():f}"
