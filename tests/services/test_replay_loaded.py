"""Every described fleet, loaded without a server, gives its true figures: what is wrong there is not the collecting."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from tests.replay.check import check_figures
from tests.replay.fleet import all_cases, period_of, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.waste import check_waste


@pytest.mark.slow
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_fleet_gives_its_true_figures(case: Path, tmp_path: Path) -> None:
    fleet = read_fleet(case)
    config = write_config(fleet, tmp_path, case / "prices.csv")
    store = load(fleet, scrape(fleet, lean=True), config)
    start, end = (datetime.fromtimestamp(second, UTC) for second in period_of(fleet))
    pipeline.attribute(config, store, Period(start, end))
    check_figures(case, store)
    check_waste(config, store, Period(start, end))
