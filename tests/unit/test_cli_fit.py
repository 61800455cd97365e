"""Tables that fit a terminal."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.cli.output import line_width
from gpucost.questions import prices as command
from gpucost.render.terminal import render
from gpucost.render.view import Column, Line, Page, Table, Unit
from tests import own_catalog
from tests.unit.command import call

COLUMNS = ["Price", "Place", "Instance type", "Why", "Note"]
ROWS = (
    (Decimal("1.2500"), "eu-north1", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "spot", "x" * 12),
    (Decimal("12.2900"), "us-east-1 use1-atl2-az1", "p5.48xlarge", "on demand in that place", ""),
)


def table(width: int | None, weights: list[int]) -> list[str]:
    """The lines of the table below the page's title, including the remark."""
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


@pytest.mark.parametrize(
    ("width", "weights", "left_out"),
    [(80, [0, 0, 0, 2, 3], ["Why", "Note"]), (82, [0, 0, 0, 1, 2], ["Note"])],
)
def test_heaviest_column_is_left_out_first_and_named(
    width: int, weights: list[int], left_out: list[str]
) -> None:
    assert table(None, [0] * 5) == table(120, [0] * 5)
    head, *_, last = table(width, weights)
    assert [name for name in COLUMNS if name not in head] == left_out
    assert last == f"  Columns left out to fit the width: {', '.join(left_out)}; --format json has all."


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_fit_the_width(width: int) -> None:
    assert max(map(len, table(width, [0, 0, 0, 0, 1]))) <= width


def test_texts_break_between_words_before_within_words() -> None:
    lines = [line.split() for line in table(46, [0, 0, 0, 2, 2])[1:-1]]
    assert lines[:4] == [
        ["$1.2500", "eu-north1", "gpu-h100-sxm_8gpu-"],
        ["128vcpu-1600gb"],
        ["$12.2900", "us-east-1", "p5.48xlarge"],
        ["use1-atl2-az1"],
    ]


def test_width_is_columns_or_unlimited_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert line_width() == line_width(Path("out.txt")) == 93
    monkeypatch.delenv("COLUMNS")
    assert line_width(Path("out.txt")) is None


@pytest.mark.parametrize("width", [80, pytest.param(120, marks=pytest.mark.slow)])
def test_prices_fit_the_terminal(width: int, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = own_catalog.write(nowhere / "pricing")
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "today_in", lambda _: date(2026, 11, 21))
    monkeypatch.setenv("COLUMNS", str(width))
    out, _ = call("prices", "a3-highgpu-8g", "--all-regions")
    assert max(map(len, out.splitlines())) <= width
    assert "As of" in out and "Per GPU-h" in out
    # 2025-06-30 is over 90 days ago: its age is shown at any width
    assert "2025-06-30" not in out or ("(509d)" in out and "are over 90 days old" in out)
