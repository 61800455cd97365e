"""The text of the HTML page: content policy, escaped names, all figures. tests/services render it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest

from gpucost.config.model import Config
from gpucost.questions.reconcile.statement import LINES, ClassRow, Reconciliation, Statement
from gpucost.questions.report.page import reconciled
from gpucost.render.charts import spark, tick_texts, ticks
from gpucost.render.formatting import cell, value_of
from gpucost.render.html import render
from gpucost.render.view import Table
from gpucost.store.connection import Store
from tests.golden.report_fleet import stored
from tests.html_pages import HOSTILE, hostile_block, hostile_store, october, view
from tests.text_tables import text_rows

_VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """The tags and texts of a page; fails if tags are not balanced."""

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
    report = view(hostile_store(tmp_path_factory.mktemp("hostile")), by=("team", "namespace"))
    return render(
        replace(report, coverage=replace(report.coverage, reconciliation=HOSTILE[0])),
        blocks=[hostile_block()],
    )


def test_page_is_self_contained_and_allows_only_its_own_style_and_script(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "use", "image")
        assert not [name for name in attributes if name in ("src", "style") or name.startswith("on")]
        assert re.match("#|data:,$", attributes.get("href") or "#")
    assert not re.search(r"https?://|@import|url\(", page)
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_page_lists_all_teams(hostile: str) -> None:
    rows = re.findall(r'<th scope="row"><bdi>(team-\d{3})</bdi>', hostile)
    assert len(set(rows)) == 200 - len(HOSTILE)
    assert "193 others" in hostile


def test_page_has_every_figure_of_the_view(page: str, store: Path) -> None:
    report = view(store)
    shown = set()
    for section in report.sections:
        if isinstance(section, Table):
            cells = [zip(line.cells, section.columns, strict=True) for line in section.lines]
            shown |= {cell(value, column, report.currency) for value, column in chain(*cells)}
        else:
            shown |= {value_of(figure, report.currency) for figure in section.figures}
    assert shown - {""} <= {*Page(page).texts}


def test_filtered_report_and_shared_costs(store: Path, page: str) -> None:
    assert ">Unallocated by weekday" not in render(view(store, teams=("research",)))
    shared = render(view(store, share_unallocated="proportional"))
    assert shared.count("Cost by team before sharing, by day") > 1 and "before sharing" not in page
    note = 'before sharing. The charged amounts are in the column Charged of <a href="#'
    section = shared.partition(f'<section id="{shared.partition(note)[2].partition(chr(34))[0]}">')[2]
    assert ">Charged<" in section.partition("</section>")[0]


TICKS = """
0       | $0 $1
4.9     | $0 $1 $2 $3 $4 $5
3226    | $0 $1,000 $2,000 $3,000 $4,000
10560   | $0 $2.5k $5.0k $7.5k $10.0k $12.5k
0.03    | $0 $0.01 $0.02 $0.03
7000000 | $0 $2M $4M $6M $8M"""


@pytest.mark.parametrize(("highest", "texts"), text_rows(TICKS))
def test_ticks_of_a_chart(highest: str, texts: str) -> None:
    values = ticks(Decimal(highest))
    assert values[-1] >= Decimal(highest) and tick_texts(values, "money", "USD") == texts.split()


def test_sparkline_paths() -> None:
    assert spark([]) == spark([Decimal(0)]) == ""
    assert spark([Decimal(2), Decimal(0), Decimal(1)]) == "M0 20v-20h.8v20zM2 20v-10h.8v10z"


def test_page_has_the_reconciliation_of_the_month(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amounts = {"attributed": Decimal("70.25"), "unallocated": Decimal("29.75")}
    whole = tuple(
        Statement.of(basis, "USD", 7, cost, [ClassRow("tax", None, 7, cost)])
        for basis, cost in (("billed", Decimal(1200)), ("effective", Decimal(110)))
    )
    account = Reconciliation(
        "2026-10", "USD", ("aws",), True, True, (), whole, (), Decimal(100), 744.0, 3, dict.fromkeys(LINES, Decimal(0)) | amounts,
        Decimal(0), *((),) * 6, Decimal(100), Decimal(0),
    )  # fmt: skip
    monkeypatch.setattr("gpucost.questions.report.page.reconciliation", lambda *_: account)
    report, query = view(store), october()
    assert reconciled(Config(), Store(store), query, report) is report
    billed = replace(report, coverage=replace(report.coverage, price_sources={"bill": 1.0}))
    found = reconciled(Config(), Store(store), query, billed)
    assert found.coverage.reconciliation == (
        "bill of aws (final, billing period 2026-10 UTC): 1,200.00 USD billed, 110.00 USD effective; "
        "100.00 USD for 3 GPU machines = 70.25 attributed to teams + 29.75 unallocated GPUs; every cent is explained"
    )
    assert found.coverage.reconciliation in Page(render(found)).texts
    assert reconciled(Config(), Store(store), october(teams=("research",)), billed) is billed
