"""A fleet of three months, scraped and attributed: a bundle for each, the same bytes when made again from a store made again."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.periods import Period, month_period
from gpucost.report import Query, build
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, MORNING, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.same_figures import check_same_figures

MONTHS = ("2026-03", "2026-04", "2026-05")
END = (datetime(2026, 6, 1, tzinfo=UTC).timestamp() - MORNING) / 3600


def three_months() -> dict[str, Any]:
    """A node that stays and a spot node that leaves in the second month; a pod that idles, and one that comes late."""
    kind = "p4de.24xlarge"
    nodes = [node("n1", kind, 0, END), node("n2", kind, 0, 900, "spot")]
    pods = [
        pod("stays", "n1", [0, 1], 1, END, "train"),
        pod("batch", "n2", [0, 1, 2], 30, 800, "train"),
        pod("late", "n1", [2, 3], 1000, END - 5, "serve"),
    ]
    # what is busy for a third of the time gives ratios that are on the edge of rounding
    return fleet(END, nodes, pods, busy("n1", [0], 1, END / 3, 33) | busy("n2", [0, 1], 30, 700, 71), scrape=7200)


def bundles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    told = three_months()
    config = write_config(told, folder, folder / "prices.csv")
    store = load(told, scrape(told, lean=True), config, hours_per_window=24 * 31)
    pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(told[key], UTC) for key in ("start", "end"))))
    for month in MONTHS:
        result = CliRunner().invoke(app, ["chargeback", "--month", month, "--out", "out"])
        assert result.exit_code in (0, 4), result.output
    return contents(folder / "out")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_three_months_give_the_same_bundles_from_the_same_scrapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bundles(tmp_path / "first", monkeypatch)
    assert bundles(tmp_path / "second", monkeypatch) == first
    out = tmp_path / "first" / "out"
    costs = {}
    config = load_config(tmp_path / "first" / "gpucost.toml")
    for month in MONTHS:
        period = month_period(date.fromisoformat(f"{month}-01"), config.tz)
        with Store(config.store).read() as con:
            query = Query(period=period, period_name=month, by=("team",), now=period.end, with_series=True)
            check_same_figures(con, build(con, config, query), month, tmp_path)
        told = json.loads((out / month / "index.json").read_text(), parse_float=Decimal)
        costs[month] = told["totals"]["node_cost"]
        assert {row["day"][:7] for row in csv.DictReader((out / month / "ledger.csv").open())} == {month}
        assert sum(team["charge"] for team in told["teams"]) + told["totals"]["unallocated_cost"] == costs[month]
    assert costs["2026-04"] > costs["2026-05"] > 0
