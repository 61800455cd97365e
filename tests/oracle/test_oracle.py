"""Compare the exact bill of each case's scrapes with the true figures, to within one scrape interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import calculate, read_book
from tests.oracle.test_exact import ON_GPUS_ALONE
from tests.replay.check import wrong_figures
from tests.replay.fleet import read_fleet


@pytest.mark.parametrize("case", ON_GPUS_ALONE, ids=lambda case: case.name)
def test_figures_match_the_truth_and_add_up(case: Path) -> None:
    bill = calculate(read_fleet(case), read_book(case / "prices.csv"))
    total = bill.total
    assert wrong_figures(case, bill.pods, total) == []
    assert total.cost + total.unallocated_cost == total.node_cost
    held = total.active_gpu_hours + total.idle_gpu_hours + total.unmeasured_gpu_hours
    assert held == total.allocated_gpu_hours
    assert held + total.unallocated_gpu_hours == total.capacity_gpu_hours + total.over_allocated_gpu_hours
