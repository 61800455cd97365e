"""`gpucost prices` and `gpucost prices tco` as they look, character by character. UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost import catalog
from gpucost.cli import prices as command
from gpucost.cli.app import app
from tests import own_catalog

GOLDEN = Path(__file__).parent / "prices"
NODE = """purchase_price = 262800
gpus_per_node = 8
gpu_model = "H100"
years = 4
price_per_kwh = 0.1
residual_percent = 20
utilization_percent = 50
"""
CALLS = {
    "h100": ["H100"],
    "a3_superseded": ["a3-highgpu-8g", "--all-regions", "--superseded"],
    "overview": [],
    "tco": ["tco", "node.toml"],
}


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json"])
@pytest.mark.parametrize("name", CALLS)
def test_format(name: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = own_catalog.write(tmp_path / "pricing")
    monkeypatch.setattr(catalog, "pricing_dir", lambda: directory)
    monkeypatch.setattr(command, "_today", lambda _: date(2026, 11, 21))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.toml").write_text(NODE)
    result = CliRunner().invoke(app, ["prices", *CALLS[name], "--format", format])
    assert result.exit_code == 0, result.output
    text = f"{result.stdout}--- stderr\n{result.stderr}"
    golden = GOLDEN / f"{name}.{format}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
