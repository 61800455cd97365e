"""The second calculation against the figures of every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle import calculate, read_book
from tests.replay.fleet import all_cases, read_expected, read_fleet

KEYS = {"cluster", "namespace", "pod", "uid"}


def figures(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in KEYS}


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_figures_are_the_expected_ones_and_add_up(case: Path) -> None:
    fleet, expected, book = read_fleet(case), read_expected(case), read_book(case / "prices.csv")
    bill = calculate(fleet, book)
    total = bill.total
    assert total.rounded() == expected["total"]
    assert [(key, held.rounded()) for key, held in sorted(bill.namespaces.items())] == [
        ((row["cluster"], row["namespace"]), figures(row)) for row in expected["by_namespace"]
    ]
    assert [(key, held.rounded()) for key, held in sorted(bill.pods.items())] == [
        ((row["cluster"], row["namespace"], row["pod"], row["uid"]), figures(row))
        for row in expected["by_pod"]
    ]
    assert total.cost + total.unallocated_cost == total.node_cost
    held = total.active_gpu_hours + total.idle_gpu_hours + total.unmeasured_gpu_hours
    assert held == total.allocated_gpu_hours
    assert held + total.unallocated_gpu_hours == total.capacity_gpu_hours + total.over_allocated_gpu_hours
