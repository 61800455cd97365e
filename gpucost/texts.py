"""Text from outside, as people may see it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, ValuesView
from dataclasses import fields, is_dataclass, replace
from typing import Any
from urllib.parse import quote

# What no reader sees, or what a terminal obeys: Unicode's controls, formats (directions, joiners, tags), halves of surrogate
# pairs and separators of lines, what it calls Default_Ignorable_Code_Point, and two characters that a page cannot hold. Line ends
# and tabs are seen.
_RANGES = """
    0000-0008 000b-001f 007f-009f 00ad 034f 0600-0605 061c 06dd 070f 0890-0891 08e2 115f-1160 17b4-17b5 180b-180f 200b-200f
    2028-202e 2060-206f 3164 d800-dfff fe00-fe0f feff ffa0 fff0-fffb fffe-ffff 110bd 110cd 13430-1343f 1bca0-1bca3 1d173-1d17a
    e0000-e0fff
"""


def _class_of(spans: list[list[str]]) -> str:
    return "[" + "".join("-".join(chr(int(end, 16)) for end in span) for span in spans) + "]"


_SPANS = [span.split("-") for span in _RANGES.split()]
_HIDDEN = re.compile(_class_of(_SPANS))
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
#: What is hidden in text that can be encoded, as a class of regular expressions: Python's and DuckDB's.
HIDDEN = _class_of([span for span in _SPANS if span[0] != "d800"])


# Secrets that this process has read: a server may repeat them in an error.
_SECRETS: set[str] = set()
_CONCEALED = "***"
# shorter ones stand in any text; so does much that stands in an address
_SHORTEST, _SHORTEST_IN_ADDRESS = 6, 16


def conceal(secret: str) -> None:
    """Show stars in place of a secret from now on, and of what it is in an address or, base64, in a header.

    Of a secret address what follows the server's name is secret by itself.
    """
    of_address = secret.partition("://")[2].partition("/")[2]
    for word in (secret, of_address if len(of_address) >= _SHORTEST_IN_ADDRESS else ""):
        spelled = (word, quote(word, safe=""), base64.b64encode(word.encode()).decode())
        _SECRETS.update(one for one in spelled if len(one) >= _SHORTEST)


def concealed(text: str) -> str:
    """`text` with stars in place of each secret that was concealed."""
    for secret in sorted(_SECRETS, key=len, reverse=True):
        text = text.replace(secret, _CONCEALED)
    return text


def visible(text: str) -> str:
    """`text` with each character that no reader sees, or that a terminal obeys, as its number: `\\u001b`, `\\u202e`.

    These are JSON's escapes, so JSON stays the same to whoever reads it. Line ends and tabs stay: they are seen. It is a plain
    string, whatever kind of string `text` is. Secrets that were concealed are not in it.
    """
    return _seen(concealed(str(text)))


def _seen(plain: str) -> str:
    return plain if plain.isascii() and plain.isprintable() else _HIDDEN.sub(_shown, plain)


def one_line(text: str) -> str:
    """The same on one line, with single blanks."""
    return visible(" ".join(text.split()))


def shortened(text: str, most: int) -> str:
    """At most so many characters of it, on one line."""
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def unbroken(text: str) -> str:
    """The same on one line, with line ends and tabs shown too: names that differ only there stay apart."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def in_markdown(text: str) -> str:
    """The same as Markdown's text: its own characters and HTML's are disarmed."""
    return _SPECIAL.sub(r"\\\1", one_line(text).replace("&", "&amp;").replace("<", "&lt;"))


def visible_parts(part: Any) -> Any:
    """A value with all the texts in it as `visible` has them: those of dataclasses and sequences, keys and values of mappings.

    What holds no hidden characters is the same object.
    """
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, tuple | list):
        shown = [visible_parts(one) for one in part]
        if all(new is old for new, old in zip(shown, part, strict=True)):
            return part
        return part._make(shown) if hasattr(part, "_make") else type(part)(shown)
    if is_dataclass(part) and not isinstance(part, type):
        given = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        changed = {name: new for name, old in given.items() if (new := visible_parts(old)) is not old}
        return replace(part, **changed) if changed else part
    if isinstance(part, Mapping):
        return {visible_parts(name): visible_parts(one) for name, one in part.items()}
    return [visible_parts(one) for one in part] if isinstance(part, ValuesView) else part


def readable_json(value: Any, **how: Any) -> str:
    """`value` as json.dumps writes it, every letter as it is, but for what `visible` shows as a number.

    It is what was to be sent or kept, and whole: nothing in it is concealed.
    """
    return _seen(json.dumps(value, ensure_ascii=False, **how))


def _shown(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
