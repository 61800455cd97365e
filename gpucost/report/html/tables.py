"""Tables as a page lays them out: every cell in words, with what it sorts by."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Literal

from gpucost.report.html.charts import spark, spark_words
from gpucost.report.series.view import Step
from gpucost.report.view import Column, Line, Table, Value
from gpucost.report.words import sum_text, with_arrow


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    is_text: bool
    weight: int


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` is what a number sorts by, empty for text and for what is not known; `trend` says which way a change went."""

    text: str
    value: str
    is_text: bool
    weight: int
    trend: Literal["", "up", "down"]


@dataclass(frozen=True, slots=True)
class Trend:
    path: str
    width: int
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[Cell, ...]
    flag: str | None
    trend: Trend | None


@dataclass(frozen=True, slots=True)
class Body:
    """Rows that are sorted among each other; sums stay where they are."""

    is_sum: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    sum: str | None
    note: str | None
    heads: tuple[Head, ...]
    bodies: tuple[Body, ...]
    has_trends: bool
    has_flags: bool


def grid(table: Table, currency: str, step: Step | None = None) -> Grid:
    """The whole table; trends are by `step`."""
    return Grid(
        title=table.title,
        sum=sum_text(*table.sum, currency) if table.sum else None,
        note=table.note,
        heads=tuple(Head(column.title, column.unit == "text", column.weight) for column in table.columns),
        bodies=tuple(
            Body(is_sum, tuple(_row(line, table, currency, step) for line in lines))
            for is_sum, lines in groupby(table.lines, key=lambda line: line.is_sum)
        ),
        has_trends=any(line.trend for line in table.lines) and step is not None,
        has_flags=any(line.flag for line in table.lines),
    )


def _row(line: Line, table: Table, currency: str, step: Step | None) -> Row:
    trend = Trend(spark(line.trend), len(line.trend), spark_words(line.trend, step, currency)) if line.trend and step else None
    cells = (_cell(value, column, currency) for value, column in zip(line.cells, table.columns, strict=True))
    return Row(tuple(cells), line.flag, trend)


def _cell(value: Value, column: Column, currency: str) -> Cell:
    trend = direction(value) if column.unit == "change" else ""
    return Cell(with_arrow(value, column, currency), _sorted_by(value), column.unit == "text", column.weight, trend)


def direction(change: Value) -> Literal["", "up", "down"]:
    """Which way a change of cost went; nowhere where it is a word, unknown, or nothing."""
    if isinstance(change, str) or not change:
        return ""
    return "up" if change > 0 else "down"


def _sorted_by(value: Value) -> str:
    if value is None or isinstance(value, str):
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:.9f}"
