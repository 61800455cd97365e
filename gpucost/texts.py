"""External text, made safe to show to people."""

import base64
import json
import re
from collections.abc import Callable, Mapping, ValuesView
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from operator import is_
from typing import Any
from urllib.parse import quote

# Invisible characters and characters that control a terminal: Unicode's controls, formats (directions,
# joiners, tags), surrogate halves and line separators, its Default_Ignorable_Code_Point, and two characters
# that a page cannot hold. Line ends and tabs are visible. HIDDEN, without the surrogate halves,
# is a character class for the regular expressions of Python and DuckDB.
HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u115f-\u1160\u17b4-\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe-\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_HIDDEN = re.compile(HIDDEN[:-1] + "\ud800-\udfff]")
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


# Secrets that this process has read: a server may repeat them in an error.
_SECRETS: set[str] = set()
_CONCEALED = "***"
# shorter secrets occur in any text, and short paths in many addresses
_SHORTEST, _SHORTEST_IN_ADDRESS = 6, 16


def conceal(secret: str) -> None:
    """Replace a secret with stars in messages and logs.

    Its spellings in an address and, in base64, in a header are replaced, too. Answers and files keep it: a
    secret may be part of a name. In a secret address, the part after the server's name is a secret by itself.
    """
    of_address = secret.partition("://")[2].partition("/")[2]
    for word in (secret, of_address if len(of_address) >= _SHORTEST_IN_ADDRESS else ""):
        spelled = (word, quote(word, safe=""), base64.b64encode(word.encode()).decode())
        _SECRETS.update(secret for secret in spelled if len(secret) >= _SHORTEST)


def concealed(text: str) -> str:
    """`text` with stars in place of each concealed secret."""
    for secret in sorted(_SECRETS, key=len, reverse=True):
        text = text.replace(secret, _CONCEALED)
    return text


def excerpt(text: str, length: int = 300) -> str:
    """At most `length` characters on one line, without terminal control characters."""
    # conceal first: a remainder of a cut secret would be shown
    return one_line(concealed(text)[:4000])[:length]


def visible(text: str) -> str:
    """`text` with each invisible or terminal-controlling character as its number: `\\u001b`, `\\u202e`.

    These are JSON's escapes, so JSON keeps its meaning. Line ends and tabs stay. The result is a plain
    string, even if `text` is a subclass of str.
    """
    plain = str(text)
    return (
        plain if plain.isascii() and plain.replace("\n", "").isprintable() else _HIDDEN.sub(_escaped, plain)
    )


def one_line(text: str) -> str:
    """`visible` text on one line, with single blanks."""
    return visible(" ".join(text.split()))


def shortened(text: str, most: int) -> str:
    """At most `most` characters of a text, on one line."""
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def unbroken(text: str) -> str:
    """`visible` text on one line, with line ends and tabs as escapes.

    So names that differ only there stay distinct.
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def in_markdown(text: str) -> str:
    """A text for Markdown, with Markdown's and HTML's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text).replace("&", "&amp;").replace("<", "&lt;"))


def visible_parts(part: Any, show: Callable[[str], str] = visible) -> Any:
    """A value with `show` applied to all texts in it; the same value if that changes nothing.

    This includes fields of dataclasses, items of sequences, and keys and values of mappings. Fields named
    `patch` (files of several lines) always get `visible`.
    """
    if isinstance(part, str):
        return show(part)
    if part is None or isinstance(part, int | float | Decimal):
        return part
    if isinstance(part, tuple | list):
        items = [visible_parts(value, show) for value in part]
        if all(map(is_, items, part)):
            return part
        return part._make(items) if hasattr(part, "_make") else type(part)(items)
    if is_dataclass(part) and not isinstance(part, type):
        changed = {}
        for field in fields(part):
            value = getattr(part, field.name)
            shown = visible_parts(value, visible if field.name == "patch" else show)
            if field.init and shown is not value:
                changed[field.name] = shown
        return replace(part, **changed) if changed else part
    if isinstance(part, Mapping):
        return {visible_parts(name, show): visible_parts(value, show) for name, value in part.items()}
    return [visible_parts(value, show) for value in part] if isinstance(part, ValuesView) else part


def readable_json(value: Any, **how: Any) -> str:
    """`value` as json.dumps writes it, with letters unescaped and hidden characters as numbers."""
    return visible(json.dumps(value, ensure_ascii=False, **how))


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def bytes_text(count: int) -> str:
    """A number of bytes for people, in powers of 1024."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def is_link(text: str) -> bool:
    """Whether `text` is safe as a link in a message: an http(s) URL without blanks or delimiters."""
    return re.fullmatch(r"https?://[^\s<>|\"']+", text) is not None


def family_of(workload: str) -> str:
    """The pattern of a workload's numbered runs: `Job/sweep-*` for `Job/sweep-12`; otherwise its name.

    The number is at the end, after a dash, an underscore or a dot.
    """
    return re.sub(r"([-_.])\d+$", r"\1*", workload)
