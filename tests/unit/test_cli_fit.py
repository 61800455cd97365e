"""Tables that fit a terminal."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost import catalog
from gpucost.cli import prices as command
from gpucost.cli.app import app
from gpucost.cli.output import line_width
from gpucost.render.rows import RowFormat, fitted, left_out, render_rows
from tests import own_catalog

COLUMNS = ["price", "place", "instance type", "why", "note"]
ROWS = [
    [Decimal("1.2500"), "eu-north1", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "spot", "x" * 12],
    [Decimal("12.2900"), "us-east-1 use1-atl2-az1", "p5.48xlarge", "on demand in that place", None],
]


def table(width: int | None, weights: list[int]) -> str:
    return render_rows(*fitted(COLUMNS, ROWS, weights, width), RowFormat.table)


def test_the_heaviest_column_goes_first_and_is_named() -> None:
    assert fitted(COLUMNS, ROWS, [0] * 5, None) == fitted(COLUMNS, ROWS, [0] * 5, 110) == (COLUMNS, ROWS)
    assert fitted(COLUMNS, ROWS, [0, 0, 0, 2, 3], 78)[0] == ["price", "place", "instance type"]
    assert fitted(COLUMNS, ROWS, [0, 0, 0, 1, 2], 80)[0] == ["price", "place", "instance type", "why"]
    shown, _ = fitted(COLUMNS, ROWS, [0, 0, 0, 2, 3], 78)
    assert left_out(COLUMNS, shown) == "Left out for lack of room: why, note; --format json has all."
    assert not left_out(COLUMNS, COLUMNS)


@pytest.mark.parametrize("width", [60, 70, 80, 90, 100])
def test_lines_are_no_longer_than_the_width(width: int) -> None:
    assert max(map(len, table(width, [0, 0, 0, 0, 1]).splitlines())) <= width


def test_texts_break_between_words_and_only_then_within() -> None:
    columns, rows = fitted(COLUMNS, ROWS, [0, 0, 0, 2, 2], 44)
    assert columns == ["price", "place", "instance type"]
    assert rows == [
        [Decimal("1.2500"), "eu-north1", "gpu-h100-sxm_8gpu-"],
        [None, None, "128vcpu-1600gb"],
        [Decimal("12.2900"), "us-east-1", "p5.48xlarge"],
        [None, "use1-atl2-az1", None],
    ]


def test_width_is_that_of_columns_or_none_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert line_width() == line_width(Path("out.txt")) == 93
    monkeypatch.delenv("COLUMNS")
    assert line_width(Path("out.txt")) is None


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", [[], ["H100"], ["a3-highgpu-8g", "--all-regions", "--superseded"]])
def test_prices_fit_the_terminal(words: list[str], width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = own_catalog.write(tmp_path / "pricing")
    monkeypatch.setattr(catalog, "pricing_dir", lambda: directory)
    monkeypatch.setattr(command, "_today", lambda _: date(2026, 11, 21))
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
