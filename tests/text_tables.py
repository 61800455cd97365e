"""Tables as text: a line per row, with cells separated by a bar."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

import pytest
from _pytest.mark import ParameterSet


def text_rows(text: str) -> list[tuple[str, ...]]:
    """Return the stripped cells of each nonempty line."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.splitlines() if line.strip()]


def named_rows(text: str) -> list[ParameterSet]:
    """Return parameters of a test: rows whose first cell is the id."""
    return [pytest.param(*row, id=name) for name, *row in text_rows(text)]


def table(text: str) -> list[dict[str, str]]:
    """Return the rows by the names in the first row; empty cells are left out."""
    head, *rows = text_rows(text)
    return [{name: cell for name, cell in zip(head, row, strict=True) if cell} for row in rows]


def words(text: str) -> dict[str, str]:
    """Return names and values of a line such as `kind=instance id= description="two words"`."""
    return dict(word.split("=", 1) for word in shlex.split(text))


def columns(text: str) -> dict[str, str]:
    """Return the rest of each line by its first word."""
    named = (line.strip().partition(" ") for line in text.strip().splitlines())
    return {name: value.strip() for name, _, value in named}


def titled(text: str) -> dict[str, str]:
    """Return the text below each line `= title`; lines with `#` are comments."""
    plain = re.sub("^ *#.*\n", "", text, flags=re.MULTILINE)
    _, *parts = re.split("^= (.*)\n", plain, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def cells(rows: Iterable[Mapping[str, object]], names: str) -> list[tuple[str, ...]]:
    """Return these columns of each row, in the format of text_rows()."""
    return [tuple(str(row[name]) for name in names.split()) for row in rows]
