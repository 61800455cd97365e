"""`gpucost open`: the page, where it lies, and who opens it."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from tests.golden.report_fleet import stored
from tests.unit.command import call

store = stored(hours=48)
OCTOBER = ("--month", "2026-10")


@pytest.fixture
def opened(in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked for; the cache is a folder of the test's own."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not addresses.append(address))
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_an_empty_folder / "cache"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return addresses


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["open", *OCTOBER, "--store", str(store), *words])


def test_a_page_of_ones_own(
    store: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "cache/gpucost/report.html"
    result = run(store)
    assert (result.exit_code, result.stdout, opened) == (0, f"{page}\n", [])
    assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
    assert (
        page.read_text(encoding="utf-8")
        == call("report", *OCTOBER, "--format", "html", "--store", str(store))[0]
    )
    monkeypatch.setattr("gpucost.questions.report.page.page", lambda *given: given[3])
    monkeypatch.setenv("DISPLAY", ":0")
    result = run(store, "--team", "research")
    assert (
        opened == [page.as_uri()]
        and "opened in your browser" in result.stderr
        and result.stdout == f"{page}\n"
    )
    assert "Monthly GPU report: research" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
