"""Tables as text: a line for each row, cells parted by a bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from _pytest.mark import ParameterSet


def text_rows(text: str) -> list[tuple[str, ...]]:
    """The cells of each line, without the spaces around them."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]


def named_rows(text: str) -> list[ParameterSet]:
    """Parameters of a test: rows whose first cell is the id."""
    return [pytest.param(*row, id=name) for name, *row in text_rows(text)]


def values(line: str) -> dict[str, str]:
    """The words of a line, each a name and its value: "key=i-0abc cost=10"."""
    return dict(word.split("=", 1) for word in line.split())


def cells(rows: Iterable[Mapping[str, object]], names: str) -> list[tuple[str, ...]]:
    """These columns of each row, as text_rows() has them."""
    return [tuple(str(row[name]) for name in names.split()) for row in rows]
