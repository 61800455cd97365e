"""A fleet that serves models, scraped by a real Prometheus: `gpucost unit tokens` gives the figures of an exact calculation."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.periods import Period, time_buckets
from tests.oracle import Bill, calculate, read_book
from tests.oracle.tokens import Row, figures, increases, prices, rows_of
from tests.replay.cases.words import at
from tests.replay.load import write_config
from tests.replay.scrape import scrape
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.replay.tokens import BOOK, HOURS, SETTINGS, serving, works, write

pytestmark = [pytest.mark.services, pytest.mark.slow]

KEY = ("namespace", "workload", "model", "day")
POOLS = {"Deployment/pair-prefill": "prefill", "Deployment/pair-decode": "decode"}
#: Hours of the fleet: all of it, each day of Berlin, a night, hours of one day, and from the middle of one to that of another.
WHOLE = (0, HOURS)
PERIODS = {
    "whole": WHOLE,
    "first": (0, 23),
    "second": (23, 47),
    "third": (47, HOURS),
    "night": (19, 28),
    "hours": (33, 37),
    "noons": (11, 35),
}


@dataclass(frozen=True)
class Collected:
    """A store that commands fill."""

    folder: Path

    def run(self, *words: str, hours: tuple[float, float]) -> Result:
        """What a command says of these hours."""
        start, end = (datetime.fromtimestamp(at(hour), UTC).isoformat() for hour in hours)
        config = ("--config", str(self.folder / "gpucost.toml"), "--from", start, "--to", end)
        result = CliRunner().invoke(app, [*words, *config])
        assert result.exit_code == 0, result.output
        return result

    def answer(self, *words: str, hours: tuple[float, float]) -> dict[str, Any]:
        """What a command answers of these hours; numbers with a point are decimals."""
        answer: dict[str, Any] = json.loads(self.run(*words, "--format", "json", hours=hours).stdout, parse_float=Decimal)
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
    """The oracle's rows, and the bill of the period."""
    described, book = serving(), read_book(folder / "prices.csv")
    series = scrape(described)

    def bill(start: float, end: float) -> Bill:
        return calculate(described, book, (start, end), series=series)

    start, end = at(hours[0]), at(hours[1])
    period = Period(*(datetime.fromtimestamp(second, UTC) for second in (start, end)))
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
@pytest.mark.parametrize("name", PERIODS)
def test_figures_are_those_of_the_exact_calculation(name: str, basis: str, collected: Collected) -> None:
    hours, keeps_idle = PERIODS[name], basis == "used"
    answer = collected.answer("unit", "tokens", "--basis", basis, hours=hours)
    truth, bill = _truth(hours, collected.folder, keeps_idle)
    due = {tuple(row[key] for key in KEY): {**row, **prices(row)} for row in figures(truth, keeps_idle)}
    rows = {tuple(row[key] for key in KEY): row for row in answer["rows"]}
    assert rows.keys() == due.keys()
    for key, row in due.items():
        assert {name: rows[key][name] for name in row} == {name: _exact(value) for name, value in row.items()}, key
    for row in (*answer["rows"], *answer["models"], answer["totals"]):
        parts = row["prompt_cost"] + row["generation_cost"] + row["unserved_cost"]
        assert parts == row["cost"] - (row["idle_cost"] if keeps_idle else 0)
    # nothing is lost: pods without work, work without pods
    assert answer["totals"]["cost"] == _exact(sum((row.cost for row in truth), Fraction(0)))
    assert answer["totals"]["allocated_cost"] == _exact(sum((of.cost for of in bill.pods.values()), Fraction(0)))
    assert [row["workload"] for row in answer["cost_without_work"]] == ["Deployment/silent"]
    lost: dict[str, int] = defaultdict(int)
    for work, _, amount in increases(works(), {}, at(hours[0]), at(hours[1]), at(0)):
        if work.pod == "ghost-0":
            lost[work.unit] += amount
    assert {row["unit"]: row["amount"] for row in answer["work_without_cost"]} == lost


@pytest.mark.parametrize("name", PERIODS)
def test_workloads_cost_what_the_report_says_by_pools_and_models(name: str, collected: Collected) -> None:
    hours = PERIODS[name]
    reported = {
        (row["namespace"], row["workload"]): row["cost"]
        for row in collected.answer("report", "--by", "namespace,workload", hours=hours)["rows"]
        if row["kind"] == "allocated"
    }
    costs: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in collected.answer("unit", "tokens", "--by", "namespace,workload,model", hours=hours)["rows"]:
        costs[row["namespace"], row["workload"]] += row["cost"]
    pools = ("Deployment/pair-prefill", "Deployment/pair-decode")
    assert costs.pop(("split", " + ".join(pools))) == sum(reported.pop(("split", pool)) for pool in pools)
    assert reported.pop(("serve", "Deployment/silent"))
    assert costs == reported


@pytest.mark.parametrize("name", PERIODS)
def test_two_pools_count_and_cost_what_one_does(name: str, collected: Collected) -> None:
    answer = collected.answer("unit", "tokens", "--by", "namespace,model", hours=PERIODS[name])
    by_namespace = {row["namespace"]: row for row in answer["rows"] if row["model"] == "big"}
    split, joined = by_namespace["split"], by_namespace["joined"]
    for column in ("cost", "prompt_tokens", "cached_tokens", "generation_tokens", "cost_per_million_tokens"):
        assert split[column] == joined[column], column
    if split["prompt_tokens"]:
        # each phase costs its pool, one GPU to three
        assert (split["prompt_cost"] * 3, split["unserved_cost"]) == (split["generation_cost"], 0)


def test_what_was_collected_piece_by_piece_is_the_same(collected: Collected, url: str, tmp_path: Path) -> None:
    pieces = _configured(tmp_path, url)
    pieces.run("collect", "prometheus", hours=WHOLE)
    for hours in ((0, 7), (7, 26.5), (26.5, 30), (29, 34.5), (34, HOURS)):
        pieces.run("collect", "progress", hours=hours)
    for hours in PERIODS.values():
        assert pieces.answer("unit", "tokens", hours=hours) == collected.answer("unit", "tokens", hours=hours)


def test_bad_input_is_said(collected: Collected) -> None:
    """Collecting again replaces; mappings of one's own that match nothing are named, ready-made ones are not."""
    before = collected.answer("unit", "tokens", hours=WHOLE)
    said = collected.run("collect", "progress", hours=WHOLE).stderr
    assert "[[units]] 'answers' matched no series in this period; the server has no metric vllm:prompt_token_total" in said
    assert "fix: did you mean vllm:prompt_tokens_total?" in said
    assert "[[units]] 'elsewhere' matched no series in this period\n    fix: check its match" in said
    assert said.count("matched no series") == 2
    assert collected.answer("unit", "tokens", hours=WHOLE) == before
