"""Blocks as pages lay them out: figures in words, bars in lengths."""

from __future__ import annotations

from typing import Any

from gpucost.report.html.blocks import Bar, Block, Item
from gpucost.report.html.tables import grid
from gpucost.report.view import Figure
from gpucost.report.words import figure_text, remark_of, share_of, value_of


def part(block: Block, currency: str) -> dict[str, Any]:
    """A block in words and lengths, as the macro `part` takes it."""
    longest = max((abs(float(bar.value)) for bar in block.bars), default=0.0)
    return {
        "title": block.title,
        "intro": block.intro,
        "figures": [told(figure, currency) for figure in block.figures],
        "bars": [_bar(bar, longest, currency) for bar in block.bars],
        "grid": grid(block.table, currency) if block.table else None,
        "items": [_item(item, currency) for item in block.items],
        "note": block.note,
    }


def _bar(bar: Bar, longest: float, currency: str) -> dict[str, Any]:
    text = figure_text(bar.value, bar.unit, currency, 2 if bar.unit in ("money", "price") else 1)
    return {
        "label": bar.label,
        "text": f"{text} h" if bar.unit == "hours" else text,
        "note": bar.note,
        "length": f"{abs(float(bar.value)) / longest * 100:.2f}%" if longest else "0%",
        "style": "c5" if bar.value < 0 else "c0" if bar.kind == "named" else bar.kind,
    }


def _item(item: Item, currency: str) -> dict[str, Any]:
    text = figure_text(item.value, item.unit, currency, 2)
    return {
        "title": item.title,
        "value": f"{'≤ ' if item.is_most else ''}{text}",
        "note": item.note,
        "text": item.text,
        "command": item.command,
    }


def told(figure: Figure, currency: str) -> dict[str, Any]:
    """A figure in words, with what it is a share of or its target."""
    return {
        "label": figure.label,
        "value": value_of(figure, currency),
        "remark": f"{share_of(figure)} {remark_of(figure)}".strip(),
        "status": figure.status,
    }
