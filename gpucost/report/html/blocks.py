"""Further blocks of the page that a caller hands in: findings of other packages, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpucost.report.view import Figure, Table, Unit


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; its length is its share of the longest of the block. `note` stands behind the value."""

    label: str
    value: float | Decimal
    unit: Unit
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A section of its own: a sentence, figures, bars and a table, each where there is one."""

    title: str
    intro: str | None = None
    figures: tuple[Figure, ...] = ()
    bars: tuple[Bar, ...] = ()
    table: Table | None = None
