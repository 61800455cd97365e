"""Templates of what people read: what comes from outside is text in them, with its hidden characters shown, and never markup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gpucost.texts import visible_parts


class _Template(Template):
    def render(self, *args: Any, **kwargs: Any) -> str:
        """The template filled with values, of which none counts as markup, whatever kind of string it is."""
        return super().render(visible_parts(dict(*args, **kwargs)))


class _Environment(Environment):
    template_class = _Template


def environment(*folders: Path, escape: Callable[[str], str] | None = None, **settings: Any) -> Environment:
    """For the templates of `folders`: whatever text they print is escaped, as HTML where no other `escape` is given.

    What templates mark as safe, and what their own macros made, is printed as it is.
    """

    def escaped(value: object) -> object:
        # all that is marked was made by a template: render lets nothing else in
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
