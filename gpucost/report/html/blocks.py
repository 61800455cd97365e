"""Further blocks of the page that a caller hands in: findings of other packages, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpucost.report.series.view import LayerKind
from gpucost.report.view import Figure, Table, Unit


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; its length is its share of the longest of the block, its color that of `kind` in charts.

    `note` stands behind the value.
    """

    label: str
    value: float | Decimal
    unit: Unit
    note: str | None = None
    kind: LayerKind = "named"


@dataclass(frozen=True, slots=True)
class Item:
    """Something to do: what it is worth (`note` says of what time; `is_most`: no more than that), why, and what shows it."""

    title: str
    value: Decimal
    unit: Unit
    note: str
    text: str
    command: str | None = None
    is_most: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A section of its own: a sentence, figures, bars, a table and a list of items, each where there is one; `note` ends it."""

    title: str
    intro: str | None = None
    figures: tuple[Figure, ...] = ()
    bars: tuple[Bar, ...] = ()
    table: Table | None = None
    items: tuple[Item, ...] = ()
    note: str | None = None
