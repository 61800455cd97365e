"""Axes: round values that a chart's lines stand at, and what is written beside them."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from gpucost.report.view import Unit
from gpucost.report.words import figure_text

_MOST_LINES = 5
_STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
_SIZES = ((Decimal(1_000_000_000), "bn"), (Decimal(1_000_000), "M"), (Decimal(10_000), "k"))
_FACTORS = {"bn": Decimal(1_000_000_000), "M": Decimal(1_000_000), "k": Decimal(1_000)}


def ticks(highest: Decimal) -> list[Decimal]:
    """Round values from 0 to `highest` or just above it; 0 and 1 where nothing is above 0."""
    if highest <= 0:
        return [Decimal(0), Decimal(1)]
    size = Decimal(10) ** (highest / _MOST_LINES).adjusted()
    step = next(step * size for step in _STEPS if step * size * _MOST_LINES >= highest)
    count = int((highest / step).to_integral_value(ROUND_CEILING))
    return [step * index for index in range(count + 1)]


def tick_texts(values: list[Decimal], unit: Unit, currency: str) -> list[str]:
    """Short ones, all in the same size: `$0`, `$500`, `$1,000`, or `$12k`."""
    name = next((name for least, name in _SIZES if values[-1] >= least), "")
    factor = _FACTORS.get(name, Decimal(1))
    step = (values[1] / factor).normalize()
    decimals = max(0, -int(step.as_tuple().exponent))
    return [
        figure_text(value / factor, unit, currency, decimals) + name if value else figure_text(value, unit, currency, 0)
        for value in values
    ]
