"""Rows of text as tables that tests read."""

from __future__ import annotations


def rows(text: str) -> list[list[str]]:
    """The cells of each line, which bars part."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def cells(text: str) -> dict[str, str]:
    """The column that each line begins with, and what follows it."""
    named = (line.strip().partition(" ") for line in text.strip().splitlines())
    return {name: value.strip() for name, _, value in named}
