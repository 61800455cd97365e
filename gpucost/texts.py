"""Text from outside, as people may see it."""

from __future__ import annotations

import unicodedata

# Controls, halves of surrogate pairs, separators, and what changes how the text around it is read: directions, joiners, no width.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
# a page cannot hold these
_NO_CHARACTERS = frozenset("\ufffe\uffff")
_SEEN = frozenset("\n\t")


def visible(text: str) -> str:
    """`text` with each character that no reader sees, or that a terminal obeys, as its number: `\\x1b`, `\\u202e`.

    Line ends and tabs stay: they are seen.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    """The same on one line, with single blanks."""
    return visible(" ".join(text.split()))


def _shown(letter: str) -> str:
    if letter in _SEEN or (unicodedata.category(letter) not in _HIDDEN and letter not in _NO_CHARACTERS):
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
