"""Names as pages show them: they come from clusters, and may hold anything."""

from __future__ import annotations

import re

# Control characters break pages, and those that turn the direction of text reorder what stands around a name.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
_LONGEST_IN_CHARTS = 40


def clean(text: str) -> str:
    """`text` with a visible sign in the place of each character that no page should obey."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def clipped(text: str) -> str:
    """As much of a name as fits beside a chart, on one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= _LONGEST_IN_CHARTS else line[: _LONGEST_IN_CHARTS - 1] + "…"
