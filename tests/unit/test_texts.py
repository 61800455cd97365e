"""What a label holds that no reader sees, and a terminal obeys, is shown as its number wherever people read it."""

from __future__ import annotations

import csv
import io
import unicodedata
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucost.cli.output import note, print_error
from gpucost.http import excerpt
from gpucost.render.data import to_csv
from gpucost.render.markdown import render as to_markdown
from gpucost.render.rows import RowFormat, render_rows
from gpucost.render.terminal import render as to_terminal
from gpucost.render.view import Column, Figure, Figures, Item, Items, Line, Page, Table, Texts
from gpucost.texts import one_line, visible
from tests.html_pages import hostile_store, view

HOSTILE = "a\x1b[2Jb\u202ec\u200bd\x07e\u2028f\x9bg\r"
SHOWN = "a\\x1b[2Jb\\u202ec\\u200bd\\x07e\\u2028f\\x9bg\\x0d"
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def hidden(text: str) -> set[str]:
    """Characters that should not be there, line ends and tabs apart."""
    return {letter for letter in text if letter not in "\n\t" and unicodedata.category(letter) in OBEYED}


@given(st.text())
def test_nothing_is_left_that_nobody_sees(text: str) -> None:
    assert not hidden(visible(text).replace("\t", ""))
    assert not hidden(one_line(text)) and "\n" not in one_line(text)


@given(st.text(alphabet=st.characters(exclude_categories=(*OBEYED, "Cn", "Co"))))
def test_what_is_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_pages_show_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert visible(HOSTILE) == SHOWN
    table = Table(HOSTILE, (Column(HOSTILE, "text"),), (Line((HOSTILE,), HOSTILE),), HOSTILE)
    sections = (
        table,
        Figures(HOSTILE, (Figure(HOSTILE, HOSTILE, "text", 0.5, HOSTILE),)),
        Texts(HOSTILE, (HOSTILE,), HOSTILE),
        Items((Item(HOSTILE, Decimal(1), "money", HOSTILE, HOSTILE, HOSTILE, patch=HOSTILE),), HOSTILE),
    )
    page = Page(title=HOSTILE, subtitle=HOSTILE, currency="USD", sections=sections)
    terminal, markdown = to_terminal(page, None, color=False), to_markdown(page)
    assert terminal.count(SHOWN) >= 13 and not hidden(terminal)
    assert not hidden(markdown) and "x1b" in markdown
    print_error(HOSTILE, HOSTILE)
    note(HOSTILE)
    assert capsys.readouterr().err == f"error: {SHOWN}\nfix: {SHOWN}\n{SHOWN}\n"
    # on one line all that breaks lines is a blank
    assert excerpt(HOSTILE) == one_line(HOSTILE) == SHOWN.replace("\\u2028", " ").removesuffix("\\x0d")


def test_reports_and_rows_show_hidden_characters(tmp_path: Path) -> None:
    report = view(hostile_store(tmp_path), by=("team", "namespace"))
    for text in (to_terminal(report, 200, color=False), to_markdown(report), to_csv(report)):
        assert not hidden(text) and "\\u202egnp.exe" in text.replace("\\\\", "\\")
    for kind in (RowFormat.table, RowFormat.markdown, RowFormat.csv):
        assert not hidden(render_rows(("a", HOSTILE), [(HOSTILE, 1)], kind))
    (line,) = csv.reader(io.StringIO(render_rows(("a",), [(HOSTILE,)], RowFormat.csv).splitlines()[1]))
    assert line == [visible(HOSTILE.replace("\r", ""))]
