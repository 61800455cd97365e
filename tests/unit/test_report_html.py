"""The HTML page as text: what it may load, that names stay names, that it is the same every time. tests/services look at it."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpucost.config.model import Config
from gpucost.questions.reconcile.statement import LINES, Basis, ClassRow, Reconciliation, Statement
from gpucost.questions.report.page import reconciled
from gpucost.render.charts import spark, tick_texts, ticks
from gpucost.render.html import Bar, Block, render
from gpucost.render.view import Column, Figure, Line, PriceSource, Table
from gpucost.store.connection import Store
from gpucost.texts import shortened, visible
from tests.golden.report_fleet import stored
from tests.html_pages import HOSTILE, hostile_store, october, view

_VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """What a page is made of; fails where tags are not closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


store = stored(hours=240)


@pytest.fixture(scope="module")
def page(store: Path) -> str:
    return render(view(store))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    name = HOSTILE[0]
    block = Block(
        name,
        intro=name,
        figures=(Figure(name, Decimal(3), "money", 0.5, name),),
        bars=(Bar(name, Decimal(2), "money", name), Bar("less", Decimal(-1), "money")),
        table=Table(
            name,
            (Column(name, "text"), Column("Cost", "money", 2)),
            (Line((name, None), flag=name),),
            note=name,
        ),
    )
    report = view(hostile_store(tmp_path_factory.mktemp("hostile")), by=("team", "namespace"))
    return render(replace(report, coverage=replace(report.coverage, reconciliation=name)), blocks=[block])


def test_it_needs_nothing_else(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "use", "image")
        assert "src" not in attributes and "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#") or attributes["href"] == "data:,"
    assert not re.search(r"https?://|@import|url\(", page)


def test_only_its_own_style_and_script_may_run(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; ") and "unsafe" not in policy[1]
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_names_stay_names(hostile: str) -> None:
    parsed = Page(hostile)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1
    assert not any(tag in ("b", "img") for tag, _ in parsed.tags)
    text = " ".join(" ".join(parsed.texts).split())
    assert all(" ".join(visible(name).split()) in text for name in HOSTILE)
    assert not re.search("[\x00-\x08\x1b\u202e]", hostile)


def test_all_teams_are_in_it(hostile: str) -> None:
    rows = re.findall(r'<th scope="row"><bdi>(team-\d{3})</bdi>', hostile)
    assert len(set(rows)) == 200 - len(HOSTILE)
    assert "193 others" in hostile


def test_tables_are_accessible(page: str) -> None:
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert len(tables) >= 8
    for table in tables:
        assert re.search(r"<caption>[^<]", table)
        assert '<th scope="col"' in table and '<th scope="row"' in table


def test_every_figure_of_the_view_is_on_the_page(page: str, store: Path) -> None:
    from gpucost.render.formatting import cell, value_of

    report = view(store)
    texts = set(Page(page).texts)
    for section in report.sections:
        if isinstance(section, Table):
            shown = [
                cell(value, column, report.currency)
                for line in section.lines
                for value, column in zip(line.cells, section.columns, strict=True)
            ]
        else:
            shown = [value_of(figure, report.currency) for figure in section.figures]
        assert set(shown) - {""} <= texts


def test_a_narrowed_report_and_shared_costs(store: Path) -> None:
    assert ">Unallocated by weekday" not in render(view(store, teams=("research",)))
    shared = render(view(store, share_unallocated="proportional"))
    assert shared.count("Cost by team before sharing, by day") > 1 and "before sharing" not in render(
        view(store)
    )
    place = re.search(
        r'before it is shared\. What each was charged is in the column Charged of <a href="#(part-\d)"',
        shared,
    )
    assert place and ">Charged<" in shared.split(f'<section id="{place[1]}">')[1].split("</section>")[0]


@pytest.mark.parametrize(
    ("highest", "texts"),
    [
        ("0", ["$0", "$1"]),
        ("4.9", ["$0", "$1", "$2", "$3", "$4", "$5"]),
        ("3226", ["$0", "$1,000", "$2,000", "$3,000", "$4,000"]),
        ("10560", ["$0", "$2.5k", "$5.0k", "$7.5k", "$10.0k", "$12.5k"]),
        ("0.03", ["$0", "$0.01", "$0.02", "$0.03"]),
        ("7000000", ["$0", "$2M", "$4M", "$6M", "$8M"]),
    ],
)
def test_lines_of_a_chart(highest: str, texts: list[str]) -> None:
    values = ticks(Decimal(highest))
    assert values[-1] >= Decimal(highest)
    assert tick_texts(values, "money", "USD") == texts


def test_names_beside_charts_are_short() -> None:
    assert shortened("x" * 253, 40) == "x" * 39 + "…"
    assert shortened("a\nb\u202ec", 40) == "a b\\u202ec"


def test_sparklines() -> None:
    assert spark([]) == spark([Decimal(0)]) == ""
    assert spark([Decimal(2), Decimal(0), Decimal(1)]) == "M0 20v-20h.8v20zM2 20v-10h.8v10z"


def test_the_bill_of_the_month_is_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = dict.fromkeys(LINES, Decimal(0)) | {
        "attributed": Decimal("70.25"),
        "unallocated": Decimal("29.75"),
    }
    costs: dict[Basis, Decimal] = {"billed": Decimal(1200), "effective": Decimal(110)}
    whole = tuple(
        Statement.of(basis, "USD", 7, cost, [ClassRow("tax", None, 7, cost)]) for basis, cost in costs.items()
    )
    account = Reconciliation(
        "2026-10", "USD", ("aws",), True, True, (), whole, (), Decimal(100), 744.0, 3, lines, Decimal(0),
        (), (), (), (), (), (), (), Decimal(100), Decimal(0),
    )  # fmt: skip
    monkeypatch.setattr("gpucost.questions.report.page.reconciliation", lambda *_: account)
    report, query = view(store), october()
    assert reconciled(Config(), Store(store), query, report) is report
    billed = replace(
        report, coverage=replace(report.coverage, price_sources=(PriceSource("bill", 1.0, None, None),))
    )
    told = reconciled(Config(), Store(store), query, billed)
    assert told.coverage.reconciliation == (
        "bill of aws (final, billing period 2026-10 UTC): 1,200.00 USD billed, 110.00 USD effective; "
        "100.00 USD for 3 GPU machines = 70.25 attributed to teams + 29.75 unallocated: nobody held the GPUs; every cent is named"
    )
    assert told.coverage.reconciliation in Page(render(told)).texts
    assert reconciled(Config(), Store(store), october(teams=("research",)), billed) is billed
