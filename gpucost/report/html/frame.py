"""What every page is made in: the templates, and the style and the script that stand in it."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpucost.report.html.text import clean
from gpucost.resources import reports_dir


@cache
def environment() -> Environment:
    """The templates of reports/html, and those of reports/chargeback, which use their macros; names are escaped.

    Kept: a bundle renders the same templates for every team.
    """
    return Environment(
        loader=FileSystemLoader([reports_dir() / "html", reports_dir() / "chargeback"]),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def frame() -> dict[str, str]:
    """`style` and `script`, to be put into a page as they are, and their digests for its Content-Security-Policy."""
    files = {
        name: (reports_dir() / "html" / file).read_text(encoding="utf-8").strip()
        for name, file in (("style", "report.css"), ("script", "report.js"))
    }
    digests = {f"{name}_digest": b64encode(sha256(text.encode()).digest()).decode() for name, text in files.items()}
    return digests | {name: Markup(text) for name, text in files.items()}  # noqa: S704 - our own files


def _cleaned(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)
