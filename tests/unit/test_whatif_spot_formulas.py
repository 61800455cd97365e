"""What must hold of closed forms and simulation, whatever the numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpucost.whatif.spot.formulas import (
    Work,
    best_checkpoints,
    break_even_exact,
    break_even_first_order,
    exact,
    first_order,
    paid_share,
)
from gpucost.whatif.spot.rates import of_band, of_share
from gpucost.whatif.spot.simulate import expected_hours, simulate

WORKS = st.builds(
    Work,
    per_hour=st.floats(0, 0.5),
    checkpoint=st.floats(0.05, 5),
    write=st.floats(0, 0.2),
    restart=st.floats(0, 0.5),
    notice=st.sampled_from([0.0, 2 / 60]),
    nodes=st.integers(1, 16),
)


@given(WORKS, st.floats(1, 3))
def test_cost_never_falls_as_interruptions_rise(work: Work, factor: float) -> None:
    more = replace(work, per_hour=work.per_hour * factor)
    assert exact(more) >= exact(work) * (1 - 1e-12)
    assert first_order(more) >= first_order(work) * (1 - 1e-12)


@given(WORKS)
def test_exact_is_never_below_first_order_and_meets_it_without_interruptions(work: Work) -> None:
    assert exact(work) >= first_order(work) * (1 - 1e-12)
    rare = replace(work, per_hour=1e-7)
    assert exact(rare) == pytest.approx(first_order(rare), rel=1e-5)
    # the difference vanishes faster than the rate: it is of second order beside w/c, which multiplies interruptions too
    none = replace(work, per_hour=0.0)
    assert exact(none) == pytest.approx(first_order(none), rel=1e-12)


@given(WORKS.filter(lambda work: work.per_hour > 0), st.floats(1.01, 20))
def test_at_the_break_even_spot_costs_what_on_demand_does(work: Work, ratio: float) -> None:
    rate = break_even_exact(work, ratio)
    if rate is None:
        assert exact(replace(work, per_hour=0.0)) >= ratio or exact(replace(work, per_hour=5e3)) < ratio
        return
    assert exact(replace(work, per_hour=rate)) == pytest.approx(ratio, rel=1e-6)
    early = break_even_first_order(work, ratio)
    if early is not None:
        assert first_order(replace(work, per_hour=early)) == pytest.approx(ratio, rel=1e-6)
        assert rate <= early * (1 + 1e-6)


@given(WORKS, st.floats(0.1, 10))
def test_no_other_interval_beats_the_best(work: Work, factor: float) -> None:
    work = replace(work, notice=0.0)
    best = best_checkpoints(work)
    if best is None:
        assert work.write == 0 or work.gang_rate == 0
        return
    assume(work.gang_rate * work.write > 1e-9)
    optimal = exact(replace(work, checkpoint=best.exact))
    assert exact(replace(work, checkpoint=best.exact * factor)) >= optimal * (1 - 1e-9)
    assert best.young == pytest.approx(math.sqrt(2 * work.write / work.gang_rate))
    if work.gang_rate * work.write < 0.01:
        assert best.daly == pytest.approx(best.exact, rel=0.01)


@pytest.mark.parametrize(
    "work",
    [
        Work(1 / 3, 0.5),
        Work(0.05, 0.5, write=0.05, restart=0.25),
        Work(0.1, 0.5, write=0.05, restart=0.2, nodes=4),
        Work(0.1, 0.5, write=0.02, restart=0.2, notice=2 / 60, nodes=2),
        Work(3.0, 0.5, write=0.02, restart=0.2),
        Work(0.0, 0.5, write=0.02),
    ],
)
@pytest.mark.parametrize("hours", [0.7, 100.0])
def test_simulated_mean_lies_in_its_own_interval_of_the_exact_value(work: Work, hours: float) -> None:
    runs = simulate(work, hours, wait=0.1, runs=10_000, seed=0)
    assert runs is not None
    # 3.3 standard errors: one in a thousand is outside by chance, and the seed is fixed
    error = runs.paid.std(ddof=1) / math.sqrt(len(runs.paid))
    assert abs(runs.paid.mean() - expected_hours(work, hours)) <= 3.3 * error + 1e-9
    assert np.allclose(runs.elapsed - runs.paid, 0.1 * runs.interruptions)
    # every hour up is interrupted at the same rate
    assert runs.interruptions.mean() == pytest.approx(work.gang_rate * runs.paid.mean(), rel=0.05, abs=0.02)
    if hours % work.checkpoint == 0:
        assert expected_hours(work, hours) == pytest.approx(hours * exact(work))


def test_hopeless_work_is_not_simulated() -> None:
    assert simulate(Work(50.0, 1.0), 10, wait=0, runs=100, seed=0) is None
    assert exact(Work(1e4, 1.0)) == math.inf


def test_first_hours_free_is_the_share_of_lives_that_outlast_them() -> None:
    lives = np.random.default_rng(0).exponential(1 / 0.7, 1_000_000)
    assert paid_share(Work(0.7, 0.5, first_hour_free=True)) == pytest.approx(lives[lives > 1].sum() / lives.sum(), rel=0.005)


def test_bands_are_shares_of_a_month() -> None:
    assert of_share(5) * 730 == pytest.approx(-math.log(0.95))
    rate = of_band(5, 10, "catalog", None)
    assert rate.low is not None and rate.high is not None
    assert rate.low < rate.per_hour < rate.high
    assert of_band(20, 100, "catalog", None).high is None
