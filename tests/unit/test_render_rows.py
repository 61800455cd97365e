"""Rows as tables that fit the width of a terminal."""

from __future__ import annotations

from gpucost.price.listing import ListedPrice
from gpucost.questions import prices
from gpucost.render.rows import RowFormat, folded, render_rows
from gpucost.render.view import text

COLUMNS = ("name", "started", "cost")
ROWS = [("a-long-name-without-blanks", "2026-03-10T00:00:00Z", 1234.5), ("b", "2026-03-11T00:00:00Z", 7)]


def test_table_fits_its_width_without_splitting_figures() -> None:
    for width in range(30, 90):
        lines = render_rows(COLUMNS, ROWS, RowFormat.table, width).splitlines()
        assert max(map(len, lines[:-1])) <= width
        assert any("1234.5" in line for line in lines) or "1 columns left out" in lines[-1]


def test_table_without_a_width_has_every_column_on_one_line() -> None:
    assert render_rows(COLUMNS, ROWS, RowFormat.table).splitlines() == [
        "name                        started                 cost",
        "--------------------------  --------------------  ------",
        "a-long-name-without-blanks  2026-03-10T00:00:00Z  1234.5",
        "b                           2026-03-11T00:00:00Z       7",
    ]


def test_words_are_broken_at_the_width() -> None:
    assert folded("abcdefgh-ij k", 4) == ["abcd", "efgh", "-ij", "k"]
    assert folded("  a b", 5) == ["  a b"]


def test_recent_prices_come_first() -> None:
    class Price:
        def __init__(self, number: int) -> None:
            self.number, self.is_stale = number, number % 2 == 0

    found: list[ListedPrice] = [Price(number) for number in range(40)]  # type: ignore[misc]
    best, others = prices._best_first(found, [text("number")])
    assert [line.cells[0] for line in best.lines] == list(range(1, 31, 2))
    assert [line.cells[0] for line in others.lines] == [*range(0, 31, 2), *range(31, 40)]
