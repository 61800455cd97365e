"""A fleet that serves models in a real Prometheus: `gpucost unit tokens` matches an exact calculation."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.periods import Period, from_ms, iso, time_buckets
from tests.oracle import Bill, calculate, read_book
from tests.oracle.tokens import Row, figures, increases, prices, rows_of
from tests.replay.cases.words import at
from tests.replay.load import write_config
from tests.replay.scrape import scrape
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.replay.tokens import BOOK, HOURS, SETTINGS, serving, works, write
from tests.text_tables import named_rows
from tests.unit.command import call

pytestmark = [pytest.mark.services, pytest.mark.slow]

KEY = ("namespace", "workload", "model", "day")
POOLS = {"Deployment/pair-prefill": "prefill", "Deployment/pair-decode": "decode"}
#: Hours of the fleet: all, each day in Berlin time, a night, hours of one day, and from noon to noon.
WHOLE = (0, HOURS)
PERIODS = """
whole  | 0  | 50
first  | 0  | 23
second | 23 | 47
third  | 47 | 50
night  | 19 | 28
hours  | 33 | 37
noons  | 11 | 35
"""


@dataclass(frozen=True)
class Collected:
    """Return a store filled by commands."""

    folder: Path

    def run(self, *words: str, hours: tuple[float, float]) -> str:
        """Return the output of a command for these hours."""
        start, end = (iso(from_ms(at(hour) * 1000)) for hour in hours)
        return call(*words, "--config", str(self.folder / "gpucost.toml"), "--from", start, "--to", end)[0]

    def answer(self, *words: str, hours: tuple[float, float]) -> dict[str, Any]:
        """Return the JSON answer of a command for these hours; numbers with a point are decimals."""
        output = self.run(*words, "--format", "json", hours=hours)
        answer: dict[str, Any] = json.loads(output, parse_float=Decimal)
        return answer


def _configured(folder: Path, url: str) -> Collected:
    folder.mkdir(exist_ok=True)
    (folder / "prices.csv").write_text(BOOK)
    write_config(serving(), folder, folder / "prices.csv", url, cluster="main")
    with (folder / "gpucost.toml").open("a") as file:
        file.write(SETTINGS)
    return Collected(folder)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_prometheus()
    with prometheus_over_text(write, tmp_path_factory.mktemp("tokens") / "prometheus") as url:
        yield url


@pytest.fixture(scope="module")
def collected(url: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    store = _configured(tmp_path_factory.mktemp("collected"), url)
    for source in ("prometheus", "progress"):
        store.run("collect", source, hours=WHOLE)
    return store


def _truth(hours: tuple[float, float], folder: Path, keeps_idle: bool) -> tuple[list[Row], Bill]:
    """Return the oracle's rows, and the bill of the period."""
    described, book = serving(), read_book(folder / "prices.csv")
    series = scrape(described)

    def bill(start: float, end: float) -> Bill:
        return calculate(described, book, (start, end), series=series)

    start, end = map(at, hours)
    period = Period(from_ms(start * 1000), from_ms(end * 1000))
    days = [
        (day.day, day.from_ms // 1000, day.to_ms // 1000, bill(day.from_ms / 1000, day.to_ms / 1000))
        for day in time_buckets(period, ZoneInfo(described["timezone"]), ("day",))
    ]
    bound = {pod["name"]: pod["scheduled"] for pod in described["pods"]}
    known = increases(works(), bound, start, end, at(0))
    seen = [work for work in works() if work.samples()[0][0] < end and work.samples()[-1][0] >= start]
    return rows_of(seen, known, days, POOLS, keeps_idle), bill(start, end)


def _exact(value: Any) -> Any:
    return Decimal(value.numerator) / Decimal(value.denominator) if isinstance(value, Fraction) else value


@pytest.mark.parametrize("basis", ["allocated", "used"])
@pytest.mark.parametrize(("start", "end"), named_rows(PERIODS))
def test_figures_match_the_exact_calculation(start: str, end: str, basis: str, collected: Collected) -> None:
    hours, keeps_idle = (int(start), int(end)), basis == "used"
    answer = collected.answer("unit", "tokens", "--basis", basis, hours=hours)
    truth, bill = _truth(hours, collected.folder, keeps_idle)
    due = {tuple(row[key] for key in KEY): {**row, **prices(row)} for row in figures(truth, keeps_idle)}
    rows = {tuple(row[key] for key in KEY): row for row in answer["rows"]}
    assert rows.keys() == due.keys()
    for key, row in due.items():
        exact = {name: _exact(value) for name, value in row.items()}
        assert {name: rows[key][name] for name in row} == exact, key
    for row in (*answer["rows"], *answer["models"], answer["totals"]):
        parts = row["prompt_cost"] + row["generation_cost"] + row["unserved_cost"]
        assert parts == row["cost"] - (row["idle_cost"] if keeps_idle else 0)
    # totals are complete: pods without work, work without pods
    totals = answer["totals"]
    assert totals["cost"] == _exact(sum((row.cost for row in truth), Fraction(0)))
    assert totals["allocated_cost"] == _exact(sum((of.cost for of in bill.pods.values()), Fraction(0)))
    assert [row["workload"] for row in answer["cost_without_work"]] == ["Deployment/silent"]
    lost: dict[str, int] = defaultdict(int)
    for work, _, amount in increases(works(), {}, at(hours[0]), at(hours[1]), at(0)):
        if work.pod == "ghost-0":
            lost[work.unit] += amount
    assert {row["unit"]: row["amount"] for row in answer["work_without_cost"]} == lost
