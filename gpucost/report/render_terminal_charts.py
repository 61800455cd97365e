"""Bars and sparklines of a report on a terminal: how long and how high, of figures that the view holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from rich.text import Text

from gpucost.report.series.view import Series
from gpucost.report.view import Line, Table

_BAR = "Cost ░ idle"
_TREND = "Trend"
_METER = 10
_LONGEST_BAR = 20
_SHORTEST_SPARK = 7
# no full block: it would run into that of the line above
_HEIGHTS = "▁▂▃▄▅▆▇"
_FULL = _HEIGHTS[-1]


@dataclass(frozen=True, slots=True)
class Charts:
    """Characters for a bar and a sparkline in every line of a table; 0 where there is none."""

    bar: int = 0
    spark: int = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the columns that there are, their titles included."""
        return tuple(max(width, least) for width, least in ((self.bar, 0), (self.spark, len(_TREND))) if width)

    def grown(self, table: Table, room: int) -> Charts:
        """As wide as `room` more characters let them be: first a character for each moment, then a longer bar."""
        spark = min(self.spark + room, _moments(table)) if self.spark else 0
        left = room - (spark - self.spark)
        return Charts(min(self.bar + left, _LONGEST_BAR) if self.bar else 0, spark)

    def titles(self, table: Table, step: str) -> list[str]:
        """What stands above each of them; `step` is that of the moments."""
        has_part = any(column.bar == "part" for column in table.columns)
        titles = [(_BAR if has_part else "")] if self.bar else []
        # where several moments share a character it is not one a day any more
        each = f"By {step}" if self.spark >= _moments(table) else _TREND
        return [*titles, *([each if len(each) <= self.spark else _TREND] if self.spark else [])]

    def cells(self, table: Table) -> list[list[Text]]:
        """What is drawn beside each line."""
        top = max((_amount(line, table, "whole") for line in table.lines if not line.is_sum), default=0.0)
        drawn: list[list[Text]] = []
        for line in table.lines:
            bar = [_bar(line, table, self.bar, top)] if self.bar else []
            drawn.append([*bar, *([Text(sparkline(line.trend, self.spark), style="cyan")] if self.spark else [])])
        return drawn


def choices(table: Table) -> list[Charts]:
    """What can be drawn beside the table's lines at the least, the most telling first; nothing at last."""
    whole = any(column.bar == "whole" for column in table.columns) and len(table.lines) > 1
    bar = len(_BAR) if whole else 0
    spark = min(_SHORTEST_SPARK, _moments(table)) if _moments(table) > 1 else 0
    return list(dict.fromkeys((Charts(bar, spark), Charts(0, spark), Charts(bar, 0), Charts())))


def with_trends(table: Table, series: Series) -> Table:
    """The report's rows with the cost of each by moment, where the first stack of `series` is of the same names."""
    stack = series.stacks[0]
    if stack.title != table.title:
        return table
    names = {(layer.name, False): layer.values for layer in stack.layers if layer.kind == "named"}
    names |= {(layer.name, True): layer.values for layer in stack.layers if layer.kind in ("unallocated", "not_collected")}
    found = (names.get((str(line.cells[0]), line.is_sum), ()) for line in table.lines)
    return replace(table, lines=tuple(replace(line, trend=trend) for line, trend in zip(table.lines, found, strict=True)))


def sparkline(values: Sequence[Decimal], width: int) -> str:
    """At most `width` characters in a row, the highest value fills its height; blank is 0. Moments share one evenly."""
    count = min(width, len(values))
    edges = [at * len(values) // count for at in range(count + 1)] if count else []
    means = [float(sum(values[start:end])) / (end - start) for start, end in pairwise(edges)]
    top = max(means, default=0.0)
    return "".join(_HEIGHTS[min(int(mean / top * len(_HEIGHTS)), len(_HEIGHTS) - 1)] if mean > 0 else " " for mean in means)


def meter(share: float) -> str:
    """A share (0-1) of a whole, drawn."""
    full = min(_METER, max(round(share * _METER), 0))
    return _FULL * full + "·" * (_METER - full)


def _moments(table: Table) -> int:
    return max((len(line.trend) for line in table.lines), default=0)


def _bar(line: Line, table: Table, width: int, top: float) -> Text:
    """As long as the line's cost beside `top`, which fills the width; its idle part hatched. Sums have none."""
    whole = _amount(line, table, "whole")
    if line.is_sum or whole <= 0:
        return Text()
    length = round(width * whole / top)
    part = min(length, round(width * _amount(line, table, "part") / top))
    bar = Text(_FULL * (length - part) or ("" if part else "▏"), style="cyan")
    return bar.append("░" * part, style="yellow")


def _amount(line: Line, table: Table, role: str) -> float:
    found = (value for value, column in zip(line.cells, table.columns, strict=True) if column.bar == role)
    return float(value) if isinstance(value := next(found, None), Decimal) else 0.0
