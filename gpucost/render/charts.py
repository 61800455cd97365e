"""Charts as shapes: coordinates and texts from numbers; the template writes them as SVG.

Shapes are stretched to the width of the page, but texts are not: shapes have their own coordinates, texts have
percentages.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpucost.render.formatting import figure_text
from gpucost.render.view import ZERO, Layer, Series, Stack, Step, Unit
from gpucost.texts import shortened

_MOST_LINES = 5
_STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
# smallest value for a unit, its divisor, and its suffix
_SIZES = ((1_000_000_000, 1_000_000_000, "bn"), (1_000_000, 1_000_000, "M"), (10_000, 1_000, "k"))


def ticks(highest: Decimal) -> list[Decimal]:
    """Round values from 0 to `highest` or just above it; 0 and 1 if all values are 0."""
    if highest <= 0:
        return [ZERO, Decimal(1)]
    size = Decimal(10) ** (highest / _MOST_LINES).adjusted()
    step = next(step * size for step in _STEPS if step * size * _MOST_LINES >= highest)
    count = int((highest / step).to_integral_value(ROUND_CEILING))
    return [step * index for index in range(count + 1)]


def tick_texts(values: list[Decimal], unit: Unit, currency: str) -> list[str]:
    """Short labels, all with the same unit: `$0`, `$500`, `$1,000`, or `$12k`."""
    factor, name = next(((factor, name) for least, factor, name in _SIZES if values[-1] >= least), (1, ""))
    step = (values[1] / factor).normalize()
    decimals = max(0, -int(step.as_tuple().exponent))
    return [
        figure_text(value / factor, unit, currency, decimals) + name
        if value
        else figure_text(value, unit, currency, 0)
        for value in values
    ]


_LONGEST_IN_CHARTS = 40


#: Height of a chart's shapes, before they are stretched.
HEIGHT = 1000
#: Width of a moment, and of the column in it.
BAND = 10
COLUMN = 8
_SPARK_HEIGHT = 20
_MOST_LABELS: dict[Step, int] = {"hour": 4, "day": 6, "week": 6, "month": 5}
_LAST_LABEL = 0.96


def columns(stack: Stack, series: Series, currency: str, *, before_sharing: bool = False) -> dict[str, Any]:
    """A chart of stacked columns. Its title has "before sharing" if costs are shared elsewhere on the page.

    `shapes` are the layers' columns, `lines` and `labels` texts at percentages of an axis, `hints` the texts of the
    moments; `titles` and `rows` are the same figures as a table.
    """
    values = ticks(max(stack.totals))
    top = values[-1]

    def words(value: Decimal) -> str:
        return figure_text(value, stack.unit, currency, 2 if stack.unit == "money" else 1)

    def at_percent(share: float, text: str) -> dict[str, str]:
        return {"at": f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%", "text": text}

    hints = []
    for at, moment in enumerate(series.moments):
        # the value first: a name in another writing direction would move the text after it
        parts = [
            f"{words(layer.values[at])} {shortened(layer.name, _LONGEST_IN_CHARTS)}"
            for layer in stack.layers
            if layer.values[at]
        ]
        hints.append("\n".join([moment.name, f"{words(stack.totals[at])} in total", *parts]))
    count = len(series.moments)
    # as many as fit on a phone; none so far right that it would leave the page
    labeled = ((at, (at + 0.5) / count) for at in range(0, count, -(-count // _MOST_LABELS[series.step])))
    layers = (*stack.layers, Layer("Total", "named", stack.totals, stack.total))
    return {
        "title": f"{stack.title}{' before sharing' if before_sharing else ''}, by {series.step}",
        "total": words(stack.total) + (" GPU-hours" if stack.unit == "hours" else ""),
        "width": count * BAND,
        # colors by rank for names, by kind for layers with the same meaning in every report
        "shapes": [
            {
                "name": layer.name,
                "style": f"c{at}" if layer.kind == "named" else layer.kind,
                "path": path,
                "total": words(layer.total),
            }
            for at, (layer, path) in enumerate(zip(stack.layers, _paths(stack, top), strict=True))
        ],
        "lines": [
            at_percent(1 - float(value / top), text)
            for value, text in zip(values, tick_texts(values, stack.unit, currency), strict=True)
        ],
        "labels": [
            at_percent(place, series.moments[at].short) for at, place in labeled if place < _LAST_LABEL
        ],
        "hints": hints,
        "titles": (series.step.capitalize(), *(layer.name for layer in layers)),
        "rows": [
            (moment.name, [(f"{layer.values[at]:f}", words(layer.values[at])) for layer in layers])
            for at, moment in enumerate(series.moments)
        ],
    }


def spark(values: Sequence[Decimal]) -> str:
    """A path of columns, 20 high and as wide as the number of values; the highest fills the height."""
    highest = max(values, default=ZERO)
    path = ""
    for at, value in enumerate(values):
        if value > 0 and (height := round(float(value / highest) * _SPARK_HEIGHT, 1)):
            path += f"M{at} {_SPARK_HEIGHT}v{-height:g}h.8v{height:g}z"
    return path


def spark_words(values: Sequence[Decimal], step: Step, currency: str) -> str:
    """A text alternative for a sparkline."""
    low, high = (figure_text(value, "money", currency, 2) for value in (min(values), max(values)))
    return f"cost by {step}: from {low} to {high}"


def _paths(stack: Stack, top: Decimal) -> list[str]:
    """The path of one layer. Edges are rounded, not heights, so that layers touch without gap or overlap."""
    below = [ZERO] * len(stack.totals)
    paths = []
    for layer in stack.layers:
        path = ""
        for at, value in enumerate(layer.values):
            low = _edge(below[at], top)
            below[at] += max(value, ZERO)
            if height := low - _edge(below[at], top):
                path += f"M{at * BAND + (BAND - COLUMN) // 2} {low}v{-height}h{COLUMN}v{height}z"
        paths.append(path)
    return paths


def _edge(value: Decimal, top: Decimal) -> int:
    return HEIGHT - round(float(value / top) * HEIGHT)
