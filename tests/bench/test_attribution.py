"""Inventory, prices and attribution compared with careful pandas code and a bare group by, day by day, and their growth."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import linear_regression, median

import duckdb
import numpy as np
import pytest

from tests.bench.conftest import Stores
from tests.bench.measured import Page, step

pytestmark = pytest.mark.bench

SMALL, LARGE, FEWER_DAYS = (2_000, 7), (10_000, 30), (10_000, 10)
# Targets: speedup over the peer from an empty store; a tiny fleet in process; attribution alone over a bare group by; memory, and
# with three times as many days; exponents of growth; one more day after 28 stored days over one after 3.
FROM_NOTHING, TINY, BARE, PEAK_MB, FLAT, EXPONENT, ONE_MORE_DAY = 10, 0.25, 8, 1000, 1.1, 1.05, 1.2
ROUNDS = 2
GROWTH = ((100, 10), (1_000, 30), FEWER_DAYS, LARGE)


def named(fleet: tuple[int, int]) -> str:
    return f"{fleet[0]:,} GPUs × {fleet[1]} days"


def test_fleet_made_by_sql_is_the_loaded_fleet(stores: Stores, tmp_path: Path) -> None:
    """No row: the large stores have the figures that loading the samples of the same fleet gives."""
    step("fill", tmp_path / "store.duckdb", 80, 3)
    step("attribute", tmp_path / "store.duckdb")
    figures = []
    for path in (tmp_path / "store.duckdb", stores.attributed(80, 3).path):
        with duckdb.connect(str(path), read_only=True) as con:
            sums = con.execute("SELECT count(*), sum(samples), sum(idle_samples), count(step_ms) FROM blocks")
            figures.append(sums.fetchall())
            figures[-1] += con.execute(
                "SELECT namespace, sum(cost), sum(idle_cost) FROM cost_daily JOIN allocations USING (allocation_id) "
                "GROUP BY ALL ORDER BY ALL"
            ).fetchall()
    assert figures[0] == figures[1]
    assert figures[0][0][0] > 1.5 * figures[0][0][3], "hours with late scrapes"


def test_first_attribution_is_faster_than_merge_asof(stores: Stores, page: Page) -> None:
    peers, ours = [], []
    for number in range(ROUNDS):
        peer = step("merge_asof", *SMALL)[1]
        peers.append(peer.pop("cpu"))
        path = stores.copied(*SMALL, f"round{number}")
        ours.append(step("attribute", path)[1]["all"])
        found = step("bare", path)[1]
        found.pop("cpu")
        assert found == pytest.approx(peer, rel=0.005)
    usual, own = median(peers), median(ours)
    assert page.row(
        f"inventory, prices and attribution of a new store, {named(SMALL)}",
        f"≥ {FROM_NOTHING} ×",
        usual >= FROM_NOTHING * own,
        f"{own:.2f} s, {math.prod(SMALL) * 1440 / 1e6 / own:.0f} M samples/s",
        f"pandas merge_asof {usual:.1f} s",
        f"{usual / own:.1f} ×",
        why=stores.attributed(*SMALL).parts,
    )


def test_tiny_fleet_is_attributed_quickly(stores: Stores, page: Page) -> None:
    taken = step("tiny", stores.copied(8, 1, "tiny"))[1]
    why = f"first {taken[0]:.2f} s with all imports; the statements of every stage are planned each time."
    again = min(taken[1:])
    assert page.row(
        "a tiny fleet, attributed in process", f"≤ {TINY} s", again <= TINY, f"{again:.2f} s", why=why
    )


def test_attribution_of_a_large_fleet(stores: Stores, page: Page) -> None:
    found = stores.attributed(*LARGE)
    ours, bare = found.measured["attribute"], step("bare", found.path)[1]["cpu"]
    cells = f"{ours:.1f} s", f"bare group by {bare:.2f} s", f"{ours / bare:.1f} ×"
    name = f"attribution alone, {named(LARGE)}"
    assert page.row(name, f"≤ {BARE} ×", ours <= BARE * bare, *cells, why=found.parts)


def test_memory_is_bounded_and_flat_in_days(stores: Stores, page: Page) -> None:
    peak, fewer = stores.attributed(*LARGE).peak_mb, stores.attributed(*FEWER_DAYS).peak_mb
    cells = f"{peak:,.0f} MB", f"{FEWER_DAYS[1]} days {fewer:,.0f} MB", f"{peak / fewer:.2f} ×"
    met = peak <= PEAK_MB and peak <= FLAT * fewer
    assert page.row(f"memory, {named(LARGE)}", f"≤ {PEAK_MB} MB, ≤ {FLAT} ×", met, *cells)


def test_attribution_grows_linearly(stores: Stores, page: Page) -> None:
    points = [(math.prod(fleet), stores.attributed(*fleet).measured["all"]) for fleet in GROWTH]

    def exponent(some: list[tuple[int, float]]) -> float:
        """The slope of a line through the logarithms, by least squares."""
        return linear_regression(*np.log(some).T.tolist()).slope

    whole, upper = exponent(points), exponent(points[1:])
    cells = ", ".join(f"{seconds:.2f} s" for _, seconds in points), "", f"exponents {whole:.2f}, {upper:.2f}"
    assert page.row(
        f"growth from {points[0][0]:,} and from {points[1][0]:,} to {points[-1][0]:,} GPU-days",
        f"exponent ≤ {EXPONENT}",
        max(whole, upper) <= EXPONENT,
        *cells,
        why=f"the largest: {stores.attributed(*LARGE).parts}",
    )


def test_one_more_day_costs_little_more_with_more_stored_days(stores: Stores, page: Page) -> None:
    taken = {}
    for stored in (3, 28):
        path = stores.folder_of(1_000, stored, "day") / "store.duckdb"
        fleet = (path, 1_000, stored + 1)
        step("large", *fleet, 0, stored)
        step("attribute", path)
        step("large", *fleet, stored, stored + 1)
        taken[stored] = step("attribute", path)[1]
    ours, usual = taken[28]["all"], taken[3]["all"]
    slowest = ", ".join(f"`{name}` {seconds:.2f}" for name, seconds in taken[28]["slowest"].items())
    covered = "inventory and prices cover all stored data, attribution the new day and the previous one"
    why = f"{covered}; slowest statements: {slowest}."
    cells = f"{ours:.2f} s", f"with 3 stored {usual:.2f} s", f"{ours / usual:.2f} ×"
    name = "one more day of 1,000 GPUs, with 28 days stored"
    assert page.row(name, f"≤ {ONE_MORE_DAY} ×", ours <= ONE_MORE_DAY * usual, *cells, why=why)
