"""The HTML report in a real Chromium: no script or request escapes, tables sort, text fits desktop, phone and paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.questions.report.page import searched
from gpucost.render.html import render
from gpucost.render.view import Table
from gpucost.texts import visible
from tests.chromium import Browser, chromium
from tests.golden.report_fleet import alone
from tests.html_pages import HOSTILE, hostile_block, hostile_store, sample_store, view
from tests.programs import require

pytestmark = pytest.mark.services

_WIDTHS = (1280, 768, 390, 320)
# Texts wider than their container, except texts that scroll or have an ellipsis on purpose.
_OVERFLOWING = """
[...document.querySelectorAll("h1, h2, h3, p, dt, dd, li, th, td, a, figcaption")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline")
  .map((one) => one.textContent.trim().slice(0, 40))
"""
# Chart marks outside of the page; tables may scroll.
_OUTSIDE = """
[...document.querySelectorAll("svg *, figure, .cards > div")]
  .filter((one) => !one.closest(".wide"))
  .map((one) => one.getBoundingClientRect())
  .filter((box) => box.width && (box.left < -1 || box.right > innerWidth + 1)).length
"""
_BRIGHTNESS = """
(() => {
  const light = (text) => text.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
  const style = getComputedStyle(document.body);
  return [light(style.backgroundColor), light(style.color)];
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require("chromium", package="chromium")
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(render(view(sample_store(folder))), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    report = view(hostile_store(folder), by=("team", "namespace"))
    report = replace(report, coverage=replace(report.coverage, reconciliation=HOSTILE[0]))
    every = view(
        folder / "hostile.duckdb",
        by=("workload", "team", "namespace", "cluster", "gpu_model"),
        with_series=False,
    )
    table = next(one for one in every.sections if isinstance(one, Table))
    text = render(report, blocks=[searched(table), hostile_block()], pages=dict.fromkeys(HOSTILE[:2], "#no"))
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of a bundle of 200 teams, some with hostile names."""
    folder = tmp_path_factory.mktemp("index")
    words = ["chargeback", "--month", "2026-10", "--out", str(folder), "--store", str(hostile_store(folder))]
    with pytest.MonkeyPatch.context() as patch:
        alone(folder, patch)
        assert CliRunner().invoke(app, words).exit_code in (0, 4)
    return next(folder.rglob("index.html"))


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("which", ["page", "hostile", "index"])
def test_text_fits_and_no_script_runs(
    browser: Browser, request: pytest.FixtureRequest, which: str, width: int, dark: bool
) -> None:
    browser.view(width, dark=dark)
    file: Path = request.getfixturevalue(which)
    browser.open(file)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(_OVERFLOWING) == []
    assert browser.value(_OUTSIDE) == 0
    assert browser.value("window.hit") is None
    assert browser.messages == []
    assert browser.requests == [file.as_uri()]
    page, ink = browser.value(_BRIGHTNESS)
    assert (page < 50 and ink > 200) if dark else (page > 200 and ink < 60)


def test_tables_sort_by_click_and_sums_stay(browser: Browser, page: Path) -> None:
    opened(browser, page)
    table = '[...document.querySelectorAll("table.sortable")].find((one) => one.caption.textContent === "Cost by team")'
    browser.value(f"var table = {table}; var heads = [...table.tHead.rows[0].cells]")
    titles = browser.value("heads.map((one) => one.textContent)")
    cost, efficiency = titles.index("Cost"), titles.index("Efficiency")
    sums = '[...table.querySelectorAll(".sum tr")].map((one) => one.rowIndex)'
    before = browser.value(sums)

    def sorted_by(column: int, shown: str) -> list[Any]:
        browser.value(f'heads[{column}].querySelector("button").click()')
        return list(browser.value(f'[...table.querySelectorAll("tbody:not(.sum) tr")].map((one) => {shown})'))

    costs, name = f"Number(one.cells[{cost}].dataset.v)", "one.cells[0].textContent"
    order = f'heads[{cost}].getAttribute("aria-sort")'
    falling = sorted_by(cost, costs)
    assert falling == sorted(falling, reverse=True) and browser.value(order) == "descending"
    assert sorted_by(cost, costs) == sorted(falling)
    names = sorted_by(0, name)
    assert names == sorted(names) and browser.value(order) is None
    # vision is unmeasured: unknown sorts last in both directions
    assert [sorted_by(efficiency, name)[-1] for _ in range(2)] == ["vision", "vision"]
    assert browser.value(sums) == before
    assert browser.messages == []


_SHOWN = '[...document.querySelectorAll("#every-workload tbody:not(.sum) tr")].filter((one) => one.checkVisibility())'
_FOUND = 'document.querySelector("#search output").textContent'


def opened(browser: Browser, page: Path) -> None:
    """Open the page at desktop width."""
    browser.view(1280)
    browser.open(page)


def _type(browser: Browser, of: str, value: str) -> None:
    browser.value(f"""
        var field = document.querySelector('#search [data-of="{of}"]'); field.value = {json.dumps(value)};
        field.dispatchEvent(new Event('input', {{bubbles: true}}))""")


def test_searched_workloads_add_up(browser: Browser, hostile: Path) -> None:
    opened(browser, hostile)
    names = '[...document.querySelectorAll("#every-workload thead th")].map((one) => one.textContent)'
    columns = {name: at for at, name in enumerate(browser.value(names))}
    exact = "[...document.querySelectorAll('#every-workload tbody:not(.sum) tr')].map((one) => [...one.cells].map("
    rows = browser.value(exact + "(cell) => cell.dataset.v ?? cell.textContent.trim()))")

    def found(wanted: Callable[[list[str]], bool]) -> str:
        some = [row for row in rows if wanted(row)]
        hours, cost = (
            sum(Decimal(row[columns[name]] or 0) for row in some) for name in ("GPU-hours", "Cost")
        )
        sums = f", {hours:,.1f} GPU-hours, ${cost:,.2f}" if some else ""
        return f"{len(some):,} of {len(rows):,} rows{sums}"

    assert browser.value(_FOUND) == found(lambda _: True)
    _type(browser, "workload", "TEAM-01")
    assert browser.value(_FOUND) == found(lambda row: "team-01" in row[columns["Workload"]])
    sums = "[...document.querySelectorAll('#every-workload .sum')].some((one) => one.checkVisibility())"
    assert not browser.value(sums)
    assert browser.value("location.hash") == "#workload=TEAM-01"
    _type(browser, "gpu", "H100")
    assert browser.value(f"{_SHOWN}.length") == 0
    browser.value("document.querySelector('#search button').click()")
    assert browser.value(_FOUND) == found(lambda _: True)
    for name in (visible(HOSTILE[0]), visible(HOSTILE[8])):
        _type(browser, "", name)
        some = found(lambda row, name=name: any(name.lower() in cell.lower() for cell in row[:5]))
        assert browser.value(_FOUND) == some
    assert browser.value("window.hit") is None and browser.messages == []


def test_all_charts_are_drawn(browser: Browser, page: Path) -> None:
    opened(browser, page)
    drawn = browser.value(
        '[...document.querySelectorAll("figure")].map((one) => [one.id, '
        '[...one.querySelectorAll("svg svg path")].filter((mark) => mark.getBoundingClientRect().width > 1).length])'
    )
    assert [name for name, _ in drawn] == ["cost-0", "cost-1", "cost-2", "hours-0"]
    assert all(count > 0 for _, count in drawn)
    assert browser.value('document.querySelectorAll(".spark path").length') > 3


@pytest.mark.slow
def test_print_shows_all_rows_on_white(browser: Browser, hostile: Path) -> None:
    """On a screen, a long table shows ten rows, and all on demand."""
    opened(browser, hostile)
    rows = browser.value('document.querySelectorAll("#every-workload tbody:not(.sum) tr").length')
    assert browser.value(f"{_SHOWN}.length") == 10 < rows
    for _ in range(2):
        browser.value('document.querySelector("#workloads .more").focus()')
        browser.press("Enter")
        rows, before = browser.value(f"{_SHOWN}.length"), rows
    assert (rows, before > 10) == (10, True)
    browser.send("Emulation.setEmulatedMedia", media="")
    assert browser.pdf().startswith(b"%PDF")
    browser.view(1280, dark=True, media="print")
    assert browser.value(f"{_SHOWN}.length") == before
    assert browser.value(_BRIGHTNESS) == [255, 0]
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
