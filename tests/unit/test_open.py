"""`gpucost open`: the page, where it lies, and who opens it."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

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


def test_a_page_of_ones_own(
    store: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "cache/gpucost/report.html"
    ask = (*OCTOBER, "--store", str(store))
    assert call("open", *ask)[0] == f"{page}\n" and opened == []
    assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
    assert page.read_text(encoding="utf-8") == call("report", *ask, "--format", "html")[0]
    monkeypatch.setattr("gpucost.questions.report.page.page", lambda *given: given[3])
    monkeypatch.setenv("DISPLAY", ":0")
    out, err = call("open", *ask, "--team", "research")
    assert (opened, out) == ([page.as_uri()], f"{page}\n") and "opened in your browser" in err
    assert "Monthly GPU report: research" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
