"""What a page says beside its report: its figures are those of the commands, and nothing stands there that has nothing to say."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.units.query import UnitQuery
from gpucost.questions.units.reading import known
from gpucost.questions.waste.anatomy import BUCKETS
from tests.asked_once import ask_findings_once
from tests.html_pages import october, sample_store
from tests.sample.build import build

pytestmark = pytest.mark.slow

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
Run = Callable[..., str]
NARROWED = ((), ("--team", "product"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """What a command prints about a month of the demo's fleet."""
    demo = build(tmp_path_factory.mktemp("demo"), MONTH, lambda _: None)

    def printed(*words: str, month: tuple[str, ...] = ("--month", "2026-02")) -> str:
        result = CliRunner().invoke(app, [*words, "--config", str(demo.path), *month])
        assert result.exit_code == 0, result.output
        return result.stdout

    with pytest.MonkeyPatch.context() as patch:
        ask_findings_once(patch)
        yield printed


def sections(page: str) -> dict[str, str]:
    """The text of each section of a page, by its title."""
    parts = re.findall(r'<section id="part-\d+">\s*<h2><bdi>(.*?)</bdi>(.*?)</section>', page, re.DOTALL)
    return {title: " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split()) for title, text in parts}


def told(run: Run, *words: str, **options: Any) -> dict[str, Any]:
    """What a command says to programs; figures are decimal, so that they are rounded as pages round money."""
    found: dict[str, Any] = json.loads(run(*words, "--format", "json", **options), parse_float=Decimal)
    return found


@pytest.mark.parametrize("narrowed", NARROWED)
def test_bars_are_what_the_command_says_of_waste(run: Run, narrowed: tuple[str, ...]) -> None:
    page = run("report", "--format", "html", *narrowed)
    text, waste = sections(page)["Where GPU time went"], told(run, "waste", *narrowed)
    titles = {bucket.name: bucket.title for bucket in BUCKETS}
    there = [row for row in waste["buckets"] if row["cost"] or row["gpu_hours"]]
    assert page.count('<span class="amount">') == len(there) > 5
    for row in there:
        assert f"{titles[row['bucket']]} ${row['cost']:,.2f} {float(row['gpu_hours']):,.1f} h;" in text
    totals = waste["totals"]
    amounts = f"${totals['wasted_cost']:,.2f} of ${totals['cost']:,.2f}, {totals['waste_ratio'] * 100:.1f} %"
    assert text.startswith(f"Wasted: {amounts}: every bar but Active")
    assert text.endswith("What to do about it: gpucost findings --month 2026-02")


@pytest.mark.parametrize("narrowed", NARROWED)
def test_unit_costs_are_those_of_the_commands(run: Run, narrowed: tuple[str, ...]) -> None:
    found = {
        title: text
        for title, text in sections(run("report", "--format", "html", *narrowed)).items()
        if "Cost per" in title
    }
    runs = sorted(told(run, "unit", "epoch", *narrowed)["runs"], key=lambda one: -one["cost"])
    lines = {"Cost per epoch": [f"{one['epochs_done']} ${one['mean_cost']:,.2f}" for one in runs[:10]]}
    models = told(run, "unit", "requests", *narrowed)["models"]
    lines["Cost per 1,000 requests"] = [f"{one['amount']:,.0f} {one['failed']:,.0f}" for one in models]
    lines["Cost per 1,000 requests"] += [f"${one['cost_per_1000']:,.4f}" for one in models]
    models = told(run, "unit", "tokens", *narrowed)["models"]
    lines["Cost per million tokens"] = [
        f"${one['cost']:,.2f} ${one['cost_per_million_tokens']:,.4f}" for one in models
    ]
    assert set(found) == {title for title, figures in lines.items() if figures}
    for title, text in found.items():
        assert all(line in text for line in lines[title])
    if len(runs) > 10:
        assert f"{len(runs) - 10} more: gpucost unit epoch --month 2026-02" in found["Cost per epoch"]


def test_a_fleet_without_progress_has_no_unit_costs(tmp_path: Path) -> None:
    query = october()
    with duckdb.connect(str(sample_store(tmp_path)), read_only=True) as con:
        assert known(con, UnitQuery(query.period, query.period_name, Config().tz, "USD")) == ()


def test_findings_are_those_of_the_command(run: Run) -> None:
    page = run("report", "--format", "html", "--findings", "4")
    text, found = sections(page)["What to do about it"], told(run, "findings")
    listed = [*found["savings"], *found["upper_bounds"]]
    shown = listed[:4]
    assert text.startswith(f"{len(listed)} findings")
    assert f"Their commands show ${found['saving_per_month']:,.2f} a month" in text
    amounts = re.findall(r"(≤ )?\$([\d,.]+) a month (?!;)", text.split("takes work first.")[1])
    assert amounts == [("≤ " if one["is_bound"] else "", f"{one['saving_per_month']:,.2f}") for one in shown]
    for one in shown:
        assert f"{one['evidence']}." in text and (one["command"] or "") in text
        assert f"Measured by {one['measured']}." in text and (one["patch"] is not None) <= (
            "What to apply" in text
        )
    assert f"{len(listed) - 4} more: gpucost findings --month 2026-02" in text
    assert "What to do about it:" not in sections(page)["Where GPU time went"]
    own = sections(run("report", "--format", "html", "--findings", "3", "--team", "product"))[
        "What to do about it"
    ]
    product = told(run, "findings", "--team", "product")
    assert own.startswith(f"{len(product['savings']) + len(product['upper_bounds'])} findings.")
    assert "What to do about it" not in sections(run("report", "--format", "html"))
