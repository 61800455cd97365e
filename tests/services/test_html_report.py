"""The HTML report in a real Chromium: nothing executes, nothing is loaded, tables sort, text fits a desk, a phone and paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.publish.chargeback import to_html
from gpucost.questions.reconcile.statement import CLASSES
from gpucost.questions.report.page import searched
from gpucost.render.html import render
from gpucost.render.view import Table
from gpucost.texts import visible
from tests.chromium import Browser, chromium
from tests.html_pages import HOSTILE, hostile_block, hostile_store, sample_store, view
from tests.programs import require

pytestmark = pytest.mark.services

_WIDTHS = (1280, 768, 390, 320)
# Texts that are wider than what they stand in, but for those that scroll or are cut with an ellipsis on purpose.
_OVERFLOWING = """
[...document.querySelectorAll("h1, h2, h3, p, dt, dd, li, th, td, a, figcaption")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline")
  .map((one) => one.textContent.trim().slice(0, 40))
"""
# Marks of charts that stick out of the page; tables may scroll.
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
    """The index of a bundle of 200 teams, some with hostile names."""
    folder = tmp_path_factory.mktemp("index")
    coverage = view(hostile_store(folder), by=("team",)).coverage
    teams = [*HOSTILE, *(f"team-{number:03}" for number in range(200 - len(HOSTILE)))]
    figures = {
        "charge": 1234567.891,
        "cost": 1234567.891,
        "shared_cost": 12.0,
        "idle_cost": 3456.7,
        "allocated_gpu_hours": 7.0,
    }
    figures |= {"estimated_cost": 12345.0, "efficiency": 0.5, "spot_ratio": 0.25}
    totals = figures | {"unallocated_cost": 5.0, "not_collected_cost": 7.0, "node_cost": 12.0}
    manifest = {
        "month": "2026-10", "from": "2026-10-01", "to": "2026-11-01", "timezone": "UTC", "currency": "USD", "state": "estimate",
        "reasons": [HOSTILE[0]], "missing": [HOSTILE[5]], "reconciliation": {"sentence": HOSTILE[6]}, "replaces": None,
        "invoice": {
            "billed_cost": 1234567.89, "rows": 12345678, "difference": 0.0,
            "lines": [{"line": line, "rows": 1234567, "cost": 7.77} for line in ("charged", "other_bills", *CLASSES)],
        },
        "teams": [figures | {"team": team, "file": f"teams/{at}"} for at, team in enumerate(teams)], "totals": totals,
        "coverage": {
            "measured_ratio": 1.0, "price_sources": {"catalog": 1.0}, "not_collected_hours": 0.0,
            "warnings": [{"message": name, "fix": name} for name in HOSTILE],
        },
        "focus": {"version": "1.2"},
    }  # fmt: skip
    (folder / "index.html").write_text(to_html(manifest, coverage, [hostile_block()]), encoding="utf-8")
    return folder / "index.html"


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("which", ["page", "hostile", "index"])
def test_text_fits_and_nothing_runs(
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


def test_names_are_shown_as_they_are(browser: Browser, hostile: Path) -> None:
    browser.view(1280)
    browser.open(hostile)
    shown = set(browser.value('[...document.querySelectorAll("tbody th bdi")].map((one) => one.textContent)'))
    assert {visible(name) for name in HOSTILE} <= shown
    assert browser.value('document.querySelectorAll("script").length') == 1


def test_tables_sort_by_click_and_sums_stay(browser: Browser, page: Path) -> None:
    browser.view(1280)
    browser.open(page)
    rows = '[...table.querySelectorAll("tbody:not(.sum) tr")]'
    table = '[...document.querySelectorAll("table.sortable")].find((one) => one.caption.textContent === "Cost by team")'
    browser.value(f"var table = {table}; var heads = [...table.tHead.rows[0].cells]")
    sums = browser.value('[...table.querySelectorAll(".sum tr")].map((one) => one.rowIndex)')
    cost = browser.value('heads.findIndex((one) => one.textContent === "Cost")')
    costs = f"{rows}.map((one) => Number(one.cells[{cost}].dataset.v))"
    browser.value(f'heads[{cost}].querySelector("button").click()')
    assert browser.value(costs) == sorted(browser.value(costs), reverse=True)
    assert browser.value(f'heads[{cost}].getAttribute("aria-sort")') == "descending"
    browser.value(f'heads[{cost}].querySelector("button").click()')
    assert browser.value(costs) == sorted(browser.value(costs))
    names = f"{rows}.map((one) => one.cells[0].textContent)"
    browser.value('heads[0].querySelector("button").click()')
    assert browser.value(names) == sorted(browser.value(names))
    assert browser.value(f'heads[{cost}].getAttribute("aria-sort")') is None
    assert browser.value('[...table.querySelectorAll(".sum tr")].map((one) => one.rowIndex)') == sums
    efficiency = browser.value('heads.findIndex((one) => one.textContent === "Efficiency")')
    for _ in range(2):  # vision was not measured: unknown is last either way
        browser.value(f'heads[{efficiency}].querySelector("button").click()')
        assert browser.value(names)[-1] == "vision"
    assert browser.messages == []


_SHOWN = '[...document.querySelectorAll("#every-workload tbody:not(.sum) tr")].filter((one) => one.checkVisibility())'
_FOUND = 'document.querySelector("#search output").textContent'


def _type(browser: Browser, of: str, value: str) -> None:
    browser.value(
        f"var field = document.querySelector('#search [data-of=\"{of}\"]'); field.value = {json.dumps(value)}"
    )
    browser.value("field.dispatchEvent(new Event('input', {bubbles: true}))")


@pytest.mark.slow
def test_long_tables_show_ten_rows_and_all_when_asked(browser: Browser, hostile: Path) -> None:
    browser.view(1280)
    browser.open(hostile)
    assert browser.value(f"{_SHOWN}.length") == 10
    rows = browser.value('document.querySelectorAll("#every-workload tbody:not(.sum) tr").length')
    browser.value('var button = document.querySelector("#workloads .more"); button.focus()')
    assert browser.value("[button.textContent, button.getAttribute('aria-expanded')]") == [
        f"Show all {rows}",
        "false",
    ]
    browser.press("Enter")
    assert browser.value(f"{_SHOWN}.length") == rows
    assert browser.value("[button.textContent, button.getAttribute('aria-expanded')]") == [
        "Show the first 10",
        "true",
    ]
    browser.press("Enter")
    browser.view(1280, media="print")
    assert browser.value(f"{_SHOWN}.length") == rows


def test_workloads_are_searched_and_what_is_found_adds_up(browser: Browser, hostile: Path) -> None:
    browser.view(1280)
    browser.open(hostile)
    names = '[...document.querySelectorAll("#every-workload thead th")].map((one) => one.textContent)'
    columns = {name: at for at, name in enumerate(browser.value(names))}
    exact = "[...document.querySelectorAll('#every-workload tbody:not(.sum) tr')].map((one) => [...one.cells].map("
    rows = browser.value(exact + "(cell) => cell.dataset.v ?? cell.textContent.trim()))")

    def found(wanted: Callable[[list[str]], bool]) -> str:
        some = [row for row in rows if wanted(row)]
        hours, cost = (
            sum(Decimal(row[columns[title]] or 0) for row in some) for title in ("GPU-hours", "Cost")
        )
        sums = f", {hours:,.1f} GPU-hours, ${cost:,.2f}" if some else ""
        return f"{len(some):,} of {len(rows):,} rows{sums}"

    assert browser.value(_FOUND) == found(lambda _: True)
    _type(browser, "workload", "TEAM-01")
    assert browser.value(_FOUND) == found(lambda row: "team-01" in row[columns["Workload"]])
    assert not browser.value(
        "[...document.querySelectorAll('#every-workload .sum')].some((one) => one.checkVisibility())"
    )
    assert browser.value("location.hash") == "#workload=TEAM-01"
    _type(browser, "gpu", "H100")
    assert browser.value(f"{_SHOWN}.length") == 0
    browser.value("document.querySelector('#search button').click()")
    assert browser.value(_FOUND) == found(lambda _: True)
    for name in (visible(HOSTILE[0]), visible(HOSTILE[8])):
        _type(browser, "", name)
        assert browser.value(_FOUND) == found(
            lambda row, name=name: any(name.lower() in row[at].lower() for at in range(5))
        )
    assert browser.value("window.hit") is None and browser.messages == []


@pytest.mark.slow
def test_names_lead_to_their_workloads_and_to_pages_of_teams(browser: Browser, hostile: Path) -> None:
    browser.view(1280)
    browser.open(hostile)
    links = "[...document.querySelectorAll('#part-1 tbody th a')]"
    browser.value(f"{links}.find((one) => one.textContent === 'team-042').click()")
    assert browser.value(_FOUND).startswith("1 of ")
    assert browser.value("document.querySelector('#search select').value") == "team-042"
    browser.value(
        "[...document.querySelectorAll('#every-workload td a')].find((one) => one.textContent === 'team-042')"
    )
    name = "Deployment/team-042"
    browser.value(
        f"[...document.querySelectorAll('#every-workload th a')].find((one) => one.textContent === '{name}').click()"
    )
    assert browser.value("document.querySelector('#search input[data-of=workload]').value") == f'"{name}"'
    assert browser.value(_FOUND).startswith("1 of ")
    _type(browser, "workload", '"Deployment/team-04"')
    assert browser.value(_FOUND).startswith("0 of ")
    browser.value("document.querySelector('#search button').click()")
    browser.value(f"{links}.find((one) => one.textContent === 'team-042').click()")
    assert browser.value(f"{links}.filter((one) => one.getAttribute('href') === '#no').length") == 2
    assert browser.value("window.hit") is None and browser.messages == []


def test_all_charts_are_drawn(browser: Browser, page: Path) -> None:
    browser.view(1280)
    browser.open(page)
    drawn = browser.value(
        '[...document.querySelectorAll("figure")].map((one) => [one.id, '
        '[...one.querySelectorAll("svg svg path, .heat rect")].filter((mark) => mark.getBoundingClientRect().width > 1).length])'
    )
    assert [name for name, _ in drawn] == ["cost-0", "cost-1", "cost-2", "hours-0", "heat-1", "heat-2"]
    assert all(count > 0 for _, count in drawn)
    assert browser.value('document.querySelectorAll(".spark path").length') > 3


@pytest.mark.slow
def test_it_prints(browser: Browser, page: Path) -> None:
    browser.view(1280)
    browser.open(page)
    browser.send("Emulation.setEmulatedMedia", media="")
    assert browser.pdf().startswith(b"%PDF")
    browser.view(1280, dark=True, media="print")
    paper, ink = browser.value(_BRIGHTNESS)
    assert paper == 255 and ink == 0
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
