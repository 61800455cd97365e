"""What docs/whatif.md shows is what the program prints, on the demo store."""

from __future__ import annotations

import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.demo.build import build, last_months

PAGE = Path(__file__).parents[2] / "docs" / "whatif.md"
BLOCK = re.compile(r"(<!-- output: gpucost (.+?) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
BLOCKS = BLOCK.findall(PAGE.read_text())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = build(tmp_path_factory.mktemp("demo"), last_months(datetime(2026, 11, 21, tzinfo=UTC)), print).path
    assert path is not None
    return path


@pytest.mark.parametrize(
    ("head", "command", "shown", "tail"),
    [pytest.param(*block, marks=[] if not at else [pytest.mark.slow], id=block[1]) for at, block in enumerate(BLOCKS)],
)
@pytest.mark.usefixtures("nowhere")
def test_shown_output_is_the_programs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, head: str, command: str, shown: str, tail: str
) -> None:
    """The first needs no store. UPDATE_GOLDEN=1 writes what the program prints into the page instead."""
    monkeypatch.setenv("COLUMNS", "120")
    where = [] if command == BLOCKS[0][1] else ["--config", str(request.getfixturevalue("demo"))]
    result = CliRunner().invoke(app, [*shlex.split(command), *where])
    assert result.exit_code == 0, result.output
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(PAGE.read_text().replace(head + shown + tail, head + result.stdout + tail))
    else:
        assert shown == result.stdout


def test_there_is_output() -> None:
    assert len(BLOCKS) > 1
