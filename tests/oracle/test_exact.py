"""The exact bill of what was scraped, against what the product made of the same samples: equal in every cell."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from tests.oracle.exact.compare import unequal
from tests.oracle.shared_cases import replayed, shared_cases
from tests.replay.fleet import Fleet, all_cases, period_of, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.shared import shared

#: Where cores and memory are charged too, or a pod reserves GPUs for others (KAI), the bill from the fleet's description is the
#: only other one.
ON_GPUS_ALONE = [case for case in all_cases() if "cost_basis" not in read_fleet(case) and case.name != "kai-fractions"]


@pytest.mark.parametrize("case", ON_GPUS_ALONE, ids=lambda case: case.name)
def test_stored_cells_are_those_of_the_exact_bill(case: Path, tmp_path: Path) -> None:
    fleet = read_fleet(case)
    _compare(fleet, scrape(fleet, lean=True), case / "prices.csv", tmp_path)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", shared_cases() or ["none"])
def test_stored_cells_of_shared_fleets_are_those_of_the_exact_bill(name: str, tmp_path: Path) -> None:
    case = shared(f"replay/cases/{name}")
    fleet = read_fleet(case)
    _compare(fleet, replayed(fleet), case / "prices.csv", tmp_path)


def _compare(fleet: Fleet, series: list[Series], prices: Path, folder: Path) -> None:
    config = write_config(fleet, folder, prices)
    store = load(fleet, series, config)
    pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(second, UTC) for second in period_of(fleet))))
    wrong = unequal(fleet, series, config, store)
    assert not wrong, "\n".join(wrong[:40])
