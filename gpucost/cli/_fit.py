"""Tables that fit a terminal: columns of lesser weight only where there is room, long texts broken over lines."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Container, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gpucost.cli._rows import as_text

_GAP = 2
_NARROWEST_TEXT = 10
_SHORT_WORD = 16


def line_width(output: Path | None = None) -> int | None:
    """How many characters a line may have: COLUMNS where it is set, else the terminal's; None into a file or a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if output is None and sys.stdout.isatty() else None
    except (OSError, ValueError):  # a stdout that is no file has no descriptor
        return None


def natural_width(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Characters in a line of the table with nothing left out or broken."""
    return _sum_of(_natural(columns, _texts(rows)), range(len(columns)))


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    weights: Sequence[int],
    width: int | None,
    *,
    figures: Sequence[int] = (),
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table of at most `width` characters, as far as that can be; None is as many as it takes.

    Columns of weight 0 always stay. Of the others the lighter ones come first: for those of weight 1 texts are broken between
    words, for heavier ones nothing is. `figures` are the columns of figures, which are never broken, where their values are texts
    already. A row whose texts are broken is followed by rows with the rest of them.
    """
    if width is None or natural_width(columns, rows) <= width:
        return list(columns), [list(row) for row in rows]
    texts = _texts(rows)
    widths = _natural(columns, texts)
    is_text = [index not in figures and not any(_is_figure(row[index]) for row in rows) for index in range(len(columns))]
    words = [_longest(texts, index, r"\S+") if of_text else 0 for index, of_text in enumerate(is_text)]
    short = [
        max(len(name), min(_SHORT_WORD, word), min(_NARROWEST_TEXT, natural)) if of_text else natural
        for name, word, of_text, natural in zip(columns, words, is_text, widths, strict=True)
    ]
    shown = [index for index, weight in enumerate(weights) if not weight]
    for index in sorted(range(len(columns)), key=lambda index: weights[index]):
        if weights[index] and _sum_of(short if weights[index] == 1 else widths, [*shown, index]) <= width:
            shown.append(index)
    shown.sort()
    names = [index for index in shown if is_text[index]]
    for least in (words, [_longest(texts, index, _PIECE) for index in range(len(columns))]):
        floors = {index: max(least[index], len(columns[index]), _NARROWEST_TEXT) for index in names}
        _narrow(widths, floors, _sum_of(widths, shown) - width)
    lines: list[list[Any]] = []
    for row, cells in zip(rows, texts, strict=True):
        folded = [_folded(cells[index], widths[index]) if is_text[index] else [row[index]] for index in shown]
        lines += [list(line) for line in zip_longest(*folded)]
    return [columns[index] for index in shown], lines


def left_out(columns: Sequence[str], shown: Sequence[str]) -> str:
    """A sentence that names the columns that `fitted` had no room for; empty where it had."""
    names = ", ".join(name for name in columns if name not in shown)
    return f"Left out for lack of room: {names}; --format json has all." if names else ""


def figures_right(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], names: Container[str]
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows with the figures that are written as words (their thousands parted) set to the right.

    Those are the columns of `names` and money, whose names end in its currency.
    """
    columns, lines = list(columns), [list(row) for row in rows]
    for index, name in enumerate(columns):
        if name in names or name[-3:].isupper():
            most = max(len(name), *(len(line[index] or "") for line in lines), 0)
            columns[index] = name.rjust(most)
            for line in lines:
                line[index] = (line[index] or "").rjust(most)
    return columns, lines


def wrapped(text: str, indent: str = "") -> str:
    """`text` as lines no longer than the terminal's, broken between words; one line where nothing limits it."""
    width = line_width()
    if width is None:
        return indent + text
    return textwrap.fill(
        text,
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


_PIECE = r"[^-/._\s]*[-/._]|[^-/._\s]+"


def _texts(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[as_text(value) for value in row] for row in rows]


def _natural(columns: Sequence[str], texts: list[list[str]]) -> list[int]:
    return [max(len(name), *(len(row[index]) for row in texts), 0) for index, name in enumerate(columns)]


def _is_figure(value: Any) -> bool:
    return value is not None and not isinstance(value, str)


def _longest(texts: list[list[str]], index: int, pattern: str) -> int:
    return max((len(piece) for row in texts for piece in re.findall(pattern, row[index])), default=0)


def _sum_of(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _narrow(widths: list[int], floors: dict[int, int], excess: int) -> None:
    """Take `excess` characters from the widest of the columns in `floors`, evenly, as far as each keeps its least width."""
    for _ in range(max(0, excess)):
        wide = [index for index, floor in floors.items() if widths[index] > floor]
        if not wide:
            return
        widths[max(wide, key=lambda index: widths[index])] -= 1


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most `width`: broken between words, and words only where they are longer than that, behind - / . or _."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for piece in [word] if len(word) <= width else re.findall(_PIECE, word):
            if lines[-1] and len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return lines
