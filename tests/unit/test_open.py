"""`gpucost open`: the page, where it lies, and who opens it."""

from __future__ import annotations

import shutil
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.config.model import Config


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The addresses that a browser was asked for; the cache is a folder of the test's own."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not addresses.append(address))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return addresses


def run(demo: Config, *words: str) -> Result:
    return CliRunner().invoke(app, ["open", "--month", "2026-10", "--config", str(demo.path), *words])


def test_a_page_of_ones_own(demo: Config, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "cache/gpucost/report.html"
    result = run(demo)
    assert (result.exit_code, result.stdout, opened) == (0, f"{page}\n", [])
    assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
    report = CliRunner().invoke(app, ["report", "--month", "2026-10", "--format", "html", "--config", str(demo.path)])
    assert page.read_text(encoding="utf-8") == report.stdout
    monkeypatch.setenv("DISPLAY", ":0")
    result = run(demo, "--team", "research")
    assert opened == [page.as_uri()] and "opened in your browser" in result.stderr and result.stdout == f"{page}\n"
    assert "Monthly GPU report: research" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600


def test_a_page_elsewhere(demo: Config, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    result = run(demo, "--no-browser", "-o", str(tmp_path / "october.html"))
    assert (result.stdout, opened) == (f"{tmp_path / 'october.html'}\n", [])
    (tmp_path / "cache").write_text("no folder")
    failed = run(demo)
    assert failed.exit_code == 1 and "cannot make" in failed.stderr and "-o names a file" in failed.stderr


def test_a_page_with_shared_costs(demo: Config, opened: list[str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(demo.path.parent, tmp_path / "demo"))
    config = folder / "gpucost.toml"
    rule = '[[shared_costs]]\nname = "Notebooks"\nof = "namespaces"\nnamespaces = ["ml-research"]\nsplit = "even"\n'
    config.write_text(config.read_text() + rule)
    call = ["--month", "2026-10", "--config", str(config)]
    shown = CliRunner().invoke(app, ["open", *call])
    assert shown.exit_code == 0 and "Notebooks" in Path(shown.stdout.strip()).read_text(encoding="utf-8")
    shared = CliRunner().invoke(app, ["report", *call, "--share-unallocated", "proportional", "--format", "html"])
    assert shared.exit_code == 0 and "All workloads" in shared.stdout
