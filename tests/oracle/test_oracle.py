"""The second calculation against the figures of every case, and the written cases against what tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import Figures, calculate, read_book
from tests.replay.build import write
from tests.replay.cases import CASES_TOLD
from tests.replay.cases.words import Case
from tests.replay.compare import FLEET_HOURS, FLEET_MONEY, HOURS, MONEY, differences, slack_of_pods
from tests.replay.fleet import CASES, all_cases, read_expected, read_fleet
from tests.replay.scrape import scrape


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_figures_are_the_expected_ones_add_up_and_are_those_of_the_samples(case: Path) -> None:
    fleet, expected, book = read_fleet(case), read_expected(case), read_book(case / "prices.csv")
    bill = calculate(fleet, book)
    wrong = differences(
        "total", bill.total.rounded(), expected["total"], (*HOURS, *FLEET_HOURS, *MONEY, *FLEET_MONEY), {}
    )
    for told in expected["by_namespace"]:
        figures = bill.namespaces.get((told["cluster"], told["namespace"]), Figures())
        wrong += differences(told["namespace"], figures.rounded(), told, (*HOURS, *MONEY), {})
    for told in expected["by_pod"]:
        figures = bill.pods.get((told["cluster"], told["namespace"], told["pod"], told["uid"]), Figures())
        wrong += differences(told["pod"], figures.rounded(), told, (*HOURS, *MONEY), {})
    assert not wrong
    assert len(bill.pods) == len(expected["by_pod"])
    total = bill.total
    assert total.cost + total.unallocated_cost == total.node_cost
    assert (
        total.active_gpu_hours + total.idle_gpu_hours + total.unmeasured_gpu_hours
        == total.allocated_gpu_hours
    )
    assert (
        total.allocated_gpu_hours + total.unallocated_gpu_hours - total.over_allocated_gpu_hours
        == total.capacity_gpu_hours
    )
    # samples tell each edge to a scrape
    sampled = calculate(fleet, book, series=scrape(fleet, lean=True)).total
    edges = [(float(pod.get("count") or 4), 10.0, 2) for pod in fleet["pods"]] * 2
    assert not differences(
        "total", sampled.rounded(), expected["total"], (*HOURS, *MONEY), slack_of_pods(fleet, edges)
    )


@pytest.mark.parametrize("case", CASES_TOLD, ids=lambda case: case.name)
def test_written_cases_are_those_that_are_told(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path / case.name)
    for file in ("fleet.json", "prices.csv", "expected.json"):
        assert (tmp_path / case.name / file).read_text() == (CASES / case.name / file).read_text(), (
            "run python -m tests.replay.build"
        )
