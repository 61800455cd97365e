"""Tables as text: a line for each row, cells parted by a bar."""

from __future__ import annotations


def text_rows(text: str) -> list[tuple[str, ...]]:
    """The cells of each line, without the spaces around them."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]
