"""What the README shows is what the program prints."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.demo.build import build, last_months

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"(<!-- output: gpucost (.+?) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)


def test_readme_output_is_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UPDATE_GOLDEN=1 writes what the program prints into the README instead."""
    config = build(tmp_path, last_months(datetime(2026, 11, 21, tzinfo=UTC)), print)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = README.read_text()
    blocks = BLOCK.findall(text)
    assert blocks
    for head, command, shown, tail in blocks:
        result = CliRunner().invoke(app, [*command.split(), "--config", str(config.path), "--month", "2026-10"])
        assert result.exit_code == 0, result.output
        if os.environ.get("UPDATE_GOLDEN"):
            text = text.replace(head + shown + tail, head + result.stdout + tail)
        else:
            assert shown == result.stdout
    if os.environ.get("UPDATE_GOLDEN"):
        README.write_text(text)


def test_every_stage_is_explained() -> None:
    explained = (README.parent / "docs" / "attribution.md").read_text()
    package = README.parent / "gpucost"
    names = {path.stem for stage in ("inventory", "attribute") for path in (package / stage).rglob("*.sql")}
    assert names
    assert {name for name in names if not re.search(rf"`(days/|basis/)?{name}`", explained)} == set()
