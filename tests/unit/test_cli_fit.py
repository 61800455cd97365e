"""Tables that fit a terminal."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.cli.output import line_width
from gpucost.questions import prices as command
from gpucost.render.terminal import render
from gpucost.render.view import Column, Line, Page, Table, Unit
from tests import own_catalog

COLUMNS = ["Price", "Place", "Instance type", "Why", "Note"]
ROWS = (
    (Decimal("1.2500"), "eu-north1", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "spot", "x" * 12),
    (Decimal("12.2900"), "us-east-1 use1-atl2-az1", "p5.48xlarge", "on demand in that place", ""),
)


def table(width: int | None, weights: list[int]) -> list[str]:
    """The lines of the table below the page's title, and what is said of it."""
    units: tuple[Unit, ...] = ("price", "text", "text", "text", "text")
    columns = tuple(
        Column(name, unit, 4, weight) for name, unit, weight in zip(COLUMNS, units, weights, strict=True)
    )
    page = Page(
        title="Prices",
        currency="USD",
        sections=(Table("", columns, tuple(map(Line, ROWS))),),
        whole_in="json",
    )
    return render(page, width, color=False).splitlines()[2:]


def test_the_heaviest_column_goes_first_and_is_named() -> None:
    assert table(None, [0] * 5) == table(120, [0] * 5)
    assert table(None, [0] * 5)[0].split("  ")[-1] == "Note"
    without = table(80, [0, 0, 0, 2, 3])
    assert "Why" not in without[0]
    assert without[-1] == "  Left out for lack of room: Why, Note; --format json has all."
    narrowed = table(82, [0, 0, 0, 1, 2])
    assert "Why" in narrowed[0]
    assert narrowed[-1] == "  Left out for lack of room: Note; --format json has all."


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_are_no_longer_than_the_width(width: int) -> None:
    assert max(map(len, table(width, [0, 0, 0, 0, 1]))) <= width


def test_texts_break_between_words_and_only_then_within() -> None:
    lines = [line.split() for line in table(46, [0, 0, 0, 2, 2])[1:-1]]
    assert lines[:4] == [
        ["$1.2500", "eu-north1", "gpu-h100-sxm_8gpu-"],
        ["128vcpu-1600gb"],
        ["$12.2900", "us-east-1", "p5.48xlarge"],
        ["use1-atl2-az1"],
    ]


def test_width_is_that_of_columns_or_none_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert line_width() == line_width(Path("out.txt")) == 93
    monkeypatch.delenv("COLUMNS")
    assert line_width(Path("out.txt")) is None


PRICES: tuple[list[str], ...] = ([], ["H100"], ["a3-highgpu-8g", "--all-regions", "--superseded"])


@pytest.mark.parametrize(
    ("words", "width"),
    [
        (PRICES[-1], 80),
        *(pytest.param(words, width, marks=pytest.mark.slow) for words in PRICES for width in (80, 120)),
    ],
)
def test_prices_fit_the_terminal(
    words: list[str], width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = own_catalog.write(tmp_path / "pricing")
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "today_in", lambda _: date(2026, 11, 21))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["prices", *words])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert "As of" in result.stdout and "Per GPU-h" in result.stdout
    # 2025-06-30 is over 90 days ago: its age stands with it, however narrow the terminal
    if "2025-06-30" in result.stdout:
        assert "(509d)" in result.stdout and "are over 90 days old" in result.stdout
